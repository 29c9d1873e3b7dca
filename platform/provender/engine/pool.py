"""Worker processes of one build on this machine.

Workers are plain child processes that speak JSON (see `worker`): nothing is pickled, nothing is
forked from a process that may hold threads, and a worker that dies is replaced.
"""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from provender.engine.operations import IN_WORKERS, operation
from provender.errors import ProvenderError, WorkerDied
from provender.stages.site import Progress, Site, Workplace

ATTEMPTS = 3
"""How often a piece of work is given to a fresh worker after one died over it."""


class Worker:
    """One child process.

    Args:
        site: what it is told first.
        said: log messages that were passed on already. Parts of one split replay the same
            generator, and so say the same.
        python: another Python to run, which has Provender itself.
    """

    def __init__(self, site: Site, said: set[str], python: str | None = None) -> None:
        self._said = said
        self._log = tempfile.TemporaryFile(prefix="provender-worker-")  # noqa: SIM115 - closed with the worker
        try:
            self._process = subprocess.Popen(
                [python or sys.executable, "-P", "-m", "provender.engine.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                encoding="utf-8",
            )
        except OSError:
            self._log.close()
            raise
        with suppress(BrokenPipeError):
            path = {"more": own_path()} if python else {"path": sys.path}
            self._send({"site": site.to_json(), **path})

    def _pipe(self, pipe: IO[str] | None) -> IO[str]:
        if pipe is None:
            raise WorkerDied("A worker process has no pipe.", where="worker")
        return pipe

    def _send(self, doc: Mapping[str, Any]) -> None:
        pipe = self._pipe(self._process.stdin)
        pipe.write(json.dumps(doc) + "\n")
        pipe.flush()

    def call(self, op: str, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        """Runs one operation in the worker.

        Raises:
            ProvenderError: what the operation raised.
            WorkerDied: the process ended without an answer.
        """
        try:
            self._send({"op": op, "args": dict(args)})
            for line in self._pipe(self._process.stdout):
                answer = json.loads(line)
                if "progress" in answer:
                    progress(answer["progress"])
                elif "log" in answer:
                    self._pass_on(answer["log"])
                elif "error" in answer:
                    raise ProvenderError.from_json(answer["error"])
                else:
                    return dict(answer["result"])
        except BrokenPipeError:
            pass
        raise self._death(op)

    def _pass_on(self, said: Mapping[str, Any]) -> None:
        text = f"{said['name']} {said['message']}"
        if text not in self._said:
            self._said.add(text)
            logging.getLogger(said["name"]).log(said["level"], "%s", said["message"])

    def _death(self, op: str) -> WorkerDied:
        code = self._process.wait()
        self._log.seek(0)
        tail = self._log.read().decode(errors="replace").strip().splitlines()[-12:]
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return WorkerDied(
            f"A worker process {how} while it ran {op!r}.",
            where=op,
            hint="Signal 9 mostly means that memory ran out: try fewer --workers."
            if code == -9
            else None,
            facts={"exit_code": code, "log": tail},
        )

    def close(self) -> None:
        """Ends the process, at once: an idle worker has nothing to put away."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()
        self._process.wait()
        self._log.close()


def own_path() -> list[str]:
    """What of this process's import path is user code: folders that hold no installed package."""
    return [each for each in sys.path if each and "site-packages" not in each]


class Pool:
    """Runs operations in this process (``workers == 1``) or in worker processes.

    Args:
        work: the place of work of this process.
        workers: processes to use.
    """

    def __init__(self, work: Workplace, workers: int) -> None:
        self.work = work
        self.workers = workers
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._all: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False
        self._said: set[str] = set()

    def start(self) -> None:
        """Starts the workers, so that they import the builder while others plan."""
        if self.workers > 1 and not self._all:
            for _ in range(self.workers):
                self._idle.put(self._new())

    def _new(self) -> Worker:
        worker = Worker(self.work.site, self._said)
        with self._lock:
            self._all.append(worker)
        return worker

    def takes(self, op: str) -> bool:
        """Whether an operation is worth handing over; others run in this process."""
        return op in IN_WORKERS

    def call(self, op: str, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        """Runs one operation; blocks while every worker is busy.

        Raises:
            ProvenderError: what the operation raised.
            WorkerDied: it took `ATTEMPTS` workers down with it.
        """
        if self.workers == 1:
            return operation(op)(self.work, args, progress)
        self.start()
        worker = self._idle.get()
        try:
            for attempt in range(ATTEMPTS):
                try:
                    return worker.call(op, args, progress)
                except WorkerDied:
                    if self._closed or attempt == ATTEMPTS - 1:
                        raise
                    worker.close()
                    worker = self._new()
            raise AssertionError
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Ends all workers; work they still had fails with `WorkerDied`."""
        self._closed = True
        for worker in self._all:
            worker.close()
        self._all.clear()
