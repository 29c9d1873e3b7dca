"""Caching on and off; where results go that must not outlive the process."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from pathlib import Path

_PREFIX = "provender-cache-"
_LOCK = "lock"
_enabled = True
_guard = threading.Lock()
_place: tuple[int, str] | None = None
_alive: dict[str, int] = {}


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork)


def enable_caching() -> None:
    """Keeps the results of transforms and finds them again; so it is from the start."""
    global _enabled
    _enabled = True


def disable_caching() -> None:
    """Computes every transform anew.

    Results go into a temporary folder under random names and are gone when the process ends;
    `save_to_disk` keeps them. What is in the cache stays there.
    """
    global _enabled
    _enabled = False


def is_caching_enabled() -> bool:
    """Whether the results of transforms are kept and found again."""
    return _enabled


def temporary_folder() -> str:
    """This process's folder for results that end with it. A forked child gets its own."""
    global _place
    with _guard:
        if _place is None or _place[0] != os.getpid() or not Path(_place[1]).is_dir():
            _sweep(Path(tempfile.gettempdir()))
            _place = (os.getpid(), _make())
        return _place[1]


def _make() -> str:
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    new, lock = os.path.join(folder, f".{_LOCK}"), os.path.join(folder, _LOCK)
    handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    Path(new).rename(lock)  # whoever sees it finds it locked
    # Kept open on purpose: the lock tells others that somebody may still use the folder.
    _alive[folder] = handle
    pid = os.getpid()
    atexit.register(_remove, folder, pid)
    if _is_multiprocessing_child():
        from multiprocessing import util

        # Children of multiprocessing end without running atexit functions.
        util.Finalize(None, _remove, args=(folder, pid), exitpriority=0)
    return folder


def _is_multiprocessing_child() -> bool:
    """Whether this process was started by multiprocessing."""
    import sys

    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: Path) -> None:
    """Removes the folders of processes that were killed."""
    for folder in place.glob(f"{_PREFIX}*"):
        try:
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # somebody else's, or just being made
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(handle)
