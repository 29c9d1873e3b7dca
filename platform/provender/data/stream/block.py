"""What flows between operators: some consecutive rows, held the way they came.

A block is a table, a list of rows, or a dict of columns. It is turned into another of these only
when somebody asks, and keeps what it was turned into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Row = Mapping[str, Any]


class Block:
    """Consecutive rows of a stream.

    Args:
        table: the rows as an Arrow table.
        rows: the rows as Python objects.
        columns: the rows as lists (arrays, tensors) of values, all of one length.
        count: how many rows; taken from the rest when left out.
        numbers: where the rows stand in the undivided stream, shape ``[count]``; None when nobody
            asked for it.
    """

    __slots__ = ("columns", "count", "numbers", "rows", "table")

    def __init__(
        self,
        *,
        table: pa.Table | None = None,
        rows: list[Row] | None = None,
        columns: Mapping[str, Any] | None = None,
        count: int | None = None,
        numbers: np.ndarray | None = None,
    ) -> None:
        if count is None:
            if rows is not None:
                count = len(rows)
            elif table is not None:
                count = table.num_rows
            else:
                assert columns is not None
                count = len(next(iter(columns.values()))) if columns else 0
        self.table = table
        self.rows = rows
        self.columns = columns
        self.count = count
        self.numbers = numbers

    def slice(self, start: int, stop: int) -> Block:
        """Rows ``start`` to ``stop - 1``."""
        if start == 0 and stop >= self.count:
            return self
        stop = min(stop, self.count)
        return Block(
            table=None if self.table is None else self.table.slice(start, stop - start),
            rows=None if self.rows is None else self.rows[start:stop],
            columns=None
            if self.columns is None
            else {name: values[start:stop] for name, values in self.columns.items()},
            count=stop - start,
            numbers=None if self.numbers is None else self.numbers[start:stop],
        )

    def select(self, chosen: np.ndarray) -> Block:
        """The rows of the positions given, in that order."""
        import pyarrow as pa

        table = rows = columns = None
        if self.table is not None:
            table = self.table.take(pa.array(chosen))
        if self.rows is not None:
            held = self.rows
            rows = [held[at] for at in chosen.tolist()]
        elif self.columns is not None and table is None:
            held = self.as_rows()
            rows = [held[at] for at in chosen.tolist()]
        return Block(
            table=table,
            rows=rows,
            columns=columns,
            count=len(chosen),
            numbers=None if self.numbers is None else self.numbers[chosen],
        )

    def as_rows(self) -> list[Row]:
        """The rows as dicts of Python objects."""
        if self.rows is None:
            if self.columns is not None:
                self.rows = _zipped(self.columns, self.count)
            else:
                from provender.data.stream.formats import python_rows

                assert self.table is not None
                self.rows = python_rows(self.table)
        return self.rows

    def as_table(self, first_row: int = 0) -> pa.Table:
        """The rows as a table.

        Raises:
            FeatureTypeError: values of one column do not go together; names column and row.
        """
        if self.table is None:
            from provender.data.features import table_from_batch, table_from_rows

            if self.columns is not None:
                self.table = table_from_batch(self.columns, first_row=first_row)
            else:
                assert self.rows is not None
                self.table = table_from_rows(self.rows, first_row=first_row)
        return self.table

    def names(self) -> list[str]:
        """The columns."""
        if self.table is not None:
            return list(self.table.column_names)
        if self.columns is not None:
            return list(self.columns)
        return list(self.rows[0]) if self.rows else []


def _zipped(columns: Mapping[str, Any], count: int) -> list[Row]:
    names = tuple(columns)
    if not names:
        return [{} for _ in range(count)]
    from provender.data.formats.base import keyed

    return list(keyed(names, [as_list(values) for values in columns.values()]))


def as_list(values: Any) -> Any:
    """A column as something that can be gone through quickly, element by element."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.to_pylist()
    return values


def join(blocks: Sequence[Block]) -> Block:
    """Several blocks as one; tables stay a table when all of them are."""
    if len(blocks) == 1:
        return blocks[0]
    import numpy as np

    numbers = None
    if all(block.numbers is not None for block in blocks):
        numbers = np.concatenate([block.numbers for block in blocks])
    count = sum(block.count for block in blocks)
    if all(block.table is not None for block in blocks):
        table = join_tables([block.table for block in blocks])
        rows: list[Row] | None = None
        if all(block.rows is not None for block in blocks):
            rows = [row for block in blocks for row in block.rows or ()]
        return Block(table=table, rows=rows, count=count, numbers=numbers)
    rows = [row for block in blocks for row in block.as_rows()]
    return Block(rows=rows, count=count, numbers=numbers)


def join_tables(tables: Sequence[Any]) -> pa.Table:
    """Tables one after the other; columns that one of them lacks are null there."""
    import pyarrow as pa

    first = tables[0].schema
    if all(table.schema.equals(first) for table in tables[1:]):
        return pa.concat_tables(tables)
    return pa.concat_tables(tables, promote_options="permissive")
