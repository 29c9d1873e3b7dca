"""What a store says about its files: small frozen records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) while a file travels; always ends with done == all."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Proof, at the price of a stat, that a file is still the one that was recorded.

    Attributes:
        size: length in bytes.
        token: changes whenever the bytes may have changed. Local files: ``mtime_ns:inode``, which
            a rename and a hard link keep and a copy of the bytes does not. ``gs://``: the object's
            generation, new after every write, copy or move. Elsewhere the ETag or, without one,
            the modification time.
    """

    size: int
    token: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a listing; directories have no identity."""

    name: str
    rel: str
    identity: Identity | None
    is_dir: bool


@dataclass(frozen=True, slots=True)
class Digest:
    """A file's content digests, made by reading it.

    Attributes:
        size: length in bytes.
        sha256: 64 hex digits.
        crc32c: 8 hex digits, most significant first (Castagnoli, as Google Cloud Storage has it).
    """

    size: int
    sha256: str
    crc32c: str
