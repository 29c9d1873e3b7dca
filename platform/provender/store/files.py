"""Local file primitives: copying with progress, digests, locks, durability."""

# Paths are plain strings here: pathlib costs more than the system call, and URLs are no Paths.
# ruff: noqa: PTH108

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from provender.store.values import Digest, Progress

BLOCK = 1 << 20
_KERNEL_COPY = 64 << 20
_NO_KERNEL_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}


def copy_file(source: str, target: str, progress: Progress | None = None) -> int:
    """Copies the bytes of `source` into the new file `target`; returns how many.

    The kernel copies where it can, which shares the blocks on file systems with reflinks.

    Raises:
        FileExistsError: `target` is there already.
    """
    with open(source, "rb", buffering=0) as reader, open(target, "xb", buffering=0) as writer:
        total = os.fstat(reader.fileno()).st_size
        done = 0
        for count in _pump(reader.fileno(), writer.fileno()):
            done += count
            if progress and done < total:
                progress(done, total)
    if progress:
        progress(done, done)
    return done


def _pump(reader: int, writer: int) -> Iterator[int]:
    copied = 0
    if hasattr(os, "copy_file_range"):
        try:
            while count := os.copy_file_range(reader, writer, _KERNEL_COPY):
                copied += count
                yield count
        except OSError as exc:
            if copied or exc.errno not in _NO_KERNEL_COPY:
                raise
    # Some kernels answer 0 at once for files whose size they do not know: read on to be sure.
    while block := os.read(reader, BLOCK):
        write_all(writer, memoryview(block))
        yield len(block)


def write_all(handle: int, view: memoryview) -> None:
    """Writes all of `view` to an open file."""
    while view:
        view = view[os.write(handle, view) :]


class Digester:
    """Size, sha256 and crc32c of bytes that are fed in order.

    Attributes:
        size: bytes so far.
    """

    def __init__(self) -> None:
        import google_crc32c

        self._extend = google_crc32c.extend
        self._sha256 = hashlib.sha256()
        self._crc = 0
        self.size = 0

    def update(self, block: bytes) -> None:
        """Takes the next bytes."""
        self._sha256.update(block)
        self._crc = self._extend(self._crc, block)
        self.size += len(block)

    def digest(self) -> Digest:
        """The digests of all bytes so far."""
        return Digest(self.size, self._sha256.hexdigest(), f"{self._crc:08x}")


def digest_of(blocks: Iterable[bytes], total: int, progress: Progress | None = None) -> Digest:
    """The digests of `blocks` put together; `total` is their expected length, for progress."""
    digester = Digester()
    done = 0
    for block in blocks:
        digester.update(block)
        done += len(block)
        if progress:
            progress(done, max(done, total))
    return digester.digest()


def blocks_of(file: BinaryIO, size: int = BLOCK) -> Iterator[bytes]:
    """The rest of `file` in blocks of `size` bytes."""
    while block := file.read(size):
        yield block


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's content, in hex."""
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C (Castagnoli) of `data`."""
    import google_crc32c

    return google_crc32c.value(bytes(data) if isinstance(data, memoryview) else data)


def sync_file(path: str) -> None:
    """Makes the content of a file, or the names in a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as exc:
        # Some network and FUSE file systems cannot sync a folder; they order it themselves.
        if exc.errno not in {errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF}:
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds an exclusive lock that the kernel releases when this process dies.

    The lock file is removed at the end, so a waiter that got a removed file's lock tries again.
    """
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _names(path, handle):
                try:
                    yield
                finally:
                    os.unlink(path)
                return
        finally:
            os.close(handle)


def _names(path: str, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def try_lock(handle: int) -> bool:
    """Takes an exclusive lock on an open file unless another process or thread has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        raise
    return True
