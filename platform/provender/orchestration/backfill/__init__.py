"""Building a dataset that is cut by time for a span of it, here or by Airflow.

What is left to do is read from the catalog's record of runs: there is no other state, so a backfill
that was interrupted goes on when it is asked for again, wherever it was begun.
"""

from __future__ import annotations

from provender.orchestration.backfill.planning import (
    COMPLETED,
    FAILED,
    NONE,
    REPROCESS,
    Backfill,
    Piece,
    plan_backfill,
    with_versions,
)

__all__ = [
    "COMPLETED",
    "FAILED",
    "NONE",
    "REPROCESS",
    "Backfill",
    "Piece",
    "plan_backfill",
    "with_versions",
]
