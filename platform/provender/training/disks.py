"""Local disks that a cache cannot use: full, read-only, broken, or without locks."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from provender.errors import DiskFull, StoreError

_UNUSABLE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EIO,
    errno.ESTALE,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENODEV,
}
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


class CacheFull(StoreError):
    """The cache has no room for a shard: its disk is full, or all it holds is in use."""


@contextlib.contextmanager
def unusable_disk(path: Path, made: bool = False) -> Iterator[None]:
    """Turns a disk that is full, read-only, broken or without locks into `CacheFull`.

    Args:
        path: what is written.
        made: whether it is made by what is done here, so that one that is missing cannot be made.
    """
    try:
        yield
    except DiskFull as error:
        raise CacheFull(error.message, where=str(path), hint=error.hint) from error
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        known = error.errno in _UNUSABLE or (made and error.errno == errno.ENOENT)
        if known or isinstance(error, PermissionError | FileExistsError):
            raise CacheFull(
                f"The shard cache cannot be written: {reason}.", where=str(path)
            ) from error
        if error.errno in _NO_LOCKS:
            raise CacheFull(
                f"The disk of the shard cache has no locks: {reason}.", where=str(path)
            ) from error
        raise
