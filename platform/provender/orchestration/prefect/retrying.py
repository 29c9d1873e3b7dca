"""How Prefect tries again what is worth another try."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from provender.orchestration.retrying import worth_a_retry

T = TypeVar("T")

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


def patiently(ask: Callable[[], T], logger: logging.Logger | logging.LoggerAdapter[Any]) -> T:
    """What a flow asks between its tasks, tried again as the tasks are.

    Args:
        ask: the question; it changes nothing that a second try would not find.
        logger: is warned before each further try.

    Raises:
        Exception: what the last try raised, or one that another try would raise again.
    """
    for delay in DELAYS:
        try:
            return ask()
        except Exception as error:
            if not worth_a_retry(error):
                raise
            logger.warning("%s\nIt is tried again in %.0f s.", error, delay)
            time.sleep(delay)
    return ask()
