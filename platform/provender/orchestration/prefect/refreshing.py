"""The flow that builds everything the project names."""

from __future__ import annotations

from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.states import Completed, Failed

from provender.errors import UnknownReference
from provender.orchestration.prefect import parameters as p
from provender.orchestration.prefect.preparing import prepare_dataset
from provender.registry import read_registry
from provender.settings import Settings, load_settings, read_file


@flow(
    name="refresh-all",
    description="Builds every dataset that provender.toml names; one that fails stops no other.",
    persist_result=False,
)
def refresh_all(
    only: list[str] | None = None, max_tasks: p.Tasks = 64, config_file: str | None = None
) -> Any:
    """Builds every dataset that the project names, each as a flow run of its own, one after another.

    Args:
        only: Names of provender.toml; by default all of them.
        max_tasks: Most tasks that a stage is spread over.
        config_file: The provender.toml, as the workers see it; by default the nearest one.

    Returns:
        One row a dataset. The flow's state is ``Cached`` where nothing at all was done, and failed
        where one of them failed.
    """
    settings = load_settings(file=config_file, only=())
    names = _names(_known(settings), only, str(settings.path or "provender.toml"))
    rows = []
    for name in names:
        state = prepare_dataset(
            name, max_tasks=max_tasks, config_file=config_file, return_state=True
        )
        rows.append({"dataset": name, "state": state.name, "message": state.message or ""})
        get_run_logger().info("%s: %s, %s", name, state.name, state.message)
    create_table_artifact(key="refresh-all", table=rows, description="Every dataset, as it stands")
    bad = [row["dataset"] for row in rows if row["state"] not in ("Completed", "Cached")]
    if bad:
        return Failed(message=f"{len(bad)} of {len(rows)} failed: {', '.join(bad)}", data=rows)
    cached = all(row["state"] == "Cached" for row in rows)
    return Completed(
        name="Cached" if cached else "Completed", message=f"{len(rows)} stand", data=rows
    )


def _known(settings: Settings) -> tuple[str, ...]:
    """All names, also those whose tables make no sense: their flow runs say what is wrong."""
    if settings.path is None:
        return ()
    registry = read_registry(read_file(settings.path), settings.path)
    broken = dict.fromkeys(each.dataset for each in registry.problems if each.dataset)
    return (*registry.entries, *broken)


def _names(known: tuple[str, ...], only: list[str] | None, where: str) -> list[str]:
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise UnknownReference(
            f"{where} names no dataset {', '.join(unknown)}.",
            where="only",
            hint=f"It names: {', '.join(known) or 'none'}.",
        )
    return [name for name in known if not only or name in only]
