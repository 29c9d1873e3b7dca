"""Plan files: planned instances by bucket.

An instance is a row of 40 bytes (`ROW`): where its two segments lie in the token store, whether the
second one is random, and what its random numbers are keyed by. Its ``key`` is a random number too:
instances sorted by it are shuffled, and a bucket holds a range of keys.

A plan file holds runs of rows, each sorted by bucket; for each run, u64 where each bucket begins and
the last one ends, in rows of the file; and a footer: rows, runs and buckets (u64 each) and a magic of
16 bytes. Everything is little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from provender.errors import DamageError
from provender.records.atomic import AtomicFile, told_as_ours

ROW = np.dtype(
    [
        ("key", "<u8"),
        ("first", "<i8"),
        ("second", "<i8"),
        ("document", "<u4"),
        ("instance", "<u4"),
        ("epoch", "<u2"),
        ("first_length", "<u2"),
        ("second_length", "<u2"),
        ("random", "<u2"),
    ]
)
"""``first`` and ``second`` are tokens of the store, their lengths are in tokens, ``random`` is 1
where the second segment is from elsewhere, and ``epoch`` is the number of the pass."""

_ROWS_PER_RUN = 1 << 18
_FOOTER = struct.Struct("<QQQ16s")
_MAGIC = b"PVPLANFILE\x00\x00\x00\x00\x01\n"


def write_plan(found: Iterator[np.ndarray], buckets: int, target: Path) -> list[int]:
    """Writes rows as a plan file.

    Args:
        found: the rows, some at a time, of dtype `ROW`.
        buckets: number of buckets.
        target: the file; appears whole or not at all.

    Returns:
        Instances of each bucket.

    Raises:
        StoreError: the file cannot be written.
    """
    counts = np.zeros(buckets, np.int64)
    starts: list[np.ndarray] = []
    with AtomicFile(target) as file:
        for rows in _runs(found):
            numbers = _bucket_of(rows["key"], buckets)
            here = np.bincount(numbers, minlength=buckets)
            first = file.size // ROW.itemsize
            starts.append(first + np.concatenate([[0], np.cumsum(here)]))
            file.write(rows[np.argsort(numbers, kind="stable")].tobytes())
            counts += here
        count = file.size // ROW.itemsize
        for each in starts:
            file.write(each.astype("<u8").tobytes())
        file.write(_FOOTER.pack(count, len(starts), buckets, _MAGIC))
    return [int(each) for each in counts]


def _runs(found: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Joins arrays of rows to runs of bounded size."""
    held: list[np.ndarray] = []
    for rows in found:
        held.append(rows)
        if sum(map(len, held)) >= _ROWS_PER_RUN:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def _bucket_of(keys: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of each key; buckets are even ranges of keys, so their order is that of the keys."""
    return ((keys >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.int64)


def read_bucket(plans: Sequence[Path], bucket: int) -> np.ndarray:
    """The rows of a bucket in the order of their keys, from all plan files.

    Raises:
        DamageError: a plan file is not whole.
        StoreError: it cannot be read.
    """
    found = [np.empty(0, ROW)]
    for path in plans:
        with _Plan(path) as plan:
            found += plan.rows(bucket)
    rows = np.concatenate(found)
    return rows[np.argsort(rows["key"], kind="stable")]


def read_counts(path: Path, buckets: int) -> np.ndarray:
    """Instances of each bucket in a plan file; int64.

    Raises:
        DamageError: the file is not whole.
        StoreError: it cannot be read.
    """
    counts = np.zeros(buckets, np.int64)
    with _Plan(path) as plan:
        for run in range(plan.runs):
            counts += np.diff(plan.starts(run, 0, buckets + 1))
    return counts


class _Plan:
    """A plan file, open for reading."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _Plan:
        path = self._path
        with told_as_ours(path):
            self._file = path.open("rb", buffering=0)
            size = self._file.seek(0, 2)
            self._file.seek(max(0, size - _FOOTER.size))
            footer = self._file.read(_FOOTER.size)
        rows, self.runs, self.buckets, magic = _FOOTER.unpack(footer.ljust(_FOOTER.size))
        self._index = rows * ROW.itemsize
        whole = self._index + 8 * self.runs * (self.buckets + 1) + _FOOTER.size
        if magic != _MAGIC or size != whole:
            self._file.close()
            raise DamageError(
                f"{path.name} is not a whole plan file.",
                where=str(path),
                hint="Remove it and run the command again: it is made anew.",
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def starts(self, run: int, first: int, count: int) -> np.ndarray:
        """Where buckets of a run begin, in rows; ``count`` of them from ``first`` on, as int64."""
        self._file.seek(self._index + 8 * (run * (self.buckets + 1) + first))
        return np.frombuffer(self._file.read(8 * count), "<i8")

    def rows(self, bucket: int) -> Iterator[np.ndarray]:
        """The rows of a bucket, run by run."""
        for run in range(self.runs):
            start, stop = self.starts(run, bucket, 2).tolist()
            self._file.seek(start * ROW.itemsize)
            yield np.frombuffer(self._file.read((stop - start) * ROW.itemsize), ROW)
