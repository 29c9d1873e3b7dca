"""Writing small files whole, and saying plainly that a disk is full."""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from provender.errors import DiskFull, StoreError

# EFBIG: the process's file size limit, or that of the file system, which to the user is the same.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def disk_errors(path: Path, size: int | None = None) -> Iterator[None]:
    """Turns the OS errors of local writes into DiskFull and StoreError.

    Args:
        path: what is being written; named by the error.
        size: bytes to be written, where known; named by the error.
    """
    try:
        yield
    except OSError as err:
        raise write_error(err, path, size) from err


def write_error(err: OSError, path: Path, size: int | None = None) -> StoreError:
    """The error for a local write that the system refused."""
    if err.errno in _FULL:
        return disk_full(path, size)
    return StoreError(
        f"Writing failed: {err.strerror or err}.",
        where=str(path),
        hint="Check that the folder exists and can be written.",
    )


def disk_full(path: Path, size: int | None = None) -> DiskFull:
    """The error for a full disk, with the space needed and the space there is."""
    free = free_bytes(path)
    needed = "" if size is None else f" for {size:,} bytes"
    left = "" if free is None else f" ({free:,} bytes free)"
    return DiskFull(
        f"No space is left{needed}{left}.",
        where=str(path),
        hint="Free some space there and run the same command again: it goes on where it stopped.",
        facts={"path": str(path), "bytes": size, "free": free},
    )


def free_bytes(path: Path) -> int | None:
    """Free bytes on the disk of a path or its nearest existing parent; None where unknown."""
    for folder in (path, *path.parents):
        if folder.is_dir():
            try:
                return shutil.disk_usage(folder).free
            except OSError:
                return None
    return None


def ensure_space(path: Path, size: int | None) -> None:
    """Refuses a write that cannot fit.

    Raises:
        DiskFull: fewer than ``size`` bytes are free where ``path`` lies.
    """
    free = free_bytes(path)
    if size is not None and free is not None and free < size:
        raise disk_full(path, size)


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a small file so that readers see the old bytes or the new ones, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    with disk_errors(path, len(data)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_json(path: Path, doc: Any) -> None:
    """Writes a JSON document with `write_atomic`."""
    write_atomic(path, json.dumps(doc, sort_keys=True).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """Reads a JSON object; None where the file is missing or is not one."""
    try:
        doc = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return doc if isinstance(doc, dict) else None
