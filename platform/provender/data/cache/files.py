"""Small files written whole, and operating-system errors told as ours."""

# Paths are plain strings in hot places: pathlib costs more than the system call.
# ruff: noqa: PTH105, PTH108

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provender.errors import DiskFull, StoreError

# EFBIG: the process's file size limit, or that of the file system, which to the user is the same.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""What the system answers where nothing may be written."""


@contextlib.contextmanager
def disk_errors(path: str | Path, size: int | None = None) -> Iterator[None]:
    """Turns the OS errors of writing into the cache into DiskFull and StoreError.

    Args:
        path: what is being written; named by the error.
        size: bytes to be written, where known; named by the error.
    """
    try:
        yield
    except OSError as err:
        raise write_error(err, path, size) from err


def write_error(err: OSError, path: str | Path, size: int | None = None) -> StoreError:
    """The error for a write into the cache that the system refused."""
    path = Path(path)
    if err.errno in _FULL:
        free = _free_bytes(path)
        needed = "" if size is None else f" for {size:,} bytes"
        left = "" if free is None else f" ({free:,} bytes free)"
        return DiskFull(
            f"No space is left in the transform cache{needed}{left}.",
            where=str(path),
            hint="Free some space, e.g. `provender cache rm --to-size 10GB`, and run it again: "
            "what was computed before is kept.",
            facts={"path": str(path), "bytes": size, "free": free},
        )
    return StoreError(
        f"The transform cache cannot be written: {err.strerror or err}.",
        where=str(path),
        hint="Make the folder writable, or name another one: PROVENDER_CACHE=/some/folder",
        facts={"path": str(path), "errno": err.errno},
    )


def _free_bytes(path: Path) -> int | None:
    for folder in (path, *path.parents):
        if folder.is_dir():
            with contextlib.suppress(OSError):
                return shutil.disk_usage(folder).free
            return None
    return None


def write_whole(path: str | Path, data: bytes) -> None:
    """Writes a small file so that readers see the old bytes or the new ones, never a part.

    Raises:
        DiskFull: no space was left.
        StoreError: the folder cannot be written.
    """
    target = os.fspath(path)
    temp = os.path.join(os.path.dirname(target), f".tmp-{os.getpid()}-{secrets.token_hex(6)}")
    with disk_errors(target, len(data)):
        try:
            with open(temp, "xb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
            os.replace(temp, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise


def write_json(path: str | Path, doc: Any) -> None:
    """Writes a JSON document with `write_whole`."""
    write_whole(path, json.dumps(doc, separators=(",", ":"), ensure_ascii=False).encode())


def read_json(path: str | Path) -> dict[str, Any] | None:
    """Reads a JSON object; None where the file is missing, unreadable or is not one."""
    try:
        with open(path, "rb") as file:
            doc = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return doc if isinstance(doc, dict) else None


def remove(path: str | Path) -> bool:
    """Removes a file if it is there and may be removed."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
