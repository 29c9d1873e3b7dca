"""Output files from segments, bucket by bucket, so that an interruption costs one bucket at most.

Each file grows beside its final name. A journal in the work folder says how much of them is valid;
the rest, which an interruption left, is cut off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provender.records.atomic import told_as_ours, write_json

_JOURNAL = "journal.json"
_BLOCK = 8 << 20


@dataclass
class Joining:
    """Output files under construction.

    Attributes:
        journal: the file that says how far they are.
        growing: where each output file grows.
        bucket: buckets that are in them.
        sizes: bytes of each that are valid.
    """

    journal: Path
    growing: Sequence[Path]
    bucket: int
    sizes: list[int]

    @classmethod
    def open(cls, folder: Path, growing: Sequence[Path]) -> Joining:
        """Goes on where the journal of a work folder says, or begins."""
        journal = folder / _JOURNAL
        if not journal.exists():
            return cls(journal, growing, 0, [0] * len(growing))
        with told_as_ours(journal):
            known = json.loads(journal.read_bytes())
        return cls(journal, growing, known["bucket"], known["sizes"])

    def append(self, segments: Sequence[Path]) -> None:
        """Takes the next bucket's segments, and removes them.

        Raises:
            DiskFull, StoreError: a file cannot be read or written.
        """
        sizes = [
            _append(path, size, segment)
            for path, size, segment in zip(self.growing, self.sizes, segments, strict=True)
        ]
        self.bucket, self.sizes = self.bucket + 1, sizes
        write_json(self.journal, {"bucket": self.bucket, "sizes": sizes})
        for each in segments:
            each.unlink(missing_ok=True)

    def publish(self, targets: Sequence[Path]) -> None:
        """Gives the files their names; those that have theirs already are left alone."""
        for path, target in zip(self.growing, targets, strict=True):
            if path.exists():
                with told_as_ours(target):
                    path.replace(target)


def _append(path: Path, size: int, segment: Path) -> int:
    with (
        told_as_ours(path),
        segment.open("rb", buffering=0) as source,
        os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666), "r+b") as target,
    ):
        target.truncate(size)
        target.seek(size)
        while block := source.read(_BLOCK):
            target.write(block)
            size += len(block)
    return size
