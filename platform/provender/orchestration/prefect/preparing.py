"""The flow that builds one dataset."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from prefect import flow, get_run_logger, unmapped
from prefect.assets import Asset, materialize
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.states import Completed
from pydantic import ValidationError

from provender.engine import staged
from provender.engine.decide import decide
from provender.engine.plan import HIT
from provender.engine.session import Options, open_session
from provender.engine.staged import Outcome, Published, RunDoc, Unit
from provender.orchestration.prefect import parameters as p
from provender.orchestration.prefect import showing, stages
from provender.orchestration.prefect.children import worker_processes
from provender.orchestration.prefect.ids import ids_of_run
from provender.orchestration.prefect.retrying import patiently
from provender.orchestration.prefect.runners import runner_of, width_of
from provender.orchestration.prefect.stages import outcomes
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings

_SOURCES = 100
"""Most URLs that an asset is said to depend on; the catalog has them all."""


@flow(
    name="prepare-dataset",
    flow_run_name="prepare {dataset}",
    description="Builds one version of a dataset, and reuses every stage that has not changed.",
    task_runner=runner_of(),
    persist_result=False,
)
def prepare_dataset(
    dataset: p.Dataset,
    manual_dir: str | None = None,
    wait_for_manual: p.Minutes = 0,
    force: p.Stages | None = None,
    workers: p.Count = None,
    num_shards: p.Count = None,
    max_examples: p.Count = None,
    trial: bool = False,
    dry_run: bool = False,
    allow: list[str] | None = None,
    reason: str | None = None,
    max_tasks: p.Tasks = staged.LIMIT,
    config_file: str | None = None,
) -> Any:
    """Builds one version of a dataset; a rerun of what has not changed does nothing.

    Args:
        dataset: What to build: a name of provender.toml, a shipped or TFDS name, or file.py:Class, with /config and :version where wanted.
        manual_dir: Folder of files that people must provide, as the workers see it.
        wait_for_manual: Minutes to wait for files that people must provide.
        force: Stages to run although nothing changed.
        workers: Parts that each split is cut into for encoding.
        num_shards: Shards of each split; by default TFDS's own rule.
        max_examples: Stop each split after so many examples; makes a trial.
        trial: Build without taking the version number.
        dry_run: Only say what would be done, and why.
        allow: Checks that may fail, such as max_drift:train/label.
        reason: Why they may; kept with the version.
        max_tasks: Most tasks that a stage is spread over.
        config_file: The provender.toml, as the workers see it; by default the nearest one.

    Returns:
        The version that stands (`provender.engine.staged.Published`) as JSON; of a dry run the
        rows of the plan. The flow's state is named ``Cached`` where nothing was done.
    """
    settings = load_settings(file=config_file, only=(DatasetRef.parse(dataset).name,))
    options = Options(
        workers=workers,
        num_shards=num_shards,
        max_examples=max_examples,
        trial=trial,
        force=tuple(force or ()),
        manual_dir=manual_dir,
        allow=tuple(allow or ()),
        reason=reason,
    )
    if dry_run:
        return _would_do(dataset, settings, options)
    logger, ids = get_run_logger(), ids_of_run()
    doc = patiently(lambda: staged.begin(dataset, settings, options, orchestrator=ids), logger)
    logger.info("run %s in the catalog", doc.run_id)
    showing.show_links(doc)
    found = _drive(doc, wait_for_manual, max_tasks)
    name = "Completed" if found.outcome == "succeeded" else "Cached"
    return Completed(name=name, message=showing.summary(found), data=found.to_json())


def _would_do(dataset: str, settings: Settings, options: Options) -> list[dict[str, Any]]:
    session = open_session(DatasetRef.parse(dataset), settings, options)
    with session.catalog:
        return showing.plan_table(dataset, decide(session))


def _drive(doc: RunDoc, wait_for_manual: float, max_tasks: int) -> Published:
    """Calls the stages in order, and shows how they stand however it ends."""
    run, done, end = doc.to_json(), [], "failed; stages that are not listed were not reached"
    context, logger = FlowRunContext.get(), get_run_logger()
    width = width_of(context.task_runner if context is not None else None)
    try:
        with worker_processes(doc, width) as pool:
            done += _one(stages.check_manual, run, wait_for_manual)
            idle = patiently(lambda: _nothing_to_do(doc), logger)
            done += _one(_slotless(stages.download, idle), run)
            done += _one(stages.plan_splits, run)
            units = patiently(lambda: staged.pieces(doc, "examples", limit=max_tasks), logger)
            if pool is not None and not idle and patiently(lambda: _has_work(doc), logger):
                # Begun here and not in a task's thread: a child ends with the thread it came from.
                pool.start()
            _all(_slotless(stages.encode_examples, idle), run, units, done)
            done += _one(stages.collect, run)
            units = patiently(lambda: staged.pieces(doc, "shards", limit=max_tasks), logger)
            _all(_slotless(stages.write_shards, idle), run, units, done)
            found = Published.from_json(stages.register.submit(run).result())
        _publish(doc, found)
        end = showing.summary(found)
        return found
    except Exception:
        raise
    except BaseException:
        staged.end(doc, "interrupted", "the flow run was cancelled or its process was stopped")
        end = "interrupted; what is finished is kept"
        raise
    finally:
        showing.show_stages(doc, done, end)


def _one(task: Any, *args: Any) -> list[Outcome]:
    return outcomes(task.submit(*args).result())


def _all(task: Any, run: dict[str, Any], units: list[Unit], done: list[Outcome]) -> None:
    """Maps a task over units; the first failure is raised after all of them have ended."""
    if not units:
        return
    futures = task.map(unmapped(run), [unit.to_json() for unit in units])
    futures.wait()
    for future in futures:
        if future.state.is_completed():
            done += outcomes(future.result())
    for future in futures:
        future.result()


def _slotless(task: Any, idle: bool) -> Any:
    """The task; where there is nothing to do, without the tags whose slots it would ask for.

    Each asks the server, which may answer seconds later: SQLite has one writer at a time.
    """
    if not idle:
        return task
    found = task.with_options()
    found.tags = set()
    return found


def _nothing_to_do(doc: RunDoc) -> bool:
    return staged.plan_of(doc).done


def _has_work(doc: RunDoc) -> bool:
    steps = staged.plan_of(doc).steps
    return any(each.kind in ("examples", "shards") and each.state != HIT for each in steps)


def _publish(doc: RunDoc, found: Published) -> None:
    """Tells Prefect of the asset, where the run made the version and so something is new."""
    if not found.changed:
        return
    asset = Asset(key=asset_key(found.dataset))
    sources = patiently(lambda: _sources(doc), get_run_logger())

    def publish() -> dict[str, Any]:
        asset.add_metadata(
            {
                "version": found.version,
                "fingerprint": found.fingerprint,
                "examples": dict(found.splits),
                "bytes": found.bytes,
                "path": found.path,
                "changed_splits": list(found.changed_splits),
            }
        )
        return found.to_json()

    task = materialize(
        asset, by="provender", name="publish", asset_deps=sources, cache_policy=NO_CACHE
    )
    task(publish)()


def _sources(doc: RunDoc) -> list[Asset]:
    """The URLs that the version was made from, as far as Prefect can name them."""
    steps = {step.key: step for step in staged.plan_of(doc).steps}
    step = steps.get("download")
    records = step.record.result["records"] if step is not None and step.record else []
    found = []
    for each in records[:_SOURCES]:
        with suppress(ValidationError):
            found.append(Asset(key=each["url"]))
    return found


def asset_key(dataset: str) -> str:
    """A dataset's key among Prefect's assets.

    Args:
        dataset: ``name[/config]``.
    """
    return f"provender://{dataset}"
