"""What OpenLineage is told, as it comes out of Airflow's own provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.orchestration.airflow import lineage_program
from tests.orchestration.airflow.conftest import AirflowProject

PASSWORD = "hunter2hunter2"


def told(project: AirflowProject, dag_id: str, file: Path) -> tuple[list[dict[str, Any]], str]:
    """Runs a DAG twice; gives all events, and all that was logged."""
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    environ = {
        **os.environ,
        "AIRFLOW__OPENLINEAGE__DISABLED": "False",
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        # SQLite has no password, but what a connection holds must not show anywhere.
        "AIRFLOW_CONN_PROVENDER_CATALOG": json.dumps(
            {
                "conn_type": "sqlite",
                "host": str(project.root / "store/catalog.db"),
                "password": PASSWORD,
            }
        ),
    }
    done = subprocess.run(
        [sys.executable, lineage_program.__file__, str(project.root / "dags/provender.py"), dag_id],
        capture_output=True, text=True, check=True, env=environ,
    )  # fmt: skip
    assert "ended: ['success', 'success']" in done.stdout
    events = [json.loads(line) for line in file.read_text().splitlines()]
    return events, done.stdout + done.stderr + file.read_text()


def test_events_say_what_was_read_and_made_and_what_was_cached(
    project: AirflowProject, tmp_path: Path
) -> None:
    dag = project.dataset("lineage")
    events, all_of_it = told(project, dag, tmp_path / "events.jsonl")
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
    _well_formed(events)


def _well_formed(events: list[dict[str, Any]]) -> None:
    """Every event and facet has what the specification asks of all of them."""
    assert events
    for event in events:
        assert {"eventType", "eventTime", "producer", "schemaURL", "run", "job"} <= event.keys()
        sets = [*event.get("inputs", ()), *event.get("outputs", ())]
        facets = [*event["run"]["facets"].values(), *event["job"].get("facets", {}).values()]
        facets += [facet for each in sets for facet in each.get("facets", {}).values()]
        facets += [facet for each in sets for facet in each.get("outputFacets", {}).values()]
        for facet in facets:
            assert facet["_producer"] and facet["_schemaURL"], facet
        for each in sets:
            assert each["namespace"] and each["name"]
