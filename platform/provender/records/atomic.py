"""Files that appear whole or not at all, and operating-system errors told as ours."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from provender.errors import DiskFull, ProvenderError, StoreError

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class AtomicFile:
    """A file written beside its final name and renamed over it on a clean exit.

    The directory must exist. No fsync: after a power cut a file may be short, which readers notice
    by the sizes and digests recorded elsewhere.

    Raises:
        DiskFull: no space was left; the temporary file is removed, so its space is given back.
        StoreError: any other operating-system error while writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._temp = path.with_name(f"{path.name}.tmp-{os.getpid()}")
        self._fd = -1

    def __enter__(self) -> AtomicFile:
        with told_as_ours(self.path):
            self._fd = os.open(
                self._temp, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o666
            )
        return self

    def write(self, data: bytes | memoryview) -> None:
        """Appends all of ``data`` (bytes or a contiguous byte view)."""
        length = len(data)
        with told_as_ours(self.path, self.size + length):
            done = os.write(self._fd, data)
            while done < length:
                done += os.write(self._fd, memoryview(data)[done:])
        self.size += length

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with told_as_ours(self.path, self.size):
                os.close(self._fd)
                if kind is None:
                    self._temp.replace(self.path)
                    return
        except ProvenderError:
            self._discard()
            raise
        self._discard()

    def _discard(self) -> None:
        self._temp.unlink(missing_ok=True)


def write_json(path: Path, document: Any) -> None:
    """Writes ``document`` as one atomic JSON file."""
    with AtomicFile(path) as file:
        file.write(json.dumps(document, separators=(",", ":")).encode())


@contextmanager
def told_as_ours(path: Path, size: int | None = None) -> Iterator[None]:
    """Turns an OSError about ``path`` into `DiskFull` or `StoreError`.

    Args:
        path: the file being written or read.
        size: how many bytes it would have held, for the message.
    """
    try:
        yield
    except OSError as error:
        amount = f" ({size:,} bytes)" if size is not None else ""
        if error.errno in _NO_SPACE:
            raise DiskFull(
                f"No space left to write {path.name}{amount}.",
                where=str(path),
                hint="free space on that disk, or point the scratch directory to a larger one",
                facts={"path": str(path), "bytes": size},
            ) from error
        raise StoreError(
            f"{path.name}{amount}: {error.strerror or error}.",
            where=str(path),
            hint="check that the directory exists and may be read and written",
            facts={"path": str(path), "errno": error.errno},
        ) from error
