"""One process at a time, by a lock file whose dead owner is noticed at once.

The lock is the kernel's (``flock``), not the file's existence: it ends with the process that held
it, however that process ended, so no stale lock can remain and no owner has to be probed. The file
holds the owner's host and pid for people who look.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from provender.builders.download.retry import Cancelled
from provender.errors import StoreError

_POLL_SECONDS = 0.1


@contextmanager
def file_lock(path: Path, *, cancelled: Callable[[], bool] | None = None) -> Iterator[bool]:
    """Holds an exclusive lock named by a path; threads of one process exclude each other too.

    Args:
        path: the lock file, made if missing and removed at the end.
        cancelled: asked while waiting; True gives up with Cancelled.

    Yields:
        Whether somebody else held the lock first, so that the work may be done already.

    Raises:
        StoreError: the lock file cannot be made.
    """
    waited = False
    while True:
        handle = _open(path)
        try:
            while not _try_lock(handle):
                waited = True
                if cancelled and cancelled():
                    raise Cancelled
                time.sleep(_POLL_SECONDS)
        except BaseException:
            os.close(handle)
            raise
        if _is_current(handle, path):
            break
        os.close(handle)
    try:
        owner = {"host": socket.gethostname(), "pid": os.getpid()}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(owner).encode(), 0)
        yield waited
    finally:
        # Unlinked while still held: whoever waits on this inode sees in _is_current that it is gone.
        path.unlink(missing_ok=True)
        os.close(handle)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as err:
        raise StoreError(
            f"The lock file cannot be made: {err.strerror}.",
            where=str(path),
            hint="Make the folder writable, or choose another one for downloads.",
        ) from err


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(handle: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(handle)
    return (there.st_ino, there.st_dev) == (mine.st_ino, mine.st_dev)
