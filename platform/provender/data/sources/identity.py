"""Identities of sources: what is read and how, never from where."""

from __future__ import annotations

from typing import Any

from provender.fingerprint import Hasher


def identity_of(kind: str, *parts: Any) -> str:
    """40 hex digits for a kind of source and what makes it give the rows it gives.

    Args:
        kind: name of the reader, with a number that is raised when its results change.
        parts: identities of files in their order, options; anything that `Hasher` can hash.
    """
    return Hasher.hash(("provender.source", kind, *parts))


def short(identity: str) -> str:
    """An identity as messages show it."""
    return identity[:12]
