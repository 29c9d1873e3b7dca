"""From what Airflow calls things to what the catalog calls them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from provender.catalog import Catalog, RunRecord
from provender.catalog.orchestrated import run_id_of
from provender.engine.staged import Unit
from provender.errors import UnknownReference
from provender.orchestration.airflow.names import orchestrator
from provender.stages import download, examples, manual, prepare, register, shards, splits

_FIXED = {
    "check_manual": (manual.KEY,),
    "download": (download.KEY, prepare.KEY),
    "plan_splits": (splits.KEY,),
    "register": (register.KEY,),
    "publish": (register.KEY,),
}
_PLANNED_BY = {"encode_examples": "plan_splits", "write_shards": "plan_shards"}
_RECENT = 20


@dataclass(frozen=True)
class TaskKey:
    """A task instance, as Airflow names it.

    Attributes:
        map_index: of a mapped task; -1 for one that is not, or for all of them.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1


def run_of(catalog: Catalog, dag_id: str, run_id: str) -> RunRecord | None:
    """The run in the catalog that a DAG run has opened; None where it has not.

    Args:
        catalog: the catalog.
        dag_id: id of the DAG.
        run_id: what Airflow calls the run.
    """
    try:
        return catalog.run(run_id_of(orchestrator(dag_id, run_id)))
    except UnknownReference:
        return None


def latest_run(catalog: Catalog, dag_id: str) -> tuple[str, RunRecord] | None:
    """The newest DAG run that the catalog knows: what Airflow calls it, and the catalog's record.

    Args:
        catalog: the catalog.
        dag_id: id of the DAG.
    """
    for run_id in recent_runs(dag_id):
        if (found := run_of(catalog, dag_id, run_id)) is not None:
            return run_id, found
    return None


def recent_runs(dag_id: str) -> Sequence[str]:
    """The ids of a DAG's newest runs, as Airflow's database has them."""
    import sqlalchemy as sa
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    query = sa.select(DagRun.run_id).where(DagRun.dag_id == dag_id)
    with create_session() as session:
        return session.scalars(query.order_by(DagRun.id.desc()).limit(_RECENT)).all()


def unit_of(task: TaskKey) -> Unit | None:
    """The unit of a mapped task, as the task that planned it told Airflow.

    Args:
        task: the task instance.

    Returns:
        None where it is not mapped, or its plan is kept no longer.
    """
    planner = _PLANNED_BY.get(task.task_id)
    if planner is None or task.map_index < 0:
        return None
    from airflow.models.xcom import XCOM_RETURN_KEY, XComModel
    from airflow.utils.session import create_session

    query = XComModel.get_many(
        run_id=task.run_id, key=XCOM_RETURN_KEY, task_ids=planner, dag_ids=task.dag_id
    )
    with create_session() as session:
        found = session.scalars(query.limit(1)).first()
        units: Any = XComModel.deserialize_value(found) if found is not None else None
    if not isinstance(units, list) or task.map_index >= len(units):
        return None
    return Unit.from_json(units[task.map_index])


def stages_of(task_id: str, unit: Unit | None, known: Iterable[str]) -> list[str]:
    """The stages that a task works on.

    Args:
        task_id: id of the task.
        unit: of a mapped task; None stands for all of its units.
        known: keys of all stages that the run is known to have.

    Returns:
        Stage keys in order; none for a task that works on no stage.
    """
    kept = set(known)
    if task_id in _FIXED:
        return [key for key in _FIXED[task_id] if key in kept]
    if task_id == "plan_shards":
        return sorted(key for key in kept if _is_split(key))
    if task_id not in _PLANNED_BY:
        return []
    if unit is None:
        kind = "shards/" if task_id == "write_shards" else "examples/"
        return sorted(key for key in kept if key.startswith(kind))
    found = []
    for split, first, stop, of in unit.spans:
        if unit.stage == "shards":
            found += [shards.key(split, i) for i in range(first, stop)]
            continue
        parts = [examples.part_key(split, i, of) for i in range(first, stop)]
        # A split that is cached as a whole has no parts in this run.
        found += [key for key in parts if key in kept] or [examples.key(split)]
    return found


def _is_split(key: str) -> bool:
    return key.startswith("examples/") and key.count("/") == 1


def known_stages(catalog: Catalog, run: RunRecord) -> set[str]:
    """The keys of all stages of a run: executed, reused, or part of the version it found ready.

    Args:
        catalog: the catalog.
        run: the run.
    """
    found = {each.key for each in catalog.stages(run_id=run.id, limit=None)}
    found |= {each.key for each in catalog.hits(run.id)}
    if run.reused_version_id is not None:
        found |= catalog.version_by_id(run.reused_version_id).info.get("stages", {}).keys()
    return found
