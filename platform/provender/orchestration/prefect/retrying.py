"""Which failures are worth another try."""

from __future__ import annotations

from typing import Any

from provender.errors import (
    CatalogError,
    DiskFull,
    DownloadError,
    ProvenderError,
    StoreError,
    WorkerDied,
)

RETRIES = 3
"""Further tries of a task whose failure may pass."""

DELAYS = (10.0, 60.0, 300.0)
"""Seconds before each of them; Prefect adds up to a half by chance."""


def worth_a_retry(error: BaseException) -> bool:
    """Whether the same call may succeed a little later.

    A server that is busy or away may come back. A wrong checksum, a broken builder or a version
    number that is taken will not get better by itself.

    Args:
        error: what a task raised.
    """
    if isinstance(error, DownloadError):
        return bool(error.facts.get("transient"))
    if isinstance(error, (CatalogError, StoreError, WorkerDied)):
        return not isinstance(error, DiskFull)
    # What is no error of ours comes from below: a connection, a file system, the orchestrator.
    return isinstance(error, OSError) and not isinstance(error, ProvenderError)


def on_failure(task: Any, task_run: Any, state: Any) -> bool:
    """`worth_a_retry` as Prefect asks for it (``retry_condition_fn``).

    Args:
        task: the task.
        task_run: its run.
        state: the failed state.
    """
    error = state.result(raise_on_failure=False)
    return isinstance(error, BaseException) and worth_a_retry(error)
