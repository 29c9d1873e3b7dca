"""The pages of the tabs: what a DAG builds, what a run did, what a task worked on or reused."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import APIRouter, Depends
from fastapi.responses import RedirectResponse, Response

from provender.catalog import RunRecord, StageRecord
from provender.engine.staged import find_execution
from provender.orchestration.airflow_plugin.finding import (
    TaskKey,
    known_stages,
    latest_run,
    recent_runs,
    run_of,
    stages_of,
    unit_of,
)
from provender.ui.parameters import Text, Viewing
from provender.ui.view import View, environment

if TYPE_CHECKING:
    from jinja2 import Template

router = APIRouter(
    prefix="/dag/{dag_id}",
    include_in_schema=False,
    dependencies=[Depends(requires_access_dag("GET"))],
)
SHOWN = 20
"""Stages that a task's page lists; of more it tells the number, and leads to the run."""


@dataclass(frozen=True)
class Row:
    """A stage on a task's page.

    Attributes:
        key: which stage.
        state: of this run: ``cached``, ``succeeded``, ``failed`` … or ``waiting``.
        record: the execution that stands for it, of this run or of an earlier one.
        why: why that execution ran.
    """

    key: str
    state: str
    record: StageRecord | None
    why: tuple[str, ...]


@router.get("")
def dag(at: Viewing, dag_id: str) -> Response:
    """The dataset that a DAG builds; of a DAG that reads versions, what it has read."""
    found = latest_run(at.library.catalog, dag_id)
    if found is not None:
        return _to(at.link.dataset(found[1].dataset, found[1].config))
    return _reader(at, dag_id, "") or _nothing(at, dag_id, "No run of this DAG built a dataset.")


@router.get("/run")
def run(at: Viewing, dag_id: str, run_id: Text = "") -> Response:
    """What a DAG run did."""
    found = run_of(at.library.catalog, dag_id, run_id)
    if found is not None:
        return _to(at.link.run(found.id))
    return _reader(at, dag_id, run_id) or _nothing(at, dag_id, "This run has not begun to build.")


@router.get("/task")
def task(
    at: Viewing, dag_id: str, task_id: Text = "", run_id: Text = "", map_index: Text = ""
) -> Response:
    """What a task worked on; where it was cached, the executions that it reused."""
    catalog = at.library.catalog
    if run_id:
        record = run_of(catalog, dag_id, run_id)
    else:
        run_id, record = latest_run(catalog, dag_id) or ("", None)
    if record is None:
        message = "This run has not begun to build."
        return _reader(at, dag_id, run_id) or _nothing(at, dag_id, message)
    at.check(record.dataset)
    # Of a task that is not mapped, Airflow leaves the name of the number in its place.
    index = int(map_index) if map_index.isascii() and map_index.isdigit() else -1
    unit = unit_of(TaskKey(dag_id, run_id, task_id, index))
    keys = stages_of(task_id, unit, known_stages(catalog, record))
    return at.page(
        _template("task.html"),
        dag_id=dag_id,
        task_id=task_id,
        run_id=run_id,
        label=unit.label if unit else "",
        run=record,
        dataset_name=_dataset_name(record),
        version=at.library.run_details(record.id).version,
        rows=[_row(at, record, key) for key in keys[:SHOWN]],
        more=max(0, len(keys) - SHOWN),
    )


def _row(at: View, run: RunRecord, key: str) -> Row:
    found = find_execution(at.library.catalog, run.id, key)
    if found is None:
        return Row(key, "waiting", None, ())
    state = found.state if found.run_id == run.id else "cached"
    return Row(key, state, found, at.library.why(found.id).why)


def _dataset_name(run: RunRecord) -> str:
    return f"{run.dataset}/{run.config}" if run.config else run.dataset


def _reader(at: View, dag_id: str, run_id: str) -> Response | None:
    """The page of what a run has read, or the newest run that has read anything."""
    runs = [run_id] if run_id else recent_runs(dag_id)
    # Some call their job as the DAG, whatever the run.
    for job in (*(f"{dag_id}/{each}" for each in runs), dag_id):
        if at.library.catalog.readings(job=job, limit=1):
            return _to(at.link.job(job))
    return None


def _nothing(at: View, dag_id: str, message: str) -> Response:
    return at.page(_template("nothing.html"), status=404, dag_id=dag_id, message=message)


def _to(address: str) -> Response:
    return RedirectResponse(address, 303)


@cache
def _template(name: str) -> Template:
    text = (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
    return environment().from_string(text)
