"""What OpenLineage is told, as it comes out of Airflow's own provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.orchestration.airflow import lineage_program
from tests.orchestration.airflow.conftest import AirflowProject
from tests.questions.openlineage_schema import faults

from provender.questions.openlineage import producer

PASSWORD = "hunter2hunter2"


def told(
    project: AirflowProject, dag_id: str, file: Path, states: list[str], **connection: Any
) -> tuple[list[dict[str, Any]], str]:
    """Runs a DAG with a connection to its catalog; gives all events, and all that was logged.

    Args:
        states: how each run is to end.
    """
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    environ = {
        **os.environ,
        "AIRFLOW__OPENLINEAGE__DISABLED": "False",
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW_CONN_PROVENDER_CATALOG": json.dumps({**connection, "password": PASSWORD}),
    }
    dags = str(project.root / "dags/provender.py")
    done = subprocess.run(
        [sys.executable, lineage_program.__file__, dags, dag_id, str(len(states))],
        capture_output=True, text=True, check=True, env=environ,
    )  # fmt: skip
    assert f"ended: {states}" in done.stdout
    events = [json.loads(line) for line in file.read_text().splitlines()]
    return events, done.stdout + done.stderr + file.read_text()


def test_events_say_what_was_read_and_made_and_what_was_cached(
    project: AirflowProject, tmp_path: Path
) -> None:
    dag = project.dataset("lineage")
    # SQLite has no password, but what a connection holds must not show anywhere.
    place = str(project.root / "store/catalog.db")
    file = tmp_path / "events.jsonl"
    twice = ["success", "success"]
    events, all_of_it = told(project, dag, file, twice, conn_type="sqlite", host=place)
    done: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event["eventType"] == "COMPLETE":
            done.setdefault(event["job"]["name"], []).append(event)
    first, second = done[f"{dag}.register"]
    [version] = first["outputs"]
    assert (version["namespace"], Path(version["name"]).name) == ("file", "lineage")
    facets = version["facets"]
    assert facets["version"]["datasetVersion"] == "1.0.0"
    assert [each["name"] for each in facets["schema"]["fields"]] == ["text"]
    assert version["outputFacets"]["outputStatistics"]["rowCount"] == 50
    assert facets["symlinks"]["identifiers"][0]["name"] == "lineage"
    assert facets["provender_version"]["facts"]["status"] == "published"
    caches = [each["run"]["facets"]["provender_cache"] for each in (first, second)]
    assert [each["state"] for each in caches] == ["ran", "cached"]
    one, two = done[f"{dag}.write_shards"][:2]
    assert {each["outputs"][0]["name"].partition("/")[0] for each in (one, two)} == {"artifact"}
    assert one["inputs"] and one["run"]["facets"]["provender_cache"]["stages"][0]["why"]
    assert PASSWORD not in all_of_it
    assert [fault for event in events for fault in faults(_ours(event))] == []


@pytest.mark.slow
def test_a_catalog_that_is_away_is_named_without_its_password(
    project: AirflowProject, tmp_path: Path
) -> None:
    dag = project.dataset("unreached")
    where = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "login": "ada"}
    file = tmp_path / "events.jsonl"
    _, all_of_it = told(project, dag, file, ["failed"], **where, schema="lineage")
    assert "CatalogError" in all_of_it and "127.0.0.1:1/lineage" in all_of_it
    assert PASSWORD not in all_of_it


def _ours(event: dict[str, Any]) -> dict[str, Any]:
    """The event without the facets that Airflow adds, and without those of other versions."""
    for holder in (event["run"], event["job"]):
        kept = {n: f for n, f in holder.get("facets", {}).items() if f["_producer"] == producer()}
        holder["facets"] = kept
    for each in [*event.get("inputs", ()), *event.get("outputs", ())]:
        facets = each.get("facets", {})
        assert all(facet["_producer"] == producer() for facet in facets.values())
        if links := facets.pop("symlinks", None):
            assert links["_schemaURL"].endswith("#/$defs/SymlinksDatasetFacet")
            [link] = links["identifiers"]
            assert link == {"namespace": "provender", "name": "lineage", "type": "DATASET"}
    return event
