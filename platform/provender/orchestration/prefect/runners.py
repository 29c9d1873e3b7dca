"""Where Prefect runs the tasks of a flow: threads, processes, or a Dask cluster."""

from __future__ import annotations

import os
from typing import Any

from provender.errors import SettingsError

VARIABLE = "PROVENDER_TASK_RUNNER"
"""Environment variable that names the runner of flows that are not told otherwise."""

_KINDS = "threads, threads:8, processes, processes:4, dask:tcp://host:8786"


def runner_of(text: str | None = None) -> Any:
    """A Prefect task runner.

    Args:
        text: ``threads`` or ``processes``, each with a number of workers after a colon if wanted,
            or ``dask:`` and the address of a running scheduler. By default as the environment's
            PROVENDER_TASK_RUNNER says, else threads.

    Raises:
        SettingsError: there is no such runner, or Prefect's Dask package is missing.
    """
    where = "--runner" if text is not None else VARIABLE
    text = text if text is not None else os.environ.get(VARIABLE, "threads")
    kind, _, rest = text.partition(":")
    if kind == "dask" and rest:
        return _dask(rest, where)
    if kind not in ("threads", "processes") or (rest and not (rest.isdecimal() and int(rest))):
        raise SettingsError(
            f"{text!r} names no task runner.", where=where, hint=f"One of: {_KINDS}."
        )
    from prefect.task_runners import ProcessPoolTaskRunner, ThreadPoolTaskRunner

    count = int(rest) if rest else os.cpu_count() or 2
    made = ThreadPoolTaskRunner if kind == "threads" else ProcessPoolTaskRunner
    return made(max_workers=count)


def width_of(runner: Any) -> int:
    """How many tasks a runner runs at once in this process; 1 where they run elsewhere.

    Args:
        runner: from `runner_of`.
    """
    from prefect.task_runners import ThreadPoolTaskRunner

    if not isinstance(runner, ThreadPoolTaskRunner):
        return 1
    return min(int(runner._max_workers), os.cpu_count() or 2)


def _dask(address: str, where: str) -> Any:
    try:
        from prefect_dask import DaskTaskRunner
    except ImportError as error:
        raise SettingsError(
            "Running tasks on Dask needs the package prefect-dask.",
            where=where,
            hint="pip install 'provender[prefect]', here and on the workers.",
        ) from error
    return DaskTaskRunner(address=address)
