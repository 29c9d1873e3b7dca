"""What a job of the tf.data service is called.

A job is found by its name: readers that give the same name read one job together. The name ends in
``R``, which stands for the run, so that a training that starts again begins a job of its own and
does not go on with what is left of the one before. A process draws a number unless the config or
`RUN_VARIABLE` says what all processes of the run have agreed on.
"""

from __future__ import annotations

import functools
import json
import os
import random
from collections.abc import Mapping
from typing import Any

from provender.errors import SettingsError

RUN_VARIABLE = "PROVENDER_DATA_SERVICE_RUN"
"""Environment variable: what all processes of one run, and no other run, have in common."""


@functools.cache
def _own_run() -> int:
    # Not from `random`'s own generator: training scripts seed that one, and a restart would then
    # draw the number of the run before.
    return random.SystemRandom().getrandbits(31)


def run_of(agreed: str | None = None, environ: Mapping[str, str] | None = None) -> str:
    """What ends the names of this run's jobs.

    Args:
        agreed: ``tf_data_service_run`` of the config; None where it says nothing.
        environ: environment, by default the process's.

    Returns:
        ``agreed``, else what `RUN_VARIABLE` says; else a random number below 2**31 that stays the
        same until the process ends.
    """
    found = _agreed(agreed, os.environ if environ is None else environ)
    return found or str(_own_run())


def _agreed(agreed: str | None, environ: Mapping[str, str]) -> str:
    return str(agreed or "").strip() or environ.get(RUN_VARIABLE, "").strip()


def job_name(
    name: str | None,
    global_batch_size: int,
    *,
    shared: bool = False,
    round_robin: bool = False,
    run: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> str | None:
    """The name under which a pipeline's job is found.

    Args:
        name: ``tf_data_service_job_name`` of the config.
        global_batch_size: examples of a step on all replicas.
        shared: whether several trainings share the job.
        round_robin: whether consumers take turns, so that each step's batches have one length.
        run: ``tf_data_service_run`` of the config, see `run_of`.
        environ: environment, by default the process's.

    Returns:
        ``{name}_bs{global_batch_size}_{R}``; ``{name}_{R}`` where shared, since trainings of
        different batch sizes may share one job. None without a name: every iterator then has a job
        of its own.

    Raises:
        SettingsError: processes must find one job and cannot: there is no name, or they are
            several and have not agreed on the run; or both modes are asked for.
    """
    if shared and round_robin:
        raise SettingsError(
            "A shared job of the tf.data service cannot be read round-robin.",
            where="enable_round_robin_tf_data_service",
            hint="Switch off one of the two.",
        )
    environ = os.environ if environ is None else environ
    if shared or round_robin:
        _check_agreed(name, run, environ)
    if not name:
        return None
    number = run_of(run, environ)
    return f"{name}_{number}" if shared else f"{name}_bs{global_batch_size}_{number}"


def _check_agreed(name: str | None, run: str | None, environ: Mapping[str, str]) -> None:
    if not name:
        raise SettingsError(
            "Readers of one tf.data service job need its name, and none is given.",
            where="tf_data_service_job_name",
            hint='Give one, such as tf_data_service_job_name: "pretraining".',
        )
    processes = trainer_processes(environ)
    if processes > 1 and not _agreed(run, environ):
        raise SettingsError(
            f"{processes} training processes are to read one job of the tf.data service, "
            "and have not agreed on its run.",
            where="tf_data_service_run",
            hint=f"Start all of them with the same {RUN_VARIABLE}, such as the scheduler's job "
            "id, and with another one after a restart.",
        )


def trainer_processes(environ: Mapping[str, str]) -> int:
    """How many processes train together, as ``TF_CONFIG`` says; 1 where it says nothing."""
    try:
        config: Any = json.loads(environ.get("TF_CONFIG") or "{}")
        cluster = config.get("cluster", {})
        # A chief with parameter servers builds the datasets of its workers itself.
        if "ps" in cluster:
            return 1
        return max(1, sum(len(cluster.get(each, ())) for each in ("chief", "master", "worker")))
    except (ValueError, AttributeError, TypeError):
        return 1
