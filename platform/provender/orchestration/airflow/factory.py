"""A DAG for each dataset of the project's registry.

Parsing imports neither TensorFlow nor a builder, and asks nothing but the files: what comes out
is a function of them, so a DAG gets a new version only when its table changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import ProvenderError, SettingsError
from provender.orchestration.airflow import asking, stages
from provender.orchestration.airflow.assets import changes_asset, create_asset
from provender.orchestration.airflow.connection import settings_file
from provender.orchestration.airflow.describing import description, page
from provender.orchestration.airflow.names import dag_id
from provender.orchestration.airflow.operators import LABEL, ManualFilesSensor, provender_stage
from provender.orchestration.airflow.scheduling import BEGINNING, FIRST_PIECE, timetable
from provender.registry import DagSettings, DatasetEntry, Registry, placed, read_registry
from provender.settings import read_file

if TYPE_CHECKING:
    from airflow.sdk import DAG

_LONGEST_DELAY = timedelta(hours=1)


@dataclass(frozen=True)
class Dags:
    """The DAGs of a registry.

    Attributes:
        dags: by their ids.
        problems: what is wrong with datasets that have none.
    """

    dags: Mapping[str, DAG]
    problems: tuple[SettingsError, ...]


def dataset_dags(dag_file: str) -> dict[str, DAG]:
    """The DAGs of the project that a DAG file belongs to, for its ``globals()``.

    A table that makes no sense costs its own DAG only; `check_registry` tells of it.

    Args:
        dag_file: the caller's ``__file__``.
    """
    from airflow.sdk import get_parsing_context

    # A worker parses the file for one task of one DAG.
    wanted = get_parsing_context().dag_id
    return dict(build(dag_file, wanted).dags)


def check_registry(dag_file: str) -> None:
    """Raises what is wrong with the registry, so that Airflow shows it as an import error.

    Args:
        dag_file: the caller's ``__file__``. It must be another file than that of the DAGs: Airflow
            takes down all DAGs of a file with an import error.

    Raises:
        SettingsError: tables that make no sense, each with file, line and key.
    """
    problems = build(dag_file).problems
    if not problems:
        return
    count = "1 dataset has" if len(problems) == 1 else f"{len(problems)} datasets have"
    text = "\n\n".join(str(each) for each in problems)
    raise SettingsError(f"{count} no DAG, since what provender.toml says makes no sense.\n\n{text}")


def build(dag_file: str, wanted: str | None = None) -> Dags:
    """Makes the DAGs.

    Args:
        dag_file: a DAG file of the project.
        wanted: id of the only DAG to make, or None for all.

    Raises:
        SettingsError: provender.toml cannot be read at all.
    """
    file = settings_file(dag_file)
    doc = read_file(file) if file else {}
    registry = read_registry(doc, file)
    problems = [each.error for each in registry.problems]
    dags: dict[str, DAG] = {}
    for name, entry in sorted(_enabled(registry)):
        if wanted is not None and wanted != dag_id(name):
            continue
        try:
            dags[dag_id(name)] = make_dag(name, entry, file, doc.get("workers"))
        except Exception as error:  # noqa: BLE001 - whatever Airflow refuses, it costs one DAG
            problems.append(_problem(name, entry, error))
    return Dags(dags, tuple(problems))


def _enabled(registry: Registry) -> Iterable[tuple[str, DatasetEntry]]:
    return ((n, e) for n, e in registry.entries.items() if e.airflow is None or e.airflow.enabled)


def _problem(name: str, entry: DatasetEntry, error: Exception) -> SettingsError:
    if not isinstance(error, SettingsError):
        said = error.message if isinstance(error, ProvenderError) else str(error)
        where = f"{entry.file}, [datasets.{name}.airflow]"
        error = SettingsError(f"Airflow refuses the DAG of {name!r}: {said}", where=where)
    return placed(error, name, entry.file)


def make_dag(
    name: str, entry: DatasetEntry, file: Path | None = None, workers: int | None = None
) -> DAG:
    """The DAG of one dataset.

    Args:
        name: the dataset, as the registry names it.
        entry: its table.
        file: provender.toml, which its tasks read; None for the nearest one or none.
        workers: the project's number of workers, for the form.

    Raises:
        SettingsError: Airflow cannot read the schedule.
    """
    from airflow.sdk import DAG
    from airflow.sdk.definitions.param import ParamsDict

    said = entry.airflow or DagSettings()
    dag = DAG(
        dag_id(name),
        description=description(name, entry),
        schedule=timetable(name, entry),
        start_date=FIRST_PIECE if entry.partition else BEGINNING,
        catchup=False,
        max_active_runs=1,
        **({"max_active_tasks": said.parallel} if said.parallel else {}),
        tags=sorted({"provender", *said.tags}),
        doc_md=page(name, entry, said),
        default_args=_defaults(said),
        auto_register=False,
    )
    with dag:
        _tasks(name, said, str(file) if file else None, entry.partition)
    # Given after the tasks: a copy in each of them is checked again and again as the DAG is
    # serialized, which costs ten times as much as all the rest.
    dag.params = ParamsDict(asking.form(entry.manual_dir, workers, entry.partition))
    return dag


def _defaults(said: DagSettings) -> dict[str, Any]:
    found: dict[str, Any] = {
        "owner": said.owner,
        "pool": said.pool,
        "retries": said.retries,
        "retry_delay": said.retry_delay,
        "retry_exponential_backoff": True,
        "max_retry_delay": max(_LONGEST_DELAY, said.retry_delay),
    }
    if said.timeout is not None:
        found["execution_timeout"] = said.timeout
    if said.queue is not None:
        found["queue"] = said.queue
    return found


def _tasks(name: str, said: DagSettings, file: str | None, partition: str | None) -> None:
    """All tasks of a dataset's DAG, in the DAG that is being made."""
    label = f"{{{{ {LABEL} }}}}"
    # What has no units (a builder that cannot be taken apart) skips a mapped stage: that is well.
    after_units = {"trigger_rule": "none_failed_min_one_success"}
    asset, changes = create_asset(dataset=name), changes_asset(name)

    check = ManualFilesSensor(
        task_id="check_manual",
        dataset=name,
        settings=file,
        partition=partition,
        poke_interval=said.manual_interval,
        timeout=said.manual_timeout,
        doc_md="Waits for files that people must provide, and opens the run.",
    )
    run = check.output
    fetched = provender_stage(
        stages.download, task_id="download", pool=said.download_pool or said.pool
    )(run=run)
    units = provender_stage(stages.plan_splits, task_id="plan_splits")(
        run=run, limit=said.max_tasks
    )
    encoded = (
        provender_stage(stages.run_unit, task_id="encode_examples", map_index_template=label)
        .partial(run=run)
        .expand(unit=units)
    )
    shards = provender_stage(stages.plan_shards, task_id="plan_shards", **after_units)(
        run=run, limit=said.max_tasks
    )
    written = (
        provender_stage(stages.run_unit, task_id="write_shards", map_index_template=label)
        .partial(run=run)
        .expand(unit=shards)
    )
    registered = provender_stage(stages.register, task_id="register", **after_units)(run=run)
    announced = provender_stage(
        stages.publish, task_id="publish", inlets=[asset], outlets=[asset, changes]
    )(run=run, cut=partition is not None)
    fetched >> units
    encoded >> shards
    written >> registered >> announced
