"""The flow that makes room in the store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact

from provender.engine.session import open_catalog
from provender.orchestration.prefect import parameters as p
from provender.settings import load_settings
from provender.store import Store
from provender.upkeep.gc import collect, sweep


@flow(
    name="retention",
    description="Lists, or removes, what nothing needs any more: as `provender gc` does.",
    persist_result=False,
)
def retention(
    apply: bool = False,
    grace_days: p.Days = 7,
    keep: p.Count = None,
    config_file: str | None = None,
) -> dict[str, Any]:
    """Removes from the store what nothing needs; never what a reader leases or a build uses.

    Args:
        apply: Remove what is listed; else only list it.
        grace_days: Keep what is younger, in days.
        keep: Also retract and remove published versions beyond the newest so many of their dataset that have no alias and that nobody reads.
        config_file: The provender.toml, as the workers see it; by default the nearest one.

    Returns:
        The report of ``provender gc --json``.
    """
    settings, grace = load_settings(file=config_file, only=()), timedelta(days=grace_days)
    store = Store.open(settings.store, scratch=str(settings.scratch))
    logger = get_run_logger()
    with open_catalog(settings) as catalog:
        if apply:
            report = sweep(
                settings,
                catalog,
                store,
                grace=grace,
                keep=keep,
                tell=lambda item: logger.info("%s %s %s", item.state, item.kind, item.what),
                on_wait=lambda held: logger.info("waits: %s does the same", held.owner),
            )
        else:
            report = collect(settings, catalog, store, grace=grace, keep=keep)
    rows = [
        {"kind": i.kind, "what": i.what, "bytes": i.size, "state": i.state, "why": i.why}
        for i in report.items
    ]
    what = "was removed" if apply else "would be removed"
    create_table_artifact(
        key="retention", table=rows, description=f"What {what}: {report.size():,} bytes"
    )
    return report.to_json()
