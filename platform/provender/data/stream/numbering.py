"""Rows that bring the number along that they have in the undivided stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from provender.data.stream.block import Block
from provender.data.stream.rowwise import RowWise

if TYPE_CHECKING:
    import numpy as np

    from provender.data.features import Features


@dataclass(frozen=True, eq=False)
class Numbered(RowWise):
    """The same rows, whose blocks tell their numbers to an operator above a split.

    It lies below the split, where numbers are known; what is dealt out is the numbered rows.
    """

    name: ClassVar[str] = "number"
    indexed: ClassVar[bool] = True

    def features(self) -> Features | None:
        return self.child.features()

    def column_names(self) -> list[str] | None:
        return self.child.column_names()

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        del seen
        return Block(
            table=block.table,
            rows=block.rows,
            columns=block.columns,
            count=block.count,
            numbers=numbers,
        )
