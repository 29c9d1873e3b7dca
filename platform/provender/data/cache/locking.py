"""Who works on an entry, and who uses one: kernel locks, which end with the process that held them.

Both are ``flock``: no stale lock can remain, and no owner has to be looked up. A forked child
shares the locks that its parent held: those of work in progress are given up in the child at
once, so that a pool's workers do not hold on to the work of a parent that was killed.
"""

# ruff: noqa: PTH104, PTH208

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from provender.data.cache.files import READ_ONLY, disk_errors, remove, write_error
from provender.errors import ProvenderError

_log = logging.getLogger("provender.data")
_NEW = ".new-"
_FIRST_WAIT = 0.005
_LONGEST_WAIT = 0.1
_BUSY = {errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN}
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_working: set[int] = set()
_all_pins: weakref.WeakSet[Pins] = weakref.WeakSet()
_holders: dict[str, int] = {}
_told_no_locks = False


def _forget_work() -> None:
    for handle in _working:
        with contextlib.suppress(OSError):
            os.close(handle)
    _working.clear()
    _holders.clear()
    for each in _all_pins:
        each._lock = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_forget_work)


class EntryLock:
    """Exclusive right to write one entry, among all threads and processes.

    Args:
        path: the lock file. It is there only while somebody works or waits.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._handle = -1
        self._pid = 0

    def try_acquire(self) -> bool:
        """Takes the lock unless somebody has it.

        Raises:
            StoreError: the lock file cannot be made.
        """
        while True:
            handle = self._open()
            # Known before it is locked: another thread may fork in between.
            _working.add(handle)
            if not _lock(handle, self.path):
                _close(handle)
                return False
            if _names(self.path, handle):
                break
            _close(handle)
        self._handle, self._pid = handle, os.getpid()
        _holders[self.path] = threading.get_ident()
        owner = {"pid": self._pid, "host": os.uname().nodename, "since": time.time()}
        with contextlib.suppress(OSError):  # for people who look; a full disk does not matter
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(owner).encode(), 0)
        return True

    def acquire(self, on_wait: Callable[[str], None] | None = None) -> bool:
        """Takes the lock, waiting as long as somebody has it.

        Args:
            on_wait: called once with who has it, as text.

        Returns:
            Whether it was waited for.

        Raises:
            ProvenderError: this very thread has it.
            StoreError: the lock file cannot be made.
        """
        pause = _FIRST_WAIT
        waited = False
        while not self.try_acquire():
            if _holders.get(self.path) == threading.get_ident():
                message = "A transform asks for its own result while it is being computed."
                raise ProvenderError(message, where=self.path)
            if not waited and on_wait is not None:
                on_wait(self.holder())
            waited = True
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_WAIT)
        return waited

    def holder(self) -> str:
        """Who has the lock, for people."""
        try:
            with open(self.path, "rb") as file:
                owner = json.loads(file.read())
            return f"process {owner['pid']} on {owner['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"

    def release(self) -> None:
        """Gives it back; in a child forked meanwhile it does nothing."""
        handle, self._handle = self._handle, -1
        if handle < 0 or self._pid != os.getpid():
            return
        # Unlinked while still held: whoever waits on this inode sees that its name is gone.
        remove(self.path)
        _holders.pop(self.path, None)
        _close(handle)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with disk_errors(self.path):
            try:
                return os.open(self.path, flags, 0o666)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
                return os.open(self.path, flags, 0o666)


def _lock(handle: int, path: str) -> bool:
    global _told_no_locks
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        if err.errno in _BUSY:
            return False
        if err.errno not in _NO_LOCKS:
            _close(handle)
            raise write_error(err, path) from err
        if not _told_no_locks:
            _told_no_locks = True
            text = "%s: this file system has no locks, so two processes may compute the same."
            _log.warning(text, os.path.dirname(path))
    return True


def _close(handle: int) -> None:
    _working.discard(handle)
    os.close(handle)


def _names(path: str, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def drop_dead_locks(folder: str) -> None:
    """Removes the lock files of processes that were killed."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        lock = EntryLock(os.path.join(folder, name))
        if lock.try_acquire():
            lock.release()


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds a lock file for a short while, waiting for it."""
    lock = EntryLock(path)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def is_writer_alive(path: str) -> bool | None:
    """Whether the writer of a locked temporary file lives; None where locks cannot tell."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        return True if err.errno in _BUSY else None
    finally:
        os.close(handle)
    return False


class Pins:
    """Which entries this process uses: one file a process, locked as long as it lives.

    Args:
        folder: the cache's folder of such files.
    """

    _COMPACT = 4096

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._ended: deque[str] = deque()
        self._handle = -1
        self._path = ""
        self._pid = 0
        self._lines = 0
        _all_pins.add(self)

    def pin(self, fingerprint: str) -> Callable[[], None]:
        """Notes that an entry is in use.

        Returns:
            What ends it; may be called twice, and in a forked child, where it does nothing.
        """
        pid = os.getpid()
        with self._lock:
            if self._pid != pid:
                # A forked child: the parent's file stays open, and with it what it names pinned.
                self._counts, self._handle, self._pid, self._lines = {}, -1, pid, 0
            self._counts[fingerprint] = self._counts.get(fingerprint, 0) + 1
            if self._counts[fingerprint] == 1:
                self._note(f"+{fingerprint}\n")
        self._settle()
        return _Unpin(self, fingerprint, pid)

    def unpin(self, fingerprint: str, pid: int) -> None:
        """Ends one use. Called by the garbage collector, too, hence at any point of `pin`."""
        if pid == os.getpid():
            self._ended.append(fingerprint)
            self._settle()

    def _settle(self) -> None:
        while self._ended and self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(IndexError):
                    self._end(self._ended.popleft())
            finally:
                self._lock.release()

    def _end(self, fingerprint: str) -> None:
        left = self._counts.get(fingerprint, 0) - 1
        if left > 0:
            self._counts[fingerprint] = left
            return
        self._counts.pop(fingerprint, None)
        self._note(f"-{fingerprint}\n")

    def _note(self, line: str) -> None:
        try:
            if self._handle < 0 or self._lines > max(self._COMPACT, 4 * len(self._counts)):
                self._begin()
            else:
                os.write(self._handle, line.encode())
                self._lines += 1
        except OSError as err:
            # A cache that cannot be written cannot be evicted from by this process either.
            if err.errno not in READ_ONLY:
                _log.debug("Entries in use could not be noted: %s", err)

    def _begin(self) -> None:
        """A new file that names what is in use now; the old one goes after it is there."""
        name = f"{os.getpid()}-{secrets.token_hex(8)}"
        new = os.path.join(self._folder, f"{_NEW}{name}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            handle = os.open(new, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(self._folder, exist_ok=True)
            handle = os.open(new, flags, 0o666)
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.write(handle, "".join(f"+{each}\n" for each in self._counts).encode())
        os.rename(new, os.path.join(self._folder, name))
        old, self._handle, self._lines = self._handle, handle, len(self._counts)
        gone, self._path = self._path, os.path.join(self._folder, name)
        if old >= 0:
            remove(gone)
            os.close(old)

    def __del__(self) -> None:
        # Whatever uses an entry refers to this object: nothing is in use any more.
        if self._handle >= 0 and self._pid == os.getpid():
            remove(self._path)
            os.close(self._handle)


class _Unpin:
    """Ends a use once; unlike a closure it keeps nothing of the entry alive."""

    def __init__(self, pins: Pins, fingerprint: str, pid: int) -> None:
        self._args: tuple[Any, ...] | None = (fingerprint, pid)
        self._pins = pins

    def __call__(self) -> None:
        args, self._args = self._args, None
        if args is not None:
            self._pins.unpin(*args)


def pinned(folder: str, max_age: float = 7 * 86400) -> frozenset[str]:
    """The entries that live processes use; files of dead processes are removed.

    Args:
        folder: the cache's folder of pin files.
        max_age: seconds after which a file is not believed where locks cannot tell.
    """
    found: set[str] = set()
    try:
        names = os.listdir(folder)
    except OSError:
        return frozenset()
    for name in names:
        path = os.path.join(folder, name)
        # A file that is not locked yet has its first name.
        alive = None if name.startswith(_NEW) else is_writer_alive(path)
        if alive is None:
            with contextlib.suppress(OSError):
                alive = time.time() - os.stat(path).st_mtime < max_age
        if not alive:
            remove(path)
            continue
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            used: dict[str, None] = {}
            for line in file:
                if line.startswith("+"):
                    used[line[1:].strip()] = None
                else:
                    used.pop(line[1:].strip(), None)
            found.update(used)
    return frozenset(found)
