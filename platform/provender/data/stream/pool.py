"""Rows that wait for their turn, found by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from provender.data.stream.block import Block, join_tables

if TYPE_CHECKING:
    import pyarrow as pa


class Pool:
    """Rows under rising numbers: tables stay tables, anything else is kept row by row.

    Attributes:
        held: rows it keeps in memory, those given already included until `keep`.
    """

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._old = np.zeros(0, np.int64)
        self._fresh = 0
        self._rows: dict[int, Any] | None = None
        self.held = 0

    @property
    def tables(self) -> bool:
        """Whether all rows so far came in tables."""
        return self._rows is None

    def add(self, number: int, block: Block) -> None:
        """Adds rows, the first under `number`, which follows the last one."""
        if block.table is None and self._rows is None:
            self._to_rows()
        if self._rows is not None:
            self._rows.update(
                zip(range(number, number + block.count), block.as_rows(), strict=True)
            )
            return
        if self.held == len(self._old):
            self._fresh = number
        self._tables.append(block.table)
        self.held += block.count

    def _to_rows(self) -> None:
        fresh = np.arange(self._fresh, self._fresh + self.held - len(self._old))
        numbers = np.concatenate([self._old, fresh]).tolist()
        rows = Block(table=join_tables(self._tables)).as_rows() if self._tables else []
        self._rows = dict(zip(numbers, rows, strict=True))
        self._tables, self.held = [], 0

    def take(self, numbers: np.ndarray) -> Block:
        """Takes out the rows of these numbers, in their order."""
        if self._rows is not None:
            pop = self._rows.pop
            return Block(rows=[pop(number) for number in numbers.tolist()])
        return Block(table=self._at(numbers))

    def _at(self, numbers: np.ndarray) -> pa.Table:
        import pyarrow as pa

        if len(self._tables) > 1:
            self._tables = [join_tables(self._tables)]
        places = numbers - (self._fresh - len(self._old))
        before = np.flatnonzero(numbers < self._fresh)
        places[before] = np.searchsorted(self._old, numbers[before])
        return self._tables[0].take(pa.array(places))

    def keep(self, numbers: np.ndarray) -> None:
        """Lets go of all rows but those of these rising numbers."""
        if self._rows is None and self._tables:
            self._tables = [self._at(numbers).combine_chunks()]
            self._old = numbers
            self.held = len(numbers)
            self._fresh = int(numbers[-1]) + 1 if len(numbers) else 0
