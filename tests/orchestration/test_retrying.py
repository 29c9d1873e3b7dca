"""What is tried again, whoever runs the stages, and what is not."""

from __future__ import annotations

import pytest

from provender.errors import (
    BuilderError,
    CatalogError,
    ChecksFailed,
    ChecksumMismatch,
    ConflictError,
    DiskFull,
    DownloadError,
    ManualFilesMissing,
    ProvenderError,
    SettingsError,
    StatementRefused,
    StoreError,
    WorkerDied,
)
from provender.orchestration.retrying import worth_a_retry


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (DownloadError("429", facts={"status": 429, "transient": True}), True),
        (DownloadError("404", facts={"status": 404, "transient": False}), False),
        (DownloadError("of a builder's own"), False),
        (ChecksumMismatch("other bytes", facts={"transient": False}), False),
        (ChecksumMismatch("other bytes"), False),
        (CatalogError("away"), True),
        (StatementRefused("no"), False),
        (StoreError("away"), True),
        (StoreError("inputs are gone", facts={"transient": False}), False),
        (DiskFull("full"), False),
        (WorkerDied("killed"), True),
        (ConflictError("published"), False),
        (ChecksFailed("too few"), False),
        (BuilderError("raised"), False),
        (ManualFilesMissing("none"), False),
        (SettingsError("no"), False),
        (ProvenderError("?"), False),
        (OSError("network"), True),
        (ConnectionResetError(), True),
        (RuntimeError("the orchestrator's server went away"), True),
        (ValueError("a mistake"), False),
        (KeyError("a mistake"), False),
        (KeyboardInterrupt(), False),
    ],
    ids=lambda value: str(value).partition("\n")[0] or type(value).__name__,
)
def test_what_is_tried_again(error: BaseException, again: bool) -> None:
    assert worth_a_retry(error) is again
