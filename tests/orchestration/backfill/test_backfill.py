"""Filling in a span of dates: what is left to do, doing it, being stopped, going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from provender.catalog import Catalog
from provender.errors import SettingsError
from provender.orchestration.backfill import plan_backfill
from provender.settings import Settings, load_settings

BUILDER = """
import pathlib
import time
import tensorflow_datasets as tfds


class News(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    PARTITIONED_BY = "day"

    def _info(self):
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(self.builder_config.name)}

    def _generate_examples(self, name):
        if (pathlib.Path(__file__).parent / f"broken-{name}").exists():
            raise ValueError(f"{name} is broken")
        yield 0, {"text": name}
"""


class Place:
    """A project with one dataset that is cut by days."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "news.py").write_text(BUILDER)
        (root / "provender.toml").write_text(
            'store = "store"\nhome = "home/provender"\nworkers = 1\n\n'
            '[datasets.news]\nbuilder = "news.py:News"\npartition = "day"\n'
        )

    @property
    def settings(self) -> Settings:
        file = str(self.root / "provender.toml")
        return load_settings(file=file, environ={"HOME": str(self.root / "home")})

    def start(self, *options: str, name: str = "news") -> subprocess.Popen[str]:
        program = "from provender.cli import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", program, "backfill", name, *options],
            cwd=self.root, env={**os.environ, "HOME": str(self.root / "home")}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def run(self, *options: str, name: str = "news", code: int = 0) -> dict[str, Any]:
        process = self.start(*options, "--json", name=name)
        out, errors = process.communicate(timeout=600)
        assert process.returncode == code, errors + out
        found: dict[str, Any] = json.loads(out)
        return found

    def built(self) -> list[str]:
        with Catalog.open(self.settings.catalog) as catalog:
            return sorted(each.config for each in catalog.versions("news"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def states(found: dict[str, Any]) -> dict[str, str]:
    return {each["name"][-2:]: each["state"] for each in found["pieces"]}


def record(catalog: Catalog, config: str, outcome: str) -> None:
    run = catalog.begin_run("build", "news", config, "1.0.0")
    catalog.finish_run(run, outcome, {})


@pytest.mark.parametrize(
    ("reprocess", "expected"),
    [
        (
            "none",
            {"01": "waiting", "02": "left", "03": "waiting", "04": "waiting", "05": "waiting"},
        ),
        ("failed", dict.fromkeys(("01", "02", "03", "04", "05"), "waiting")),
        ("completed", dict.fromkeys(("01", "02", "03", "04", "05"), "waiting")),
    ],
)
def test_what_is_left_to_do(tmp_path, reprocess, expected) -> None:
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.db'}") as catalog:
        record(catalog, "2026-11-02", "succeeded")
        record(catalog, "2026-11-02", "failed")
        record(catalog, "2026-11-03", "interrupted")
        catalog.begin_run("build", "news", "2026-11-04", "1.0.0")
        record(catalog, "2026-11-05", "succeeded")
        plan = plan_backfill(catalog, "news", "day", "2026-11-01", "2026-11-05", reprocess)
        assert {each.name[-2:]: each.state for each in plan.pieces} == expected
        why = {each.name[-2:]: each.why for each in plan.pieces}
        assert why["01"] == "never built"
        assert "does not stand any more" in why["05"] or reprocess == "completed"


def test_an_unknown_way_of_reprocessing_names_the_nearest(tmp_path) -> None:
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.db'}") as catalog:
        with pytest.raises(SettingsError, match="'fail'") as caught:
            plan_backfill(catalog, "news", "day", "2026-11-01", "2026-11-05", "fail")
    assert "Did you mean failed?" in str(caught.value)


def test_a_dry_run_builds_nothing(place) -> None:
    found = place.run("--from", "2026-11-01", "--to", "2026-11-03", "--dry-run")
    assert found["counts"] == {"waiting": 3} and place.built() == []


def test_one_date_that_fails_stops_no_other(place) -> None:
    (place.root / "broken-2026-11-02").touch()
    span = ("--from", "2026-11-01", "--to", "2026-11-03", "--max-parallel", "2")
    first = place.run(*span, code=1)
    assert states(first) == {"01": "built", "02": "failed", "03": "built"}
    assert "2026-11-02 is broken" in first["pieces"][1]["why"]
    (place.root / "broken-2026-11-02").unlink()
    assert states(place.run(*span)) == {"01": "cached", "02": "left", "03": "cached"}
    again = place.run(*span, "--reprocess", "failed")
    assert states(again) == {"01": "cached", "02": "built", "03": "cached"}
    everything = place.run(*span, "--reprocess", "completed")
    assert everything["counts"] == {"cached": 3}
    assert {each["why"] for each in everything["pieces"]} == {"nothing had changed"}


@pytest.mark.parametrize(
    "kind", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_what_was_stopped_goes_on(place, kind) -> None:
    days = 6
    span = ("--from", "2026-11-01", "--to", f"2026-11-{days:02d}", "--max-parallel", "2")
    process = place.start(*span)
    deadline = time.monotonic() + 200
    while len(place.built()) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.3)
    process.send_signal(kind)
    process.communicate(timeout=60)
    assert process.returncode == (130 if kind == signal.SIGINT else -signal.SIGKILL)
    time.sleep(1)
    before = place.built()
    assert len(before) < days
    found = place.run(*span)
    assert set(found["counts"]) == {"built", "cached"}
    assert place.built() == [f"2026-11-{day:02d}" for day in range(1, days + 1)]
    assert place.run(*span)["counts"] == {"cached": days}


def test_a_dataset_that_is_not_cut_by_time_says_what_is_missing(place) -> None:
    toml = place.root / "provender.toml"
    toml.write_text(toml.read_text().replace('partition = "day"', ""))
    error = place.run("--from", "2026-11-01", "--to", "2026-11-03", code=2)["error"]
    assert "[datasets.news]" in error["where"] and 'partition = "day"' in error["hint"]


def test_an_unknown_dataset_is_told_with_what_comes_near(place) -> None:
    error = place.run("--from", "2026-11-01", "--to", "2026-11-03", name="newz", code=3)["error"]
    assert error["type"] == "UnknownReference" and "'newz'" in error["message"]
    assert error["facts"]["near"] == ["news"] and "news" in error["hint"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--via", "airflow", "--workers", "2"), "--workers is for builds on this machine"),
        (("--airflow-url", "http://127.0.0.1:9"), "--airflow-url is for builds by Airflow"),
        (("--via", "prefect"), "Nobody called 'prefect' builds"),
        (("--via", "airflow"), "Nothing says where Airflow is"),
    ],
)
def test_options_that_do_not_go_together(place, options, said) -> None:
    error = place.run("--from", "2026-11-01", "--to", "2026-11-03", *options, code=2)["error"]
    assert said in error["message"]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_thirty_days_killed_then_interrupted_then_done_then_nothing_to_do(place) -> None:
    span = ("--from", "2026-11-01", "--to", "2026-11-30", "--max-parallel", "2")
    for enough, kind in ((4, signal.SIGKILL), (12, signal.SIGINT)):
        process = place.start(*span)
        while len(place.built()) < enough:
            assert process.poll() is None
            time.sleep(0.3)
        process.send_signal(kind)
        process.communicate(timeout=60)
        # The children of a process that is killed hear of it, and stop by themselves.
        time.sleep(2)
    before = place.built()
    assert 12 <= len(before) < 30
    found = place.run(*span)
    assert found["counts"] == {"cached": len(before), "built": 30 - len(before)}
    assert place.built() == [f"2026-11-{day:02d}" for day in range(1, 31)]

    began = time.monotonic()
    again = place.run(*span)
    assert again["counts"] == {"cached": 30} and time.monotonic() - began < 20
    with Catalog.open(place.settings.catalog) as catalog:
        wrote = catalog.stages(
            dataset="news", key="shards/train/00000", state="succeeded", limit=None
        )
    assert sorted(each.config for each in wrote) == place.built(), "no day was written twice"
