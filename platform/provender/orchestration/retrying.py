"""Which failures are worth another try: one rule, whoever runs the stages."""

from __future__ import annotations

from provender.errors import (
    CatalogError,
    ChecksumMismatch,
    DiskFull,
    ProvenderError,
    StatementRefused,
    StoreError,
    WorkerDied,
)

_MAY_PASS = (StoreError, CatalogError, WorkerDied)
_NEVER = (ChecksumMismatch, StatementRefused, DiskFull)
_MISTAKES = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
"""What Python raises where code is wrong: the next try would meet the same line."""


def worth_a_retry(error: BaseException) -> bool:
    """Whether the same call may succeed a little later.

    A server that is busy (429), a store or a catalog that is away, a worker that was killed: yes. A
    checksum that differs, a builder that raises, a version number that stands for something else,
    files that are not there, a full disk: no. What is no error of Provender's comes from below, a
    connection or a file system, and may pass, unless it is a mistake in the code.

    Args:
        error: what ended a task. Its ``facts["transient"]``, where it has them, decides.
    """
    if not isinstance(error, ProvenderError):
        return isinstance(error, Exception) and not isinstance(error, _MISTAKES)
    told = error.facts.get("transient")
    if isinstance(told, bool):
        return told
    return isinstance(error, _MAY_PASS) and not isinstance(error, _NEVER)
