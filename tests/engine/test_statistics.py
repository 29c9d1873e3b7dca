"""Statistics of builds: the same however the work was divided, and no part of what TFDS reads."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from provender.catalog import Catalog
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.refs import DatasetRef
from provender.settings import load_settings
from provender.stages import statistics
from provender.store import Store

BUILDER = """
import time

import numpy as np
import tensorflow_datasets as tfds


class Notes(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    PAUSE = {pause}

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({{
                "text": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=["calm", "loud"]),
                "score": np.float32,
                "words": tfds.features.Sequence(tfds.features.Text()),
                "box": {{"rows": tfds.features.Sequence(tfds.features.Sequence(np.int64))}},
            }}),
        )

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples(3000), "test": self._generate_examples(30)}}

    def _generate_examples(self, count):
        for i in range(count):
            if self.PAUSE and i == 2500:
                open({flag!r}, "w").close()
                time.sleep(600)
            yield i, {{
                "text": f"note {{i}} " + "é" * (i % 50), "label": i % 2, "score": i / 7,
                "words": [str(j) for j in range(i % 4)],
                "box": {{"rows": [[i, i + 1]] * (i % 3)}},
            }}
"""
SHARDED = """
import tensorflow_datasets as tfds


class Sharded(tfds.core.ShardBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"text": tfds.features.Text(), "n": tfds.features.Scalar(__import__("numpy").int64)}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _shard_iterators_per_split(self, dl_manager):
        return {"train": [lambda i=i: self._some(i) for i in range(3)]}

    def _some(self, shard):
        for i in range(100):
            yield f"{shard}-{i}", {"text": "x" * i, "n": shard * 100 + i}
"""
RUN = """
import sys
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.refs import DatasetRef
from provender.settings import load_settings

home, file, workers = sys.argv[1:]
settings = load_settings(
    store=home + "/store", catalog=f"sqlite:///{home}/catalog.db", cwd=home, environ={"HOME": home}
)
build(open_session(DatasetRef.parse(file), settings, Options(workers=int(workers))))
"""


def settings_of(home: Path):
    return load_settings(
        store=str(home / "store"), catalog=f"sqlite:///{home}/catalog.db", cwd=home,
        environ={"HOME": str(home)},
    )  # fmt: skip


def written(folder: Path, pause: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "notes.py"
    file.write_text(BUILDER.format(pause=pause, flag=str(folder / "flag")))
    return file


def built(home: Path, file: Path, name: str = "Notes", **options):
    home.mkdir(parents=True, exist_ok=True)
    ref = DatasetRef.parse(f"{file}:{name}")
    session = open_session(ref, settings_of(home), Options(**({"workers": 1} | options)))
    version = build(session).version
    return version, Path(version.uri)


def stats_file(folder: Path) -> bytes:
    return (folder / statistics.FILE).read_bytes()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A version built by one process."""
    home = tmp_path_factory.mktemp("first")
    return home, *built(home, written(home))


@pytest.mark.parametrize("workers", [2, 4])
def test_the_number_of_workers_changes_nothing(first, tmp_path, workers) -> None:
    _, folder = built(tmp_path, written(tmp_path), workers=workers)
    assert stats_file(folder) == stats_file(first[2])


def test_killed_and_resumed_gives_the_same(first, tmp_path) -> None:
    """The build is killed with finished chunks behind it, and goes on with another number of workers."""
    file = written(tmp_path, pause=True)
    home = tmp_path / "home"
    home.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(home), f"{file}:Notes", "2"], start_new_session=True
    )
    end = time.monotonic() + 90
    while not (tmp_path / "flag").exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    file.write_text(BUILDER.format(pause=False, flag=str(tmp_path / "flag")))
    _, folder = built(home, file, workers=1)
    assert stats_file(folder) == stats_file(first[2])


def test_the_catalog_has_what_the_file_says(first) -> None:
    home, version, folder = first
    doc = json.loads(stats_file(folder))
    with Catalog.open(settings_of(home).catalog) as catalog:
        assert catalog.statistics(version.id) == doc["splits"]
        rows = catalog.sql("SELECT split, feature, kind, examples FROM v_statistics").rows
    assert len(rows) == 10 and ("train", "box/rows", "int", 3000) in rows
    train = doc["splits"]["train"]["features"]
    assert train["label"]["labels"]["names"] == {"0": "calm", "1": "loud"}
    assert (train["words"]["empty"], train["box/rows"]["length"]["max"]) == (750, 4)


def test_tfds_reads_and_sees_nothing_of_it(first) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(first[2]))
    assert builder.info.splits["train"].num_examples == 3000
    info = json.loads((first[2] / "dataset_info.json").read_text())
    assert all("statistics" not in each for each in info["splits"])


def test_made_again_from_the_shards_it_is_nearly_the_same(first, tmp_path) -> None:
    """All but the sample, which follows the examples' places instead of their keys."""
    home, version, folder = first
    settings = settings_of(home)
    with Catalog.open(settings.catalog) as catalog:
        kept = catalog.statistics(version.id)
        told: list = []
        again = statistics.compute(
            Store.open(settings.store), catalog, version, lambda *each: told.append(each)
        )
        assert catalog.statistics(version.id) == again
        catalog.set_statistics(version.id, kept)
    assert told[-1] == (2, 2)
    for split, doc in kept.items():
        for name, about in doc["features"].items():
            other = dict(again[split]["features"][name])
            if not about.get("frequent", {}).get("exact", True):
                about, other = ({**x, "frequent": None} for x in (about, other))
            assert other == about, name
    assert stats_file(folder)


def test_runs_of_older_code_are_read_for_what_they_lack(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(statistics, "summarizer", lambda schema: None)
    _, folder = built(tmp_path / "old", written(tmp_path))
    monkeypatch.undo()
    _, other = built(tmp_path / "new", written(tmp_path))
    assert stats_file(folder) == stats_file(other)


def test_objects_that_are_lost_are_made_again_from_shards(tmp_path) -> None:
    """A number that is published anew takes finished shards whose statistics are gone."""
    file = written(tmp_path)
    version, folder = built(tmp_path / "home", file)
    for kept in list((tmp_path / "home" / "store" / "objects").rglob("statistics.json")):
        shutil.rmtree(kept.parent)
    file.write_text(file.read_text().replace('"1.0.0"', '"1.1.0"'))
    second, newer = built(tmp_path / "home", file)
    one, other = (json.loads(stats_file(each)) for each in (folder, newer))
    assert second.id != version.id
    assert one["splits"]["test"] == other["splits"]["test"]
    assert other["splits"]["train"]["examples"] == 3000


def test_a_version_without_statistics_is_adopted_as_it_is(tmp_path) -> None:
    """Files of a version that older code published, and a catalog that does not know them."""
    file = written(tmp_path)
    _, folder = built(tmp_path / "home", file)
    (folder / statistics.FILE).unlink()
    manifest = json.loads((folder / ".provender/manifest.json").read_text())
    del manifest["metadata"][statistics.FILE]
    (folder / ".provender/manifest.json").write_bytes(
        json.dumps(manifest, indent=1, sort_keys=True).encode()
    )
    (tmp_path / "home" / "catalog.db").unlink()
    version, again = built(tmp_path / "home", file)
    assert again == folder and not (folder / statistics.FILE).exists()
    with Catalog.open(settings_of(tmp_path / "home").catalog) as catalog:
        assert catalog.statistics(version.id) == {"train": {}, "test": {}}


def test_a_lost_file_is_put_back_byte_for_byte(tmp_path) -> None:
    file = written(tmp_path)
    _, folder = built(tmp_path / "home", file)
    before = stats_file(folder)
    (folder / statistics.FILE).unlink()
    for kept in list((tmp_path / "home" / "store" / "objects").rglob("statistics.json")):
        shutil.rmtree(kept.parent)
    built(tmp_path / "home", file)
    assert stats_file(folder) == before


def test_shards_that_come_from_iterators(tmp_path) -> None:
    file = tmp_path / "sharded.py"
    file.write_text(SHARDED)
    _, one = built(tmp_path / "one", file, "Sharded")
    _, two = built(tmp_path / "two", file, "Sharded", workers=2)
    assert stats_file(one) == stats_file(two)
    features = json.loads(stats_file(one))["splits"]["train"]["features"]
    assert features["n"]["numbers"]["mean"] == 149.5
    assert (features["text"]["empty"], features["text"]["characters"]["max"]) == (3, 99)


def test_figures_that_cannot_be_had_do_not_stop_a_build(tmp_path, monkeypatch, caplog) -> None:
    from provender.statistics import Collection

    def broken(*_):
        raise RuntimeError("a fault in the statistics")

    monkeypatch.setattr(Collection, "add", broken)
    version, folder = built(tmp_path, written(tmp_path))
    assert version.examples == 3030 and not (folder / statistics.FILE).exists()
    assert any("a fault in the statistics" in each.message for each in caplog.records)
