"""Where the heavy work of a task runs.

With Prefect's threads all tasks share one process, and a builder's code is not asked to be safe in
threads. So the flow's process keeps worker processes of its own, as ``provender build`` does, and
each thread waits for one of them. Where tasks come one after another (a single thread, a process
pool, a Dask worker) they work where they are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from provender.engine.execute import Call
from provender.engine.operations import operation
from provender.engine.pool import Pool
from provender.engine.staged import RunDoc, workplace
from provender.stages.site import Progress

_pools: dict[str, Pool] = {}
_turn = threading.Lock()


@contextmanager
def worker_processes(doc: RunDoc, count: int) -> Iterator[Pool | None]:
    """Keeps worker processes for a run's tasks in this process, from the first that needs one.

    Args:
        doc: the run.
        count: processes; of 1 there are none.

    Yields:
        The pool, whose `Pool.start` begins the processes at once; None where there are none.
    """
    if count == 1:
        yield None
        return
    pool = Pool(workplace(doc), count)
    _pools[doc.run_id] = pool
    try:
        yield pool
    finally:
        del _pools[doc.run_id]
        pool.close()


def call_of(doc: RunDoc) -> Call:
    """How a task of this process has an operation done.

    Args:
        doc: the run.
    """
    pool = _pools.get(doc.run_id)
    if pool is not None:
        return pool.call
    work = workplace(doc)

    def here(op: str, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        with _turn:
            return operation(op)(work, args, progress)

    return here
