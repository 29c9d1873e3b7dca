"""The schema revisions this code knows, oldest first.

Kept as plain text so that opening a current catalog needs neither Alembic nor the migration
scripts; a test holds the list against the scripts.
"""

from __future__ import annotations

from typing import Literal

REVISIONS: tuple[str, ...] = ("0001", "0002", "0003", "0004")


def head() -> str:
    """The revision this code works with."""
    return REVISIONS[-1]


def age(revision: str) -> Literal["current", "older", "newer"]:
    """How a catalog's revision stands to this code; one that it does not know is newer."""
    if revision == head():
        return "current"
    return "older" if revision in REVISIONS else "newer"


MENDED_BY = {
    "older": "Bring it up to date: provender db upgrade",
    "newer": "Update Provender here (pip install --upgrade provender), or use another catalog.",
}
"""What to do about a catalog of another age."""
