"""How Prefect tries again what is worth another try."""

from __future__ import annotations

from typing import Any

from provender.orchestration.retrying import worth_a_retry

RETRIES = 3
"""Further tries of a task whose failure may pass."""

DELAYS = (10.0, 60.0, 300.0)
"""Seconds before each of them; Prefect adds up to a half by chance."""


def on_failure(task: Any, task_run: Any, state: Any) -> bool:
    """`worth_a_retry` as Prefect asks for it (``retry_condition_fn``).

    Args:
        task: the task.
        task_run: its run.
        state: the failed state.
    """
    error = state.result(raise_on_failure=False)
    return isinstance(error, BaseException) and worth_a_retry(error)
