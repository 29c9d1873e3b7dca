"""Turns what operating systems and object stores raise into the project's own errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from provender.errors import DiskFull, ProvenderError, StoreError

_FULL = {
    errno.ENOSPC: "no space is left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would pass the file size limit",
}
_HINTS = {
    errno.EACCES: "check the permissions of the folder and its parents",
    errno.EPERM: "check the permissions of the folder and its parents",
    errno.EROFS: "the file system is mounted read-only: choose another store",
    errno.ENAMETOOLONG: "shorten the name: a local name may have 255 bytes",
    errno.ENOTDIR: "a file stands where a folder is needed: move it away",
    errno.EISDIR: "a folder stands where a file is needed: move it away",
    errno.EXDEV: "keep the whole store on one file system",
    errno.EIO: "the device reports an input/output error: check it, then run `provender verify`",
}


@contextmanager
def guarded(action: str, where: str, nbytes: int | None = None) -> Iterator[None]:
    """Runs a block whose failures should read as the store's.

    Args:
        action: what is being done, e.g. ``"write"``.
        where: the file or URL it is done to.
        nbytes: how many bytes had to be written, for the message about a full disk.

    Raises:
        FileNotFoundError, FileExistsError: as they come, for callers decide by them.
        DiskFull: when there is no room for the bytes.
        StoreError: for every other failure of the system or the network.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError, ProvenderError):
        raise
    except Exception as exc:  # anything that a backend raises is translated
        raise store_error(exc, action, where, nbytes) from exc


def store_error(
    exc: BaseException, action: str, where: str, nbytes: int | None = None
) -> StoreError:
    """The error to raise instead of `exc`; see `guarded` for the arguments."""
    number = exc.errno if isinstance(exc, OSError) else None
    if number in _FULL:
        room = "" if nbytes is None else f" ({nbytes:,} bytes)"
        return DiskFull(
            f"cannot {action}{room}: {_FULL[number]}",
            where=where,
            hint="free some space (`provender gc` shows what can go) or choose another store",
            facts={"path": where, "bytes": nbytes, "errno": number},
        )
    reason = str(exc) or type(exc).__name__
    if isinstance(exc, OSError) and exc.strerror:
        reason = exc.strerror
    return StoreError(
        f"cannot {action}: {reason}",
        where=where,
        hint=_HINTS.get(number or 0) or _http_hint(exc),
        facts={"cause": type(exc).__name__},
    )


def _http_hint(exc: BaseException) -> str:
    code = str(getattr(exc, "code", "") or "")
    if code == "401" or "Invalid Credentials" in str(exc):
        return "the credentials are missing or expired: `gcloud auth application-default login`"
    if str(exc).startswith("Forbidden"):
        return "the account lacks a permission: it needs roles/storage.objectAdmin on the bucket"
    if code in {"429", "500", "502", "503", "504"}:
        return "the service kept refusing after several tries: run the command again later"
    return "check that the store can be reached, then run the command again"
