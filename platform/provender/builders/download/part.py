"""A file that is not complete yet, and what it is the beginning of.

``<name>.part`` holds the bytes and ``<name>.part.json`` says of which content they are a prefix.
The state is written after the file was cut to what it describes and before bytes are added, so a
process killed anywhere leaves a pair that can be continued, or an empty file.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from provender.builders.download.disk import disk_errors, read_json, write_json
from provender.builders.download.source import PartState

_CHUNK = 1 << 20


class PartFile:
    """The partial file of one URL; used by one thread at a time.

    Args:
        path: where the complete file will be; ``.part`` and ``.part.json`` are added.
        url: the URL without secrets; the part of another URL is thrown away.
        trust_unversioned: continue a part of content that upstream gives no identity for, because
            a known checksum will tell.
    """

    def __init__(self, path: Path, url: str, *, trust_unversioned: bool) -> None:
        self.path = path.with_name(path.name + ".part")
        self.state_path = path.with_name(path.name + ".part.json")
        self._url = url
        self._trust_unversioned = trust_unversioned
        self.size = 0
        self.state: PartState | None = None
        self._hash = hashlib.sha256()
        self._load()

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes so far."""
        return self._hash.hexdigest()

    def resume_offset(self) -> int:
        """Where the next try should go on: the part's size, or 0 after dropping what cannot go on."""
        state = self.state
        if self.size and (state is None or not state.resumable or not self._is_versioned(state)):
            self.reset()
        return self.size

    def reset(self) -> None:
        """Drops all bytes."""
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(b"")
        self.size, self.state, self._hash = 0, None, hashlib.sha256()

    def describe(self, state: PartState) -> None:
        """Notes what the bytes are a prefix of; to be called before bytes are added."""
        if state != self.state:
            write_json(self.state_path, asdict(state))
            self.state = state

    def append(self, chunk: bytes, file: BinaryIO) -> None:
        """Adds bytes to the file, opened for appending by the caller, and to the digest."""
        file.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)

    def finish(self, target: Path) -> None:
        """Moves the complete file to its place and removes the state."""
        with disk_errors(target):
            self.path.replace(target)
            self.state_path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Removes file and state."""
        self.path.unlink(missing_ok=True)
        self.state_path.unlink(missing_ok=True)

    def _is_versioned(self, state: PartState) -> bool:
        # A weak entity tag promises equal meaning, not equal bytes (RFC 9110, 8.8.1).
        strong = state.identity is not None and not state.identity.startswith("etag:W/")
        return strong or state.if_range is not None or self._trust_unversioned

    def _load(self) -> None:
        doc = read_json(self.state_path)
        try:
            state = PartState(**doc) if doc else None
        except TypeError:
            state = None
        if state is None or state.url != self._url or not self.path.is_file():
            return
        with disk_errors(self.path), self.path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                self._hash.update(chunk)
                self.size += len(chunk)
        self.state = state
