"""What docs/airflow.md shows besides commands: the table, the DAG, the tasks."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

# Its import makes the Airflow of this process a throw-away one.
from tests.orchestration.airflow.conftest import DAGS

from provender.registry import DagSettings, read_registry

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "airflow.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.S | re.M)


def test_the_table_is_whole_and_makes_sense(tmp_path: Path) -> None:
    [text] = blocks("toml")
    doc = tomllib.loads(text)
    del doc["include"]
    registry = read_registry(doc, tmp_path / "provender.toml")
    assert registry.problems == ()
    assert set(doc["datasets"]["news"]["airflow"]) == {each.name for each in fields(DagSettings)}
    said = registry.entries["news"].airflow
    assert said is not None
    defaults = DagSettings()
    for name in ("enabled", "pool", "retries", "retry_delay", "manual_timeout", "manual_interval"):
        assert getattr(said, name) == getattr(defaults, name), f"{name} is shown as a default"


def test_the_dag_that_reads_is_one(tmp_path: Path) -> None:
    [code] = blocks("python")
    (tmp_path / "reader.py").write_text(code)
    scope: dict[str, object] = {"__name__": "reader", "__file__": str(tmp_path / "reader.py")}
    exec(compile(code, "reader.py", "exec"), scope)
    from provender.orchestration.airflow import consuming

    used = re.search(r"consuming import (.*)", code)
    assert used and all(hasattr(consuming, each) for each in used[1].split(", "))


def test_the_tasks_are_those_of_a_dag() -> None:
    from provender.orchestration.airflow.factory import build

    [dag] = build(str(DAGS / "provender.py")).dags.values()
    shown = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    assert shown == [task.task_id for task in dag.topological_sort()]
