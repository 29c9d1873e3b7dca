"""The schema revisions this code knows, oldest first.

Kept as plain text so that opening a current catalog needs neither Alembic nor the migration
scripts; a test holds the list against the scripts.
"""

from __future__ import annotations

REVISIONS: tuple[str, ...] = ("0001", "0002", "0003", "0004")


def head() -> str:
    """The revision this code works with."""
    return REVISIONS[-1]
