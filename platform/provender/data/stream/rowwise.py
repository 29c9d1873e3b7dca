"""Operators that give one row for each row, in the same order.

Skipping, taking, shuffling and splitting pass through them: they are done to the rows below, so
that a function is called only for rows that somebody gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from provender.data.stream.block import Block
from provender.data.stream.flow import Flow, State, plus
from provender.data.stream.node import Node, Run, Unary, start

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class RowWise(Unary):
    """Base: `apply` turns a block into one of as many rows.

    Attributes:
        base, step, offset: for operators that number rows (`indexed`): the row that comes k-th
            has the number ``base + offset + k * step``.
        from_blocks: the numbers come with the blocks, and `base` is added.
    """

    indexed: ClassVar[bool] = False
    fails: ClassVar[bool] = False
    base: int = 0
    step: int = 1
    offset: int = 0
    from_blocks: bool = False

    @property
    def numbers_rows(self) -> bool:
        """Whether the number of a row changes what is made of it."""
        return self.indexed

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        """The rows made of a block.

        Args:
            block: the rows.
            numbers: where they stand in the undivided stream; only when `numbers_rows`.
            seen: number of the first of them as far as it is known, for messages.
        """
        raise NotImplementedError

    def rows(self) -> int | None:
        return self.child.rows()

    def num_parts(self) -> int:
        return self.child.num_parts() if not self.numbers_rows or self.child.counted else 1

    def pick(self, parts: Sequence[int]) -> Node:
        if not self.numbers_rows:
            return self.over(self.child.pick(parts))
        if not self.child.counted:
            return super(Unary, self).pick(parts)
        return replace(self, child=self.child.numbered().pick(parts), from_blocks=True)

    def permuted(self, key: int) -> Node:
        return self.over(self.child.permuted(key)) if not self.numbers_rows else self

    def mixed(self, parts: int, run: int) -> Node:
        return self.over(self.child.mixed(parts, run)) if not self.numbers_rows else self

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        if self.numbers_rows and not self.child.counted:
            return None
        child = self.child.numbered() if self.numbers_rows else self.child
        share = child.balanced(count, index, pad)
        return None if share is None else replace(self, child=share, from_blocks=self.numbers_rows)

    def refined(self, count: int) -> Node | None:
        if self.numbers_rows and not self.child.counted:
            return None
        return super().refined(count)

    @property
    def wraps(self) -> bool:
        return self.numbers_rows and not self.from_blocks

    @property
    def counted(self) -> bool:
        return self.child.counted

    def numbered(self) -> Node:
        return self.over(self.child.numbered())

    def open(self, run: Run, state: State) -> Flow:
        counts = self.numbers_rows and not self.from_blocks
        if counts:
            at = 0 if state is None else int(state["i"])
            below = None if state is None else state["up"]
        else:
            at, below = 0, state
        return RowWiseFlow(self, start(self.child, run, below), at, counts)


class RowWiseFlow(Flow):
    """Running `RowWise`: passes everything on, and counts where rows are numbered."""

    exact = True

    def __init__(self, node: RowWise, child: Flow, at: int, counts: bool) -> None:
        self._node = node
        self._child = child
        self._at = at
        self._counts = counts
        self._error: BaseException | None = None
        self._place: State = None

    def _next(self, limit: int | None) -> Block | None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        node = self._node
        before = self._child.state() if node.fails else None
        block = self._child.pull(limit)
        if block is None:
            return None
        at = self._at
        numbers = block.numbers
        if node.from_blocks and numbers is not None:
            numbers = numbers + node.base
        if self._counts:
            import numpy as np

            numbers = node.base + node.offset + at + node.step * np.arange(block.count)
        try:
            made = node.apply(block, numbers, at)
        except Broken as broken:
            if not broken.rows:
                raise broken.error
            # The rows before the one that failed are given first, then the error.
            self._error = broken.error
            made = broken.made
            after = plus(before, broken.rows)
            self._place = (
                {"i": at + broken.rows * node.step, "up": after} if self._counts else after
            )
            self._at = at + broken.rows * node.step
            return made
        self._at = at + block.count * node.step
        if made.numbers is None:
            made.numbers = block.numbers
        return made

    def _state(self) -> State:
        if self._error is not None:
            return self._place
        below = self._child.state()
        return {"i": self._at, "up": below} if self._counts else below

    def _advance(self, rows: int) -> int:
        done = self._child.advance(rows)
        self._at += done * self._node.step
        return done

    def close(self) -> None:
        self._child.close()


class Broken(Exception):
    """A row could not be made; carries those before it."""

    def __init__(self, error: BaseException, made: Block, rows: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.made = made
        self.rows = rows
