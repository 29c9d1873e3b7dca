"""A command that is started anew when it breaks."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

_SHORTEST, _LONGEST = 0.5, 30.0
_STEADY = 60.0
"""Seconds after which a run counts as good, and the next pause is a short one again."""

_FINAL = frozenset({0, 2})
"""Exit codes that no restart changes: done, and a setting that makes no sense."""


def supervise(
    command: Sequence[str], tell: Callable[[str], None], stdout: IO[str] | None = None
) -> int:
    """Runs a command until it ends well or this process is told to stop.

    SIGTERM and SIGINT are passed on, and the command's own way to stop is waited for.

    Args:
        command: program and arguments.
        tell: is told of each restart.
        stdout: where the command's output goes; by default where this process's does.

    Returns:
        The last exit code: 0 after a stop, 2 where the settings make no sense.
    """
    stop = threading.Event()
    child: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: Any) -> None:
        del frame
        stop.set()
        if child:
            child[0].send_signal(number)

    before = {each: signal.signal(each, pass_on) for each in (signal.SIGTERM, signal.SIGINT)}
    pause = _SHORTEST
    try:
        while True:
            began = time.monotonic()
            # A group of its own: a Ctrl-C of the terminal would reach it twice.
            child[:] = [subprocess.Popen(command, stdout=stdout, process_group=0)]
            if stop.is_set():
                child[0].terminate()
            code = child[0].wait()
            if stop.is_set() or code in _FINAL:
                return max(code, 0)
            if time.monotonic() - began > _STEADY:
                pause = _SHORTEST
            wait = pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads restarts, no secret
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            tell(f"The server {how}; it is started again in {wait:.1f} s.")
            if stop.wait(wait):
                return 0
            pause = min(pause * 2, _LONGEST)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
