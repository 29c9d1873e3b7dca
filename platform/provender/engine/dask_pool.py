"""Pieces of work on a Dask cluster.

A task is a small JSON document, as for the workers of one machine. The Dask worker hands it to a
child process of its own (`provender.engine.pool.Worker`), because user code is not asked to be
safe in threads; the child ends with the worker that began it. Dask gives the work of a lost worker
to another one.

Every worker must see the folder that pieces are built in, ``building/`` of a local store or
``scratch``, under the same path: runs written by one are merged by another. The first thing asked
of the cluster is whether it does.
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provender.engine.operations import IN_WORKERS
from provender.engine.pool import Worker, own_path
from provender.errors import ProvenderError, SettingsError, WorkerDied
from provender.stages.site import Progress, Site, Workplace

CONNECT_SECONDS = 10


class DaskPool:
    """Runs operations on a Dask cluster, with the interface of `provender.engine.pool.Pool`.

    Args:
        work: the place of work of this process.
        address: of the cluster's scheduler, ``tcp://host:8786``.

    Raises:
        SettingsError: Dask is not installed here, nothing answers at the address, or the workers
            do not see the folder that pieces are built in.
    """

    def __init__(self, work: Workplace, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise SettingsError(
                "The dask engine needs the package distributed.",
                where="--engine dask",
                hint="pip install distributed, here and on the workers.",
            ) from error
        self.work = work
        self.address = address
        try:
            self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise SettingsError(
                f"No Dask scheduler answers at {address}.",
                where="--address",
                hint="Start one with `dask scheduler`, and workers with `dask worker ADDRESS`.",
                facts={"cause": str(error)},
            ) from error
        try:
            self.workers = self._count()
            self._check_folder()
        except BaseException:
            self._client.close()
            raise
        self._closed = False

    def _count(self) -> int:
        count = sum(self._client.nthreads().values())
        if not count:
            try:
                self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            except TimeoutError as error:
                raise SettingsError(
                    f"The Dask cluster at {self.address} has no workers.",
                    where="--address",
                    hint=f"`dask worker {self.address}` starts one.",
                ) from error
            count = sum(self._client.nthreads().values())
        return count

    def _check_folder(self) -> None:
        folder = self.work.building
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / f".seen-{uuid.uuid4().hex}"
        mark.touch()
        try:
            answers = self._client.run(_sees, str(mark))
        finally:
            mark.unlink()
        blind = sorted(worker for worker, seen in answers.items() if not seen)
        if blind:
            raise SettingsError(
                f"{len(blind)} of {len(answers)} Dask workers do not see {folder}.",
                where=blind[0],
                hint="Put the store, or `scratch` where the store is remote, on a file system "
                "that all of them share.",
                facts={"workers": blind},
            )

    def start(self) -> None:
        """The workers are there already."""

    def takes(self, op: str) -> bool:
        """Whether an operation is worth handing over; others run in this process."""
        return op in IN_WORKERS

    def call(self, op: str, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        """Runs one operation somewhere on the cluster; blocks until it is done.

        Raises:
            ProvenderError: what the operation raised.
            WorkerDied: it took several workers down with it, or the cluster is gone.
        """
        from distributed import CancelledError, KilledWorker

        topic = f"provender-{uuid.uuid4().hex}"

        def heard(event: tuple[float, Mapping[str, Any]]) -> None:
            progress(event[1])

        self._client.subscribe_topic(topic, heard)
        try:
            future = self._client.submit(
                run_here,
                self.work.site.to_json(),
                own_path(),
                op,
                dict(args),
                topic,
                pure=False,
                key=f"provender-{op}-{uuid.uuid4().hex}",
            )
            answer = future.result()
        except (KilledWorker, CancelledError) as error:
            raise WorkerDied(
                f"Dask lost every worker that ran {op!r}.",
                where=self.address,
                hint="Their logs say why; memory that ran out is the usual cause.",
                facts={"cause": str(error)},
            ) from error
        finally:
            if not self._closed:
                self._client.unsubscribe_topic(topic)
        if "error" in answer:
            raise ProvenderError.from_json(answer["error"])
        return dict(answer["result"])

    def close(self) -> None:
        """Lets go of the cluster; what it still runs for this build is cancelled."""
        self._closed = True
        self._client.close()


def _sees(path: str) -> bool:
    return Path(path).exists()


_children = threading.local()


def run_here(
    site: Mapping[str, Any], path: Sequence[str], op: str, args: Mapping[str, Any], topic: str
) -> dict[str, Any]:
    """Runs an operation in this Dask worker's child process.

    Args:
        site: a `Site` as JSON.
        path: folders of user code, which the worker's own import path is extended by.
        op: operation name.
        args: its arguments.
        topic: Dask topic that hears of progress.

    Returns:
        ``{"result": ...}`` or ``{"error": ...}``, both JSON-ready.
    """
    from distributed import get_worker

    sys.path.extend(each for each in path if each not in sys.path)
    here = get_worker()

    def progress(said: Mapping[str, Any]) -> None:
        here.log_event(topic, dict(said))

    worker = _child(site)
    try:
        return {"result": worker.call(op, args, progress)}
    except WorkerDied as error:
        _drop()
        return {"error": error.to_json()}
    except ProvenderError as error:
        return {"error": error.to_json()}


def _child(site: Mapping[str, Any]) -> Worker:
    known = getattr(_children, "worker", None)
    if known is not None and _children.site == site:
        return known
    _drop()
    _children.site, _children.worker = site, Worker(Site.from_json(site), set())
    return _children.worker


def _drop() -> None:
    worker = getattr(_children, "worker", None)
    if worker is not None:
        worker.close()
        del _children.worker
