"""Worker processes of a map or filter, as the process that has them sees them."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.frames import Pipe
from provender.data.dataset.shaping import WINDOW, joined
from provender.data.dataset.travel import pack
from provender.data.errors import FeatureTypeError, TransformError
from provender.errors import ProvenderError, WorkerDied

if TYPE_CHECKING:
    from provender.data.cache import Work
    from provender.data.dataset.engine import Job
    from provender.data.features import Features

_SLICE_ROWS = 2048
_LAST_WORDS = 5.0
"""Seconds that workers get to commit what they have when the run is given up."""
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from provender.data.dataset.worker import main; main(*map(int, sys.argv[2:5]))"
)


def run_in_workers(
    job: Job,
    work: Work,
    gaps: list[tuple[int, int]],
    known: Features | None,
    advance: Callable[[int], None],
) -> bool:
    """Runs a job's missing rows in worker processes.

    Rows are cut as for one process, so the result does not depend on how many there are.

    Returns:
        False where the function returns None for every row, so that nothing was written.

    Raises:
        TransformError: the function cannot be sent, raised, or returned what cannot be stored.
        WorkerDied: a worker was killed or crashed.
    """
    crew = _Crew(job, work.handle(), pack(job.call), min(job.workers, max(len(gaps), 1)))
    with crew:
        return crew.run(gaps, known, advance)


class _Hand:
    """One worker process, the thread that feeds it and the thread that listens to it."""

    def __init__(self, rank: int, job: Job, events: queue.SimpleQueue[Any]) -> None:
        self.rank = rank
        self.busy: tuple[int, int] | None = None
        self._job = job
        self._events = events
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopping = False
        command_r, command_w = os.pipe()
        answer_r, answer_w = os.pipe()
        life_r, self._life_w = os.pipe()
        fds = (command_r, answer_w, life_r)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), *map(str, fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
            )
        finally:
            for fd in fds:
                os.close(fd)
        self._out, self._in = Pipe(command_w, "wb"), Pipe(answer_r, "rb")
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._feed, self._listen)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, doc: dict[str, Any], data: bytes) -> None:
        self._tasks.put(("start", doc, data))

    def give(self, span: tuple[int, int], doc: dict[str, Any]) -> None:
        self.busy = span
        self._tasks.put(("range", {**doc, "do": "range", "start": span[0]}, span))

    def _feed(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                kind, doc, more = task
                if kind == "start":
                    self._out.send(doc, more)
                    continue
                self._out.send(doc)
                step = self._job.call.step
                size = max(step, _SLICE_ROWS - _SLICE_ROWS % step)
                for table in self._job.tables(more[0], more[1], size):
                    if self._stopping:
                        return
                    self._out.send({"do": "rows"}, _as_bytes(table))
                self._out.send({"do": "end"})
            self._out.send({"do": "stop"})
        except OSError:
            pass  # the worker is gone, or going: the listening thread hears why
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            self._events.put((self, {"did": "broken"}, error))

    def _listen(self) -> None:
        while (message := self._in.receive()) is not None:
            self._events.put((self, *message))
        self._events.put((self, None, b""))

    def finish(self) -> None:
        """Nothing more to do."""
        self._tasks.put(None)

    def ask_to_stop(self) -> None:
        """Commit what there is, and end."""
        self._stopping = True
        self._tasks.put(None)
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Waits for its end, and makes sure of it."""
        try:
            self.process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(_LAST_WORDS)
        os.close(self._life_w)
        self._out.close()
        self._in.close()


class _Crew:
    """All workers of one run."""

    def __init__(self, job: Job, handle: str, packed: bytes, count: int) -> None:
        self._job = job
        self._handle = handle
        self._packed = packed
        self._count = count
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._hands: list[_Hand] = []
        self._known: Features | None = None
        self._none: bool | None = None

    def __enter__(self) -> _Crew:
        try:
            for rank in range(self._count):
                self._hands.append(_Hand(rank, self._job, self._events))
        except BaseException:
            self.__exit__(OSError, None, None)
            raise
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for hand in self._hands:
            hand.finish() if kind is None else hand.ask_to_stop()
        until = time.monotonic() + _LAST_WORDS
        for hand in self._hands:
            hand.wait(until - time.monotonic())

    def run(
        self,
        gaps: list[tuple[int, int]],
        known: Features | None,
        advance: Callable[[int], None],
    ) -> bool:
        job = self._job
        given = None if job.given is None else job.given.to_dict()
        features = job.dataset._features.to_dict()
        for hand in self._hands:
            doc = {"features": features, "given": given, "rank": hand.rank, "handle": self._handle}
            hand.start(doc, self._packed)
        for _ in self._hands:
            self._next(advance)
        self._known = known
        if job.call.kind == "map":
            # Rows that types are found from come first; the others keep to what was found.
            early, gaps = _early(gaps, job.call.step)
            self._all(early, advance)
        self._all(gaps, advance)
        return not self._none

    def _all(self, gaps: list[tuple[int, int]], advance: Callable[[int], None]) -> None:
        """Has ranges of rows computed, each by whoever is free."""
        waiting, idle, running = deque(gaps), deque(self._hands), 0
        while waiting or running:
            while waiting and idle:
                self._give(idle.popleft(), waiting.popleft())
                running += 1
            idle.append(self._until_done(advance))
            running -= 1

    def _give(self, hand: _Hand, span: tuple[int, int]) -> None:
        known = None if self._known is None else self._known.to_dict()
        hand.give(span, {"known": known, "none": self._none})

    def _until_done(self, advance: Callable[[int], None]) -> _Hand:
        """Listens until a worker has done its range."""
        while True:
            hand, doc = self._next(advance)
            if doc["did"] != "range":
                continue
            self._learn(hand, doc)
            hand.busy = None
            return hand

    def _learn(self, hand: _Hand, doc: dict[str, Any]) -> None:
        """Takes note of what a worker found out about the function."""
        if self._job.call.kind != "map":
            return
        if self._none is not None and self._none != doc["none"]:
            span = hand.busy or (0, 0)
            raise TransformError(
                f"{self._job.call.name} returned {'None' if doc['none'] else 'columns'} for rows "
                f"{span[0]} to {span[1] - 1}, {'columns' if doc['none'] else 'None'} for others.",
                hint="Return a dict for every row, or None for every row.",
            )
        self._none = doc["none"]
        if doc["features"] is None or self._job.given is not None or self._none:
            return
        from provender.data.features import Features

        found = Features.from_dict(doc["features"])
        try:
            self._known = found if self._known is None else joined(self._known, found)
        except FeatureTypeError as error:
            start, stop = hand.busy or (0, 0)
            error.facts["row"] = start
            error.where = f"rows {start} to {stop - 1}, {error.where}"
            raise

    def _next(self, advance: Callable[[int], None]) -> tuple[_Hand, dict[str, Any]]:
        """The next message that is more than progress."""
        while True:
            hand, doc, data = self._events.get()
            if doc is None:
                raise self._died(hand)
            if doc["did"] == "rows":
                advance(doc["count"])
            elif doc["did"] == "broken":
                raise data
            elif doc["did"] == "fail":
                raise _error_of(doc, data)
            else:
                return hand, doc

    def _died(self, hand: _Hand) -> WorkerDied:
        code = hand.process.wait()
        call = self._job.call
        how = f"exit code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-code).name
        span = hand.busy
        at = "" if span is None else f" while it ran rows {span[0]} to {span[1] - 1}"
        return WorkerDied(
            f"A worker process of {call.kind}({call.name}) died ({how}){at}.",
            where=f"{call.kind}({call.name}), worker {hand.rank}",
            hint="SIGKILL often means that memory ran out: use fewer workers (num_proc), or "
            "smaller batches. What was finished is kept: run it again to go on from there.",
            facts={"worker": hand.rank, "exit": code, "rows": span},
        )


def _early(
    gaps: list[tuple[int, int]], step: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Ranges cut after the rows that types are found from."""
    limit = -(-WINDOW // step) * step
    early = [(start, min(stop, limit)) for start, stop in gaps if start < limit]
    late = [(max(start, limit), stop) for start, stop in gaps if stop > limit]
    return early, late


def _as_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _error_of(doc: dict[str, Any], data: bytes) -> ProvenderError:
    """What a worker failed with, chained to what the function raised there."""
    error = ProvenderError.from_json(doc["error"])
    cause: BaseException | None = None
    if data:
        with contextlib.suppress(Exception):
            # From a pipe of a process that this one started: nothing stored is unpickled.
            cause = pickle.loads(data)  # noqa: S301
    if cause is None and doc["traceback"]:
        cause = RuntimeError("the function raised this in a worker process")
    if cause is not None and doc["traceback"]:
        cause.add_note("in a worker process:\n" + doc["traceback"])
    error.__cause__ = cause
    return error
