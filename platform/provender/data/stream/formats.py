"""Blocks as what the user asked for: Python objects, arrays, tensors, frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from provender.data.stream.block import Block, as_list

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Format:
    """A format that a stream was given.

    Attributes:
        type: the one name of it, see `provender.data.formats`; "python" for plain objects.
        kwargs: options, e.g. ``dtype``.
    """

    type: str = "python"
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether rows are given as they are."""
        return self.type == "python"


PLAIN = Format()


class Shaper:
    """Turns blocks into rows or batches of one format."""

    def __init__(self, chosen: Format) -> None:
        from provender.data.formats import formatter

        self.format = chosen
        self._formatter = formatter(chosen.type, **chosen.kwargs)
        self.is_table = self._formatter.is_table

    def rows(self, block: Block, first_row: int = 0) -> list[Any]:
        """The rows, each in the format."""
        if self.format.plain:
            return block.as_rows()
        return list(self._formatter.rows(block.as_table(first_row)))

    def batch(self, block: Block, first_row: int = 0) -> Any:
        """The rows as one batch: a dict of columns, a table or a frame."""
        if not self.format.plain:
            return self._formatter.batch(block.as_table(first_row))
        if block.columns is not None:
            return {name: as_list(values) for name, values in block.columns.items()}
        if block.table is not None:
            return self._formatter.batch(block.table)
        assert block.rows is not None
        return columns_of(block.rows)


def columns_of(rows: list[Any]) -> dict[str, list[Any]]:
    """Rows as columns; what a row lacks is None there."""
    if not rows:
        return {}
    first = rows[0]
    try:
        made = {name: [row[name] for row in rows] for name in first}
        if all(len(row) == len(first) for row in rows):
            return made
    except KeyError:
        pass
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


@cache
def shaper(kind: str = "python") -> Shaper:
    """The shaper of a format without options."""
    return Shaper(Format(kind))


def python_rows(table: pa.Table) -> list[Any]:
    """The rows of a table as dicts, images and the like decoded."""
    return list(shaper()._formatter.rows(table))
