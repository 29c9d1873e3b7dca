"""The flow that builds a dataset for a span of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.states import Completed, Failed

from provender.engine.session import open_catalog
from provender.orchestration.backfill.planning import (
    BROKEN,
    BUILT,
    CACHED,
    Backfill,
    Piece,
    grain_for,
    plan_backfill,
)
from provender.orchestration.prefect import parameters as p
from provender.orchestration.prefect.preparing import prepare_dataset
from provender.orchestration.prefect.showing import artifact_key
from provender.settings import load_settings


@flow(
    name="backfill",
    flow_run_name="backfill {dataset} {first} to {last}",
    description="Builds every piece of a span of time that is not built yet.",
    persist_result=False,
)
def backfill(
    dataset: p.Dataset,
    first: str,
    last: str,
    every: Literal["hour", "day", "week", "month", "year"] | None = None,
    reprocess: Literal["none", "failed", "completed"] = "none",
    max_tasks: p.Tasks = 64,
    config_file: str | None = None,
) -> Any:
    """Builds every piece of a span of time that is not built yet, one after another.

    What is left to do is read from the catalog, so a backfill that was stopped goes on.

    Args:
        dataset: A dataset of provender.toml that is cut by time.
        first: Its first piece, such as 2026-11-01.
        last: Its last piece, which is included.
        every: How it is cut; by default as the registry says.
        reprocess: Build again nothing that has ended, also what failed, or everything.
        max_tasks: Most tasks that a stage is spread over.
        config_file: The provender.toml, as the workers see it; by default the nearest one.

    Returns:
        The backfill (`provender.orchestration.backfill.Backfill`) as JSON. The flow's state is
        ``Cached`` where nothing was built, and failed where a piece failed.
    """
    settings = load_settings(file=config_file, only=(dataset,))
    grain = grain_for(dataset, settings, every)
    with open_catalog(settings) as catalog:
        plan = plan_backfill(catalog, dataset, grain, first, last, reprocess)
    get_run_logger().info("%d of %d to do", len(plan.todo), len(plan.pieces))
    ended: dict[str, Piece] = {}
    try:
        for piece in plan.todo:
            ended[piece.name] = _build(dataset, piece, max_tasks, config_file)
    finally:
        plan = replace(plan, pieces=tuple(ended.get(each.name, each) for each in plan.pieces))
        _show(plan)
    return _state(plan)


def _build(dataset: str, piece: Piece, max_tasks: int, config_file: str | None) -> Piece:
    state = prepare_dataset(
        f"{dataset}/{piece.name}", max_tasks=max_tasks, config_file=config_file, return_state=True
    )
    if not state.is_completed():
        return piece.now(BROKEN, state.message or state.name)
    found = state.result()
    kind = CACHED if state.name == "Cached" else BUILT
    return piece.now(kind, state.message, version=found["name"], run=found["run_id"])


def _show(plan: Backfill) -> None:
    create_table_artifact(
        key=artifact_key("backfill", plan.dataset),
        table=[
            {"piece": e.name, "state": e.state, "why": e.why, "version": e.version or ""}
            for e in plan.pieces
        ],
        description=f"**{plan.dataset}**, {plan.grain} by {plan.grain}",
    )


def _state(plan: Backfill) -> Any:
    failed, built = plan.count(BROKEN), plan.count(BUILT)
    message = f"{built} built, {failed} failed, of {len(plan.pieces)}"
    if failed:
        return Failed(message=message, data=plan.to_json())
    return Completed(name="Completed" if built else "Cached", message=message, data=plan.to_json())
