"""The DAGs themselves: quick to parse, stable, one broken table breaks one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.orchestration.airflow.conftest import DAGS, AirflowProject

from provender.orchestration.airflow.factory import build

PARSE = """
import hashlib, json, sys, time
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

started = time.process_time()
bag = DagBag(dag_folder=sys.argv[1])
seconds = time.process_time() - started
docs = {name: json.dumps(DagSerialization.serialize_dag(dag), sort_keys=True, default=str)
        for name, dag in bag.dags.items()}
heavy = {"tensorflow", "tensorflow_datasets", "numpy", "prefect"} & set(sys.modules)
print(json.dumps({
    "dags": len(docs), "seconds": seconds, "heavy": sorted(heavy), "errors": bag.import_errors,
    "hash": hashlib.sha256("".join(docs[name] for name in sorted(docs)).encode()).hexdigest(),
}))
"""


def parse(folder: Path, seed: str = "0") -> dict[str, Any]:
    """Parses a DAG folder in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(folder)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    return dict(json.loads(done.stdout.splitlines()[-1]))


def registry(folder: Path, text: str) -> Path:
    (folder / "dags").mkdir(parents=True, exist_ok=True)
    for path in DAGS.glob("provender*.py"):
        (folder / "dags" / path.name).write_text(path.read_text())
    (folder / "provender.toml").write_text(text)
    return folder / "dags"


def test_three_hundred_datasets_parse_quickly_and_always_alike(airflow: None, tmp_path) -> None:
    tables = "".join(
        f'[datasets.set{i}]\nbuilder = "b.py:B{i}"\n[datasets.set{i}.airflow]\ntags = ["b", "a"]\n'
        for i in range(300)
    )
    folder = registry(tmp_path, tables)
    one, two = parse(folder, "1"), parse(folder, "2")
    assert (one["dags"], one["heavy"], one["errors"]) == (300, [], {})
    assert one["hash"] == two["hash"], "a DAG gets a version only when its table changes"
    assert one["seconds"] < 30, "Airflow gives up on a file after 30 s"


def test_a_changed_table_changes_its_own_dag(airflow: None, tmp_path: Path) -> None:
    tables = "".join(
        f'[datasets.set{i}]\nbuilder = "b.py:B{i}"\n[datasets.set{i}.airflow]\ntags = ["a"]\n'
        for i in range(3)
    )
    folder = registry(tmp_path, tables)
    before = serialized(folder)
    assert serialized(folder) == before
    (tmp_path / "provender.toml").write_text(tables.replace('"a"]', '"c"]', 1))
    after = serialized(folder)
    assert sorted(after) == [f"provender_set{i}" for i in range(3)]
    assert [each for each in after if after[each] != before[each]] == ["provender_set0"]


def serialized(folder: Path) -> dict[str, str]:
    """The DAGs of a folder as Airflow stores them."""
    from airflow.serialization.serialized_objects import DagSerialization

    dags = build(str(folder / "provender.py")).dags
    return {
        name: json.dumps(DagSerialization.serialize_dag(dag), sort_keys=True, default=str)
        for name, dag in dags.items()
    }


def test_a_broken_table_breaks_its_own_dag_and_says_where(airflow: None, tmp_path) -> None:
    good = '[datasets.good]\nbuilder = "a.py:A"\n'
    bad = (
        '[datasets.key]\nbuilder = "a.py:A"\n[datasets.key.airflow]\nownr = "ada"\n'
        '[datasets.cron]\nbuilder = "a.py:A"\n[datasets.cron.airflow]\nschedule = "each day"\n'
        f'[datasets.tag]\nbuilder = "a.py:A"\n[datasets.tag.airflow]\ntags = ["{"x" * 101}"]\n'
        '["datasets"."no name"]\nbuilder = "a.py:A"\n'
        '[datasets.off]\nbuilder = "a.py:A"\n[datasets.off.airflow]\nenabled = false\n'
    )
    found = parse(registry(tmp_path, good + bad))
    assert found["dags"] == 1
    [(file, text)] = found["errors"].items()
    assert file.endswith("provender_registry.py") and "4 datasets have no DAG" in text
    toml = tmp_path / "provender.toml"
    assert f"{toml}, line 6, [datasets.key.airflow]" in text and "'owner'" in text
    assert f"{toml}, line 10, [datasets.cron.airflow]" in text and "'each day'" in text
    assert f"{toml}, line 13, [datasets.tag.airflow]" in text
    assert f"{toml}, line 15" in text and "no name" in text


def test_a_worker_makes_the_one_dag_that_its_task_is_of(airflow: None, tmp_path) -> None:
    tables = '[datasets.one]\nbuilder = "a.py:A"\n[datasets.two]\nbuilder = "a.py:A"\n'
    folder = registry(tmp_path, tables)
    assert list(build(str(folder / "provender.py"), "provender_two").dags) == ["provender_two"]


def test_what_the_registry_says_is_what_airflow_shows(project: AirflowProject) -> None:
    dag_id = project.dataset(
        "shown",
        airflow='schedule = "0 4 * * 1"\nowner = "ada"\ntags = ["text"]\npool = "p"\n'
        'download_pool = "net"\ntimeout = "2 h"\nmax_tasks = 5\nnotes = "Ask **Ada**."\n',
    )
    dag = project.dag(dag_id)
    tasks = {task.task_id: task for task in dag.tasks}
    assert set(dag.tags) == {"provender", "text"} and dag.owner == "ada"
    assert "Ask **Ada**." in dag.doc_md and "shown_builder.py" in dag.doc_md
    assert {task.pool for name, task in tasks.items() if name != "download"} == {"p"}
    assert tasks["download"].pool == "net"
    assert tasks["register"].execution_timeout.total_seconds() == 7200
    assert set(dag.params) == {
        "version", "manual_dir", "force_from", "workers", "dry_run", "note"
    }  # fmt: skip
    assert [task.task_id for task in dag.tasks if task.outlets] == ["publish"]
    with pytest.raises(ValueError, match="does not match"):
        dag.params.update({"version": "newest"})
        dag.params.validate()


def test_the_dags_of_this_repository() -> None:
    found = build(str(DAGS / "provender.py"))
    assert list(found.dags) == ["provender_topics"] and found.problems == ()
