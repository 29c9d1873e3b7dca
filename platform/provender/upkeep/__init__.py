"""Keeping versions trustworthy: finding them, proving them, clearing up, taking them back."""

from __future__ import annotations

from provender.training.contents import FileFacts, contents_of
from provender.upkeep.doctor import examine
from provender.upkeep.findings import Finding
from provender.upkeep.references import find_version
from provender.upkeep.retracting import retract
from provender.upkeep.verification import FileCheck, VerifyReport, verify

__all__ = [
    "FileCheck",
    "FileFacts",
    "Finding",
    "VerifyReport",
    "contents_of",
    "examine",
    "find_version",
    "retract",
    "verify",
]
