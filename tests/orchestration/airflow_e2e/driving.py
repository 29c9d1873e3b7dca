"""A real Airflow for tests: its servers, and its API as a person's program would use it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from examples.airflow.local_airflow import LocalAirflow, free_port, make_project, write_private

PASSWORD = "only for this test"
PATIENCE = 240.0
"""Seconds that a run may take on a busy machine; reached only where something is wrong."""

HEAVY = '''
import hashlib

import tensorflow_datasets as tfds


class Heavy(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Enough text for two shards that take a moment."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"text": tfds.features.Text()})
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for number in range(4000):
            yield number, {"text": hashlib.sha512(str(number).encode()).hexdigest() * 16}
'''
HEAVY_TABLE = """
[datasets.heavy]
builder = "heavy_builder.py:Heavy"
num_shards = 2

[datasets.heavy.airflow]
retry_delay = "1 s"
"""


class Driver:
    """Airflow's API, signed in as admin.

    Args:
        airflow: its servers.
    """

    def __init__(self, airflow: LocalAirflow) -> None:
        self.airflow = airflow
        self.token = airflow.sign_in()
        assert self.ask("GET", "/importErrors")["import_errors"] == []

    def ask(self, method: str, path: str, doc: Any = None) -> Any:
        return self.airflow.ask(method, f"/api/v2{path}", doc, self.token)

    def trigger(self, dag_id: str, **conf: Any) -> str:
        asked = {"logical_date": None, "conf": conf}
        return str(self.ask("POST", f"/dags/{dag_id}/dagRuns", asked)["dag_run_id"])

    def runs(self, dag_id: str) -> dict[str, str]:
        """Run id -> state, newest first."""
        found = self.ask("GET", f"/dags/{dag_id}/dagRuns?order_by=-run_after")["dag_runs"]
        return {each["dag_run_id"]: each["state"] for each in found}

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=200"
        return list(self.ask("GET", path)["task_instances"])

    def states(self, dag_id: str, run_id: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for each in self.tasks(dag_id, run_id):
            found.setdefault(each["task_id"], set()).add(str(each["state"]))
        return found

    def events(self, dag_id: str, asset: str) -> list[dict[str, Any]]:
        """What a DAG's tasks have announced of an asset."""
        found = self.ask("GET", f"/assets/events?source_dag_id={dag_id}")["asset_events"]
        return [each for each in found if each["name"] == asset]

    def ended(self, dag_id: str, run_id: str | None = None) -> str:
        """Waits for the end of a run, by default the newest there is or will be, and gives its id."""

        def look() -> str | None:
            runs = self.runs(dag_id)
            id = run_id or next(iter(runs), "")
            return id if runs.get(id) in ("success", "failed") else None

        id = self.until(look, f"the end of a run of {dag_id}")
        assert self.runs(dag_id)[id] == "success", self.states(dag_id, id)
        return id

    def until(self, look: Callable[[], Any], what: str, pause: float = 0.5) -> Any:
        """Waits until something is there."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            self.airflow.check()
            if found := look():
                return found
            time.sleep(pause)
        raise AssertionError(f"{what} did not come within {PATIENCE:.0f} s")


def project(folder: Path) -> Path:
    """Digits, XSum, a dataset with shards that take a moment, and a DAG that trains."""
    folder.mkdir(parents=True, exist_ok=True)
    make_project(folder)
    (folder / "heavy_builder.py").write_text(HEAVY)
    with (folder / "provender.toml").open("a") as file:
        file.write(HEAVY_TABLE)
    return folder


@contextmanager
def prepared(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[LocalAirflow]:
    """Airflow with its database and the DAGs in it, an API that answers, and nothing else.

    No DAG processor runs: the DAGs do not change.
    """
    airflow = LocalAirflow(project(folder), free_port(0), more or {})
    write_private(airflow.passwords, json.dumps({"admin": PASSWORD}))
    try:
        airflow.run("db", "migrate")
        airflow.start("api-server")
        airflow.run("dags", "reserialize")
        airflow.wait("metadatabase")
        yield airflow
    finally:
        airflow.stop()
