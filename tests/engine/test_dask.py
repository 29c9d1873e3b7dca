"""Pieces of a build on a real Dask cluster of worker processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provender.catalog import Catalog
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.errors import ProvenderError, SettingsError
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings

BUILDER = """
import time
import tensorflow_datasets as tfds


class Slow(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(400), "test": self._generate_examples(40)}

    def _generate_examples(self, count):
        for i in range(count):
            if i % 100 == 0:
                time.sleep(PAUSE)
            if FAIL and i == 300:
                raise ValueError("row 300 is bad")
            yield i, {"text": f"row {i}"}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


def project(folder: Path, *, pause: float = 0.0, fail: bool = False) -> tuple[Path, Settings]:
    folder.mkdir(exist_ok=True)
    file = folder / "slow_builder.py"
    file.write_text(BUILDER.replace("PAUSE", str(pause)).replace("FAIL", str(fail)))
    settings = load_settings(
        store=str(folder / "store"),
        catalog=f"sqlite:///{folder / 'catalog.db'}",
        cwd=folder,
        environ={"HOME": str(folder)},
    )
    return file, settings


def made(file: Path, settings: Settings, **options: Any) -> dict[str, bytes]:
    """The version's files but for its manifest, which names runs and times."""
    with Catalog.open(settings.catalog) as catalog:
        ref = DatasetRef.parse(f"{file}:Slow")
        asked = Options(num_shards=4, **options)
        version = build(open_session(ref, settings, asked, catalog=catalog)).version
    folder = Path(settings.store) / version.path
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def test_a_cluster_writes_the_bytes_that_one_process_writes(cluster: Any, tmp_path: Path) -> None:
    here = made(*project(tmp_path / "a"), workers=1)
    there = made(*project(tmp_path / "b"), engine="dask", address=cluster.scheduler_address)
    assert here == there


def test_a_killed_worker_costs_its_piece_only(cluster: Any, tmp_path: Path) -> None:
    victim = next(iter(cluster.workers.values())).pid
    killed = threading.Event()

    def kill() -> None:
        # The pieces take two seconds each, so all three workers are at work by now.
        building = tmp_path / "b" / "store" / "building"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list(building.rglob("*")):
            time.sleep(0.05)
        time.sleep(1.0)
        os.kill(victim, signal.SIGKILL)
        killed.set()

    thread = threading.Thread(target=kill)
    thread.start()
    there = made(
        *project(tmp_path / "b", pause=0.5), engine="dask", address=cluster.scheduler_address
    )
    thread.join()
    assert killed.is_set()
    here = made(*project(tmp_path / "a"), workers=1)
    assert here == there


def test_what_user_code_raises_comes_back_as_it_was(cluster: Any, tmp_path: Path) -> None:
    file, settings = project(tmp_path / "a", fail=True)
    with pytest.raises(ProvenderError, match="row 300 is bad"):
        made(file, settings, engine="dask", address=cluster.scheduler_address)


def test_an_address_where_nothing_answers(tmp_path: Path, monkeypatch: Any) -> None:
    from provender.engine import dask_pool

    monkeypatch.setattr(dask_pool, "CONNECT_SECONDS", 1)
    with pytest.raises(SettingsError, match="No Dask scheduler answers"):
        made(*project(tmp_path / "a"), engine="dask", address="tcp://127.0.0.1:9")


def test_workers_that_do_not_see_the_store(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from provender.engine import dask_pool

    monkeypatch.setattr(dask_pool, "_sees", str.isspace)
    with pytest.raises(SettingsError, match="3 of 3 Dask workers do not see"):
        made(*project(tmp_path / "a"), engine="dask", address=cluster.scheduler_address)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "dusk", "address": "tcp://a:1"}, "Did you mean dask"),
        ({"engine": "dask"}, "go together"),
        ({"address": "tcp://a:1"}, "go together"),
    ],
    ids=["unknown", "no address", "address alone"],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Options(**options)
    assert message in f"{caught.value} {caught.value.hint}"
