"""Child processes for tests about dying and racing."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

_LONGEST = 60


def fork(act: Callable[[], object]) -> int:
    """Runs `act` in a forked child that exits 0, or 1 when it raises; returns the child's pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(_LONGEST)
        act()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait(pid: int) -> int:
    """The child's exit code; negative for the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def race(count: int, act: Callable[[int], None]) -> list[int]:
    """Runs ``act(i)`` in `count` processes that start together; returns their exit codes."""
    start, go = os.pipe()

    def run(i: int) -> None:
        os.close(go)
        os.read(start, 1)
        act(i)

    pids = [fork(lambda i=i: run(i)) for i in range(count)]
    os.close(start)
    os.close(go)
    return [wait(pid) for pid in pids]


def die_at_event(number: int) -> None:
    """Kills this process, as by ``kill -9``, right before its `number`-th file system call."""
    left = number

    def hook(event: str, _: tuple[object, ...]) -> None:
        nonlocal left
        if event == "os.kill":  # the end, below
            return
        if event == "open" or event.startswith(("os.", "shutil.", "fcntl.")):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
