"""Building the pieces of a backfill on this machine, several at a time.

Each piece is a ``provender build`` of its own process: what one leaves in memory, or breaks, is no
business of the next, and all of them can be stopped at any moment.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from provender.orchestration.backfill.planning import BROKEN, BUILT, CACHED, RUNNING, Piece

Tell = Callable[[Piece], None]
"""Is told a piece whenever its state changes."""

_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 30


class LocalBackfill:
    """Builds pieces in child processes.

    Args:
        dataset: the dataset's name.
        options: of ``provender``, for the project's settings: ``--config-file``, ``--store`` ...
        build_options: of ``provender build``.
        parallel: pieces that are built at the same time.
        tell: is told of every change.
    """

    def __init__(
        self,
        dataset: str,
        options: Sequence[str],
        build_options: Sequence[str],
        parallel: int,
        tell: Tell,
    ) -> None:
        self._command = [sys.executable, "-P", "-c", "from provender.cli import main; main()"]
        self._dataset = dataset
        self._options = list(options)
        self._build = list(build_options)
        self._parallel = parallel
        self._tell = tell
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Builds all of them; one that fails stops no other.

        Args:
            pieces: in the order in which they are begun.

        Returns:
            How each of them ended, in the same order.

        Raises:
            KeyboardInterrupt: it was interrupted; children were, too, and what is finished is kept.
        """
        done: dict[str, Piece] = {}
        with ThreadPoolExecutor(self._parallel) as threads:
            running: dict[Future[Piece], Piece] = {threads.submit(self._one, p): p for p in pieces}
            try:
                while running:
                    for each in wait(running, return_when=FIRST_COMPLETED).done:
                        done[running.pop(each).name] = each.result()
            except BaseException:
                self._stop()
                for each in running:
                    each.cancel()
                raise
        return [done[piece.name] for piece in pieces]

    def _one(self, piece: Piece) -> Piece:
        with self._lock:
            if self._stopped:
                return piece
            ref = f"{self._dataset}/{piece.name}"
            child = subprocess.Popen(
                [*self._command, "build", ref, "--json", *self._options, *self._build],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=_die_with_parent,
            )
            self._children.add(child)
        self._tell(piece.now(RUNNING))
        try:
            out, errors = child.communicate()
        finally:
            self._children.discard(child)
        ended = _ended(piece, child.returncode, out, errors)
        self._tell(ended)
        return ended

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            children = list(self._children)
        for each in children:
            each.send_signal(signal.SIGINT)
        for each in children:
            with suppress(subprocess.TimeoutExpired):
                each.wait(_GRACE_SECONDS)
            each.kill()


def _die_with_parent() -> None:
    """In the child: asks Linux to interrupt it when this process is killed."""
    # A terminal's Ctrl-C goes to the whole group; the parent passes it on, once.
    os.setpgid(0, 0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _ended(piece: Piece, code: int, out: str, errors: str) -> Piece:
    try:
        said: dict[str, Any] = json.loads(out)
    except json.JSONDecodeError:
        last = (errors.strip() or out.strip()).splitlines()[-1:] or [f"it ended with {code}"]
        return piece.now(BROKEN, last[0])
    if error := said.get("error"):
        return piece.now(BROKEN, str(error["message"]))
    cached = said["outcome"] == "cached"
    return piece.now(
        CACHED if cached else BUILT,
        "nothing had changed" if cached else f"{len(said['ran'])} stages ran",
        version=said["version"],
        run=said["run"],
        seconds=said["seconds"],
    )
