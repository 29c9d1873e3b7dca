"""Which errors may pass if a task is tried again, and which will not."""

from __future__ import annotations

from provender.errors import (
    CatalogError,
    ChecksumMismatch,
    DownloadError,
    ProvenderError,
    StatementRefused,
    StoreError,
    WorkerDied,
)

_MAY_PASS = (StoreError, CatalogError, WorkerDied, DownloadError)
_NEVER = (ChecksumMismatch, StatementRefused)


def may_pass(error: BaseException) -> bool:
    """Whether trying again may help.

    A server that is busy (429), a store or a catalog that is away, a worker that was killed: yes. A
    checksum that differs, a builder that raises, a version number that stands for something else,
    files that are not there: no, since the next try would meet the same.

    Args:
        error: what ended the task.
    """
    if not isinstance(error, ProvenderError):
        return True
    told = error.facts.get("transient")
    if isinstance(told, bool):
        return told
    if isinstance(error, DownloadError):
        return False
    return isinstance(error, _MAY_PASS) and not isinstance(error, _NEVER)
