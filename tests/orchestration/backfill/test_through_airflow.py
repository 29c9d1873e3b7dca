"""A real scheduler and API server: spans of dates filled in, and DAGs that run for each change."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.airflow.local_airflow import LocalAirflow, free_port, write_private
from tests.orchestration.backfill.test_backfill import BUILDER, states

ROOT = Path(__file__).parents[3]
PASSWORD = "only for this test"
PATIENCE = 300.0
"""Seconds that anything may take on a busy machine; reached only where something is wrong."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TOML = """
store = "store"
home = "home/provender"
workers = 1

[datasets.news]
builder = "news.py:News"
partition = "day"
[datasets.news.airflow]
schedule = "0 4 * * *"
retry_delay = "1 s"

[datasets.halves]
builder = "halves.py:Halves"
[datasets.halves.airflow]
retry_delay = "1 s"
"""

HALVES = """
import tensorflow_datasets as tfds

COUNTS = {"train": 20, "test": 5}

class Halves(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {name: self._generate_examples(count) for name, count in COUNTS.items()}

    def _generate_examples(self, count):
        for number in range(count):
            yield number, {"text": f"line {number}"}
"""

CONSUMERS = """
from datetime import UTC, datetime
from airflow.sdk import dag, task
from provender.orchestration.airflow import changed, on_each_change

def consumer(dataset):
    @dag(
        dag_id=f"each_change_of_{dataset}", schedule=on_each_change(dataset),
        start_date=datetime(2025, 1, 1, tzinfo=UTC), catchup=False,
    )
    def made():
        @task
        def read(dag_run=None, triggering_asset_events=None):
            found = changed(dataset, dag_run, triggering_asset_events)
            return {"key": found.key, "split": found.split, "name": found.version.name}
        read()
    return made()

consumer("news")
consumer("halves")
"""


class Place:
    """A project, its Airflow, and the command as a person runs it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dags").mkdir()
        for path in (ROOT / "dags").glob("provender*.py"):
            shutil.copy(path, root / "dags" / path.name)
        (root / "dags" / "consumers.py").write_text(CONSUMERS)
        (root / "provender.toml").write_text(TOML)
        (root / "news.py").write_text(BUILDER)
        (root / "halves.py").write_text(HALVES)
        self.airflow = LocalAirflow(root, free_port(0))
        write_private(self.airflow.passwords, json.dumps({"admin": PASSWORD}))
        self._token = ""

    def ask(self, method: str, path: str, doc: Any = None) -> Any:
        if not self._token:
            told = {"username": "admin", "password": PASSWORD}
            self._token = self.airflow.ask("POST", "/auth/token", told)["access_token"]
        return self.airflow.ask(method, f"/api/v2{path}", doc, self._token)

    def start(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        program = "from provender.cli import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", program, "backfill", *options],
            cwd=self.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={
                **os.environ, "AIRFLOW_API_URL": self.airflow.url, "AIRFLOW_API_USER": "admin",
                "AIRFLOW_API_PASSWORD": PASSWORD, "HOME": str(self.root / "home"),
                "NO_PROXY": "127.0.0.1", "PYTHONUNBUFFERED": "1", **environment,
            },
        )  # fmt: skip

    def run(self, *options: str, code: int = 0, **environment: str) -> dict[str, Any]:
        process = self.start(*options, "--json", **environment)
        out, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, errors + out
        found: dict[str, Any] = json.loads(out)
        return found

    def until(self, look: Callable[[], Any], what: str) -> Any:
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            self.airflow.check()
            if found := look():
                return found
            time.sleep(0.5)
        raise AssertionError(f"{what} did not come within {PATIENCE:.0f} s")

    def runs(self, dag_id: str, **wanted: str) -> list[dict[str, Any]]:
        found = self.ask("GET", f"/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]
        return [each for each in found if all(each[key] == wanted[key] for key in wanted)]

    def consumed(self, dataset: str) -> dict[str, dict[str, Any]]:
        """What the runs for each change of a dataset read, by their run ids."""
        dag = f"each_change_of_{dataset}"
        found = {}
        for each in self.runs(dag, state="success"):
            path = f"/dags/{dag}/dagRuns/{each['dag_run_id']}/taskInstances/read/xcomEntries"
            read = self.ask("GET", f"{path}/return_value")["value"]
            assert read["key"] == each["partition_key"]
            found[each["dag_run_id"]] = read
        return found

    def build(self, dataset: str) -> None:
        """A run by hand, to its end."""
        path = f"/dags/provender_{dataset}/dagRuns"
        run = self.ask("POST", path, {"logical_date": None})["dag_run_id"]
        self.until(
            lambda: self.runs(f"provender_{dataset}", dag_run_id=run, state="success"),
            f"{dataset} of {run}",
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    found = Place(tmp_path_factory.mktemp("project"))
    airflow = found.airflow
    try:
        airflow.run("db", "migrate")
        airflow.start("api-server")
        airflow.run("dags", "reserialize")
        airflow.wait("metadatabase")
        airflow.start("scheduler")
        airflow.wait("scheduler")
        yield found
    finally:
        airflow.stop()


SPAN = ("news", "--from", "2026-03-01", "--to", "2026-03-06")


def test_a_backfill_is_left_and_found_again(place: Place) -> None:
    (place.root / "broken-2026-03-05").touch()
    place.run("news", "--from", "2026-03-03", "--to", "2026-03-03")
    process = place.start(*SPAN, "--via", "airflow", "--max-parallel", "2")
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "  built  " in line:
            process.send_signal(signal.SIGINT)
            break
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "Interrupted" in errors, errors
    assert any("running  Airflow's run" in line for line in lines)
    assert "(1 of 5" in lines[-1]

    wanted = {
        "01": "built",
        "02": "built",
        "03": "cached",
        "04": "built",
        "05": "failed",
        "06": "built",
    }
    found = place.run(*SPAN, "--via", "airflow", code=1)
    done = states(found)
    assert {day: state for day, state in wanted.items() if done[day] != "cached"} == {
        day: state for day, state in done.items() if state != "cached"
    }
    assert done["03"] == "cached" and done["05"] == "failed"
    assert found["pieces"][5]["version"] == "news/2026-03-06:1.0.0"
    [asked] = place.ask("GET", "/backfills?dag_id=provender_news")["backfills"]
    assert asked["max_active_runs"] == 2 and asked["completed_at"]

    (place.root / "broken-2026-03-05").unlink()
    left = place.run(*SPAN, "--via", "airflow", AIRFLOW_API_URL="http://127.0.0.1:9")
    assert left["counts"] == {"cached": 5, "left": 1}, "nothing to do: Airflow is not even asked"
    again = place.run(*SPAN, "--via", "airflow", "--reprocess", "failed")
    assert again["counts"] == {"cached": 5, "built": 1}

    days = {f"2026-03-{day:02d}" for day in range(1, 7)}
    consumed = place.until(
        lambda: (
            (found := place.consumed("news"))
            and days <= {each["key"] for each in found.values()}
            and found
        ),
        "a run for each day",
    )
    keys = [each["key"] for each in consumed.values()]
    assert len(keys) == len(set(keys)), "a day is announced once"
    assert {each["name"] for each in consumed.values()} >= {f"news/{day}:1.0.0" for day in days}


def test_airflows_own_command_fills_in_too(place: Place) -> None:
    dates = ("--from-date", "2026-02-01T00:00:00", "--to-date", "2026-02-02T23:00:00")
    place.airflow.run("backfill", "create", "--dag-id", "provender_news", *dates)
    other = place.run(
        "news", "--from", "2026-01-01", "--to", "2026-01-02", "--via", "airflow", code=1
    )["error"]
    assert "at work on another backfill of news" in other["message"]
    found = place.run("news", "--from", "2026-02-01", "--to", "2026-02-02", "--via", "airflow")
    assert found["counts"] in ({"built": 2}, {"cached": 1, "built": 1}, {"cached": 2})
    asked = place.ask("GET", "/backfills?dag_id=provender_news")["backfills"]
    assert len([each for each in asked if each["from_date"].startswith("2026-02-01")]) == 1


def test_what_airflow_refuses_is_told(place: Place) -> None:
    span = ("--from", "2026-01-01", "--to", "2026-01-02", "--via", "airflow")
    wrong = place.run("news", *span, code=2, AIRFLOW_API_PASSWORD="wrong")["error"]
    assert "does not let admin in" in wrong["message"] and "AIRFLOW_API_PASSWORD" in wrong["hint"]
    stale = place.run("news", *span, code=2, AIRFLOW_API_USER="", AIRFLOW_API_TOKEN="x")["error"]
    assert "does not accept the token" in stale["message"]
    unknown = place.run("olds", "--every", "day", *span, code=3)["error"]
    assert "Airflow has no DAG provender_olds" in unknown["message"]
    whole = place.run("halves", "--every", "day", *span, code=1)["error"]
    assert "non-periodic" in whole["message"] and "`partition`" in whole["hint"]
    away = place.run("news", *span, code=1, AIRFLOW_API_URL="http://127.0.0.1:9")["error"]
    assert "does not answer" in away["message"]
    later = ("--from", "2126-01-01", "--to", "2126-01-02", "--via", "airflow")
    future = place.run("news", *later, code=1)["error"]
    assert "future" in future["message"]

    place.ask("PATCH", "/dags/provender_news", {"is_paused": True})
    try:
        # A token that has expired is no end where a password is known.
        paused = place.run("news", *span, code=1, AIRFLOW_API_TOKEN="x")["error"]
    finally:
        place.ask("PATCH", "/dags/provender_news", {"is_paused": False})
    assert "is paused" in paused["message"] and "unpause" in paused["hint"]

    with pytest.raises(urllib.error.HTTPError) as caught:
        asked = {"logical_date": None, "conf": {"partition": "1.3.2026"}}
        place.ask("POST", "/dags/provender_news/dagRuns", asked)
    assert caught.value.code == 400 and "such as 2026-11-30" in caught.value.read().decode()


def test_a_dag_runs_once_for_each_changed_split(place: Place) -> None:
    place.build("halves")
    first = place.until(
        lambda: (found := place.consumed("halves")) and len(found) == 2 and found, "two runs"
    )
    assert sorted(each["split"] for each in first.values()) == ["test", "train"]
    builder = place.root / "halves.py"
    text = builder.read_text().replace('"test": 5', '"test": 6').replace("1.0.0", "1.1.0")
    builder.write_text(text)
    place.build("halves")
    second = place.until(
        lambda: (found := place.consumed("halves")) and len(found) == 3 and found, "a third run"
    )
    [new] = [read for run, read in second.items() if run not in first]
    assert new == {"key": "test", "split": "test", "name": "halves:1.1.0"}
    place.build("halves")
    time.sleep(5)
    assert len(place.runs("each_change_of_halves")) == 3, "nothing changed: nothing runs"
