"""Pieces of work in this process or in several.

A worker is a fresh interpreter that is told its work and its pieces on standard input, a JSON
document a line, and answers on standard output likewise. It ends when its input does, so it does
not outlive the process that started it for longer than a piece takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from provender.errors import ProvenderError, WorkerDied
from provender.nlp.pretraining.work import Piece, Work


class Pool:
    """Runs pieces.

    Args:
        work: what they belong to.
        workers: processes; with one, pieces run in this process.
    """

    def __init__(self, work: Work, workers: int) -> None:
        self._work = work
        self._workers = workers
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._started:
            each.kill()
        for each in self._started:
            each.wait()
            for pipe in (each.stdin, each.stdout):
                # What a dead worker was not sent is still in the buffer, which closing writes out.
                with contextlib.suppress(BrokenPipeError):
                    _pipe(pipe).close()

    def run(self, pieces: Sequence[Piece]) -> Iterator[int]:
        """Runs pieces, begun in their order; yields the number of each as it is done.

        Raises:
            ProvenderError: what a piece raised.
            WorkerDied: a process ended without an answer.
        """
        if self._workers == 1 or len(pieces) < 2:
            for each in pieces:
                self._work.run(each)
                yield each["number"]
            return
        yield from self._spread(deque(pieces))

    def _spread(self, waiting: deque[Piece]) -> Iterator[int]:
        with selectors.DefaultSelector() as selector:
            for worker in self._needed(len(waiting)):
                selector.register(_pipe(worker.stdout), selectors.EVENT_READ, worker)
                _send(worker, waiting.popleft())
            busy = len(selector.get_map())
            while busy:
                for key, _ in selector.select():
                    worker = key.data
                    yield _answer(worker)
                    if waiting:
                        _send(worker, waiting.popleft())
                    else:
                        busy -= 1

    def _needed(self, pieces: int) -> list[subprocess.Popen[bytes]]:
        wanted = min(self._workers, pieces)
        while len(self._started) < wanted:
            worker = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._started.append(worker)
            _send(worker, self._work.to_json())
        return self._started[:wanted]


def _pipe(pipe: Any) -> Any:
    assert pipe is not None
    return pipe


def _send(worker: subprocess.Popen[bytes], doc: Any) -> None:
    pipe = _pipe(worker.stdin)
    try:
        pipe.write(json.dumps(doc).encode() + b"\n")
        pipe.flush()
    except BrokenPipeError as error:
        raise _died(worker) from error


def _answer(worker: subprocess.Popen[bytes]) -> int:
    line = _pipe(worker.stdout).readline()
    if not line:
        raise _died(worker)
    doc = json.loads(line)
    if "error" in doc:
        raise ProvenderError.from_json(doc["error"])
    return int(doc["done"])


def _died(worker: subprocess.Popen[bytes]) -> WorkerDied:
    code = worker.wait()
    how = f"by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"with code {code}"
    return WorkerDied(
        f"A worker process ended {how}, without an answer.",
        where=f"process {worker.pid}",
        hint="If memory was short, use fewer --workers. The same command goes on from what is done.",
    )


def _serve() -> None:
    """What a worker does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What libraries print must not be taken for an answer.
    os.dup2(2, 1)
    work = Work.from_json(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        piece = json.loads(line)
        try:
            work.run(piece)
            answer = {"done": piece["number"]}
        except ProvenderError as error:
            answer = {"error": error.to_json()}
        try:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    _serve()
