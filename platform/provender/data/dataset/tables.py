"""Rows of Arrow tables, found fast."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

SMALL_CHUNK = 1024
"""Chunks of fewer rows on average are worth joining ..."""
SMALL_TABLE = 64 << 20
"""... where the table has no more bytes than this."""


class Rows:
    """A table whose rows are read by number, and in any order.

    Args:
        table: the rows; it is never changed.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._pieces: list[pa.Table] | None = None
        self._starts: list[int] = []

    def _cut(self) -> list[pa.Table]:
        if self._pieces is None:
            batches = [each for each in self.table.to_batches() if each.num_rows]
            if not batches or not self.table.num_columns:
                pieces = [self.table]
            else:
                pieces = [pa.Table.from_batches([each], self.table.schema) for each in batches]
            starts, start = [], 0
            for piece in pieces:
                starts.append(start)
                start += piece.num_rows
            self._starts, self._pieces = starts, pieces
        return self._pieces

    def locate(self, row: int) -> tuple[pa.Table, int]:
        """The piece (of one chunk a column) that holds a row, and the row's place in it."""
        pieces = self._cut()
        at = bisect_right(self._starts, row) - 1
        return pieces[at], row - self._starts[at]

    def take(self, rows: np.ndarray) -> pa.Table:
        """Rows by number, in the order given.

        ``Table.take`` copies all chunks of a column into one before it takes from it, which makes
        reading a shuffled table 50 times slower.

        Args:
            rows: integers, shape ``[n]``; each must exist, and may repeat.
        """
        pieces = self._cut()
        count = len(rows)
        if count == 0:
            return self.table.slice(0, 0)
        first, last = int(rows[0]), int(rows[-1])
        if last - first == count - 1 and (count < 3 or bool((np.diff(rows) == 1).all())):
            return self.table.slice(first, count)
        if not self.table.num_columns:
            return self.table.slice(0, count)
        if len(pieces) == 1:
            return pieces[0].take(pa.array(rows))
        starts = np.asarray(self._starts, np.int64)
        rows = np.asarray(rows, np.int64)
        which = np.searchsorted(starts, rows, "right") - 1
        order = np.argsort(which, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(which[order])) + 1)
        taken = []
        for group in groups:
            piece = which[group[0]]
            taken.append(pieces[piece].take(pa.array(rows[group] - starts[piece])))
        joined = pa.concat_tables(taken)
        if bool((np.diff(order) == 1).all()):
            return joined
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        return joined.combine_chunks().take(pa.array(back))


def slices(table: pa.Table, size: int) -> Iterator[pa.Table]:
    """The table in runs of `size` rows, without copying."""
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size)


def compact(table: pa.Table) -> pa.Table:
    """The table with its chunks joined where they are many and small.

    A small result is committed in at least 16 pieces; reading rows one by one is faster from one.
    """
    chunks = max((column.num_chunks for column in table.columns), default=0)
    if chunks < 2 or table.num_rows > chunks * SMALL_CHUNK or table.nbytes > SMALL_TABLE:
        return table
    return table.combine_chunks()


def as_rows(values: Any) -> np.ndarray:
    """Row numbers as an int64 array.

    Args:
        values: a range, a list, an array, an Arrow array, an iterator of integers.

    Raises:
        TypeError: they are not integers.
    """
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step, dtype=np.int64)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = (
            values.to_numpy(zero_copy_only=False)
            if isinstance(values, pa.Array)
            else (values.to_numpy())
        )
    elif not isinstance(values, np.ndarray | list | tuple):
        values = list(values)
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        message = f"Row numbers must be integers in one dimension, not {array.dtype} {array.shape}"
        raise TypeError(message)
    return array.astype(np.int64, copy=True)
