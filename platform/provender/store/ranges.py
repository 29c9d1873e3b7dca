"""Reading remote files by ranges: as a seekable file, in order with read-ahead, and to disk."""

# Paths are plain strings here: pathlib costs more than the system call, and URLs are no Paths.
# ruff: noqa: PTH105, PTH108

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from provender.errors import DamageError
from provender.store import files
from provender.store.relay import OpenRange, Relay, Take
from provender.store.values import Identity, Progress

ReadRange = Callable[[int, int], bytes]
"""``read(start, length)`` of one fixed version of a remote file."""

BLOCK = 8 << 20
"""Bytes of one request of many."""


class RangeFile(io.RawIOBase):
    """A seekable read-only file over range requests; wrap it in `io.BufferedReader`."""

    def __init__(self, read: ReadRange, size: int) -> None:
        self._read = read
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            message = f"cannot seek to {base + offset}, before the start"
            raise ValueError(message)
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data = self._read(self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def relayed(
    read: ReadRange, start: int, end: int, take: Take, stream: OpenRange | None = None
) -> int:
    """Hands on the bytes from `start` to `end` in order, while the next are already on their way.

    Args:
        read: reads ranges.
        start: first byte.
        end: the byte after the last.
        take: gets the bytes, from one thread at a time.
        stream: opens ranges, where there is a better way than `read`.

    Returns:
        The position after the last byte, before `end` if the file is shorter.
    """
    if end <= start:
        return start
    whole: OpenRange = lambda at, length: io.BytesIO(read(at, length))  # noqa: E731
    return Relay(stream or whole, start, end, BLOCK, take, at_once=stream is None).run()


@dataclass(frozen=True, slots=True)
class Part:
    """What a part file is the beginning of.

    Attributes:
        source: the remote file's URL.
        identity: the version of it.
        crc32c: what the whole file hashes to, where the store knows.
        sha256: 64 hex digits, where the caller knows; then crc32c is not looked at.
    """

    source: str
    identity: Identity
    crc32c: int | None
    sha256: str | None = None

    def notes(self) -> dict[str, Any]:
        """What is kept beside the part, so that another process can go on with it."""
        return {"source": self.source, "size": self.identity.size, "token": self.identity.token}


def fetch(
    read: ReadRange,
    what: Part,
    target: str,
    progress: Progress | None = None,
    stream: OpenRange | None = None,
) -> None:
    """Brings a remote file to `target`, going on from ``<target>.part`` if it fits.

    Beside the part, ``<target>.part.json`` says which version of which file it is the beginning
    of. While another process fills the same part, this call uses a part of its own.

    Args:
        read: reads ranges of the version that `what` names.
        what: the file and its version.
        target: absolute local path; replaced in one step at the end.
        progress: called as bytes arrive.
        stream: opens ranges, where there is a better way than `read`.

    Raises:
        DamageError: the bytes received are not those the store has; the part is removed.
    """
    os.makedirs(os.path.dirname(target), exist_ok=True)
    size = what.identity.size
    with _part(target) as (part, notes, file):
        done = _resume(file, notes, what)
        check = _Check(what)
        _feed(file, done, check)

        def take(block: memoryview) -> None:
            nonlocal done
            files.write_all(file.fileno(), block)
            check.update(block)
            done += len(block)
            if progress and done < size:
                progress(done, size)

        relayed(read, done, size, take, stream)
        if done != size or not check.holds():
            _forget(part, notes)
            raise damaged(what.source, size, done)
        os.replace(part, target)
        _forget(notes)
    if progress:
        progress(size, size)


class _Check:
    """Whether bytes that are fed in order are those of a file."""

    def __init__(self, what: Part) -> None:
        self._what = what
        self._sha256 = hashlib.sha256() if what.sha256 is not None else None
        self._crc = 0

    def update(self, block: memoryview) -> None:
        if self._sha256 is not None:
            self._sha256.update(block)
        elif self._what.crc32c is not None:
            self._crc = _extend(self._crc, bytes(block))

    def holds(self) -> bool:
        if self._sha256 is not None:
            return self._sha256.hexdigest() == self._what.sha256
        return self._what.crc32c in (None, self._crc)


def _resume(file: BinaryIO, notes: str, what: Part) -> int:
    """Keeps what a part has of this very file, notes what it will be, returns its length."""
    have = os.fstat(file.fileno()).st_size if _noted(notes) == what.notes() else 0
    done = min(have, what.identity.size)
    file.truncate(done)
    with open(notes, "w", encoding="utf-8") as out:
        json.dump(what.notes(), out)
    return done


@contextlib.contextmanager
def _part(target: str) -> Iterator[tuple[str, str, BinaryIO]]:
    """The part file that this process may fill, its notes, and the part opened and locked."""
    part = f"{target}.part"
    file = _open_locked(part)
    own = file is None
    if file is None:
        part = f"{target}.{uuid.uuid4().hex[:8]}.part"
        file = open(part, "w+b", 0)  # noqa: SIM115 - closed below, whichever of the two it is
    try:
        yield part, f"{part}.json", file
    finally:
        file.close()
        if own:
            _forget(part, f"{part}.json")


def _open_locked(part: str) -> BinaryIO | None:
    file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b", 0)
    with contextlib.suppress(FileNotFoundError):
        # The last holder may have renamed the part to its target: then the lock is of no use.
        if files.try_lock(file.fileno()) and os.path.samestat(
            os.stat(part), os.fstat(file.fileno())
        ):
            return file
    file.close()
    return None


def _noted(notes: str) -> Any:
    try:
        with open(notes, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def _feed(file: BinaryIO, length: int, check: _Check) -> None:
    """Shows the check what an interrupted call has left, and goes to its end."""
    file.seek(0)
    while length:
        block = file.read(min(files.BLOCK, length))
        if not block:
            message = "the part became shorter while it was read"
            raise OSError(message)
        check.update(memoryview(block))
        length -= len(block)


def _extend(crc: int, block: bytes) -> int:
    import google_crc32c

    return google_crc32c.extend(crc, block)


def _forget(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def damaged(source: str, size: int, received: int | None = None) -> DamageError:
    """The error for bytes that are not the file's."""
    return DamageError(
        f"{size if received is None else received:,} bytes arrived that are not the {size:,} bytes the store has",
        where=source,
        hint="fetch it again; if that happens again, run `provender verify`",
    )
