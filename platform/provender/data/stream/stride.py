"""Every w-th row (or run of rows): how one stream is dealt out to several nodes or workers.

A state of a stride holds a place of the undivided stream, at the beginning of a round. Taken out
of it (`undealt`) it means the same to every node, and to another number of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from provender.data.stream.block import Block
from provender.data.stream.flow import Flow, Reader, State, parted, plus
from provender.data.stream.node import Node, Run, Unary, start

EQUAL = (None, "drop", "pad", "balance")
_ROUNDS = 256


@dataclass(frozen=True, eq=False)
class Stride(Unary):
    """Rows whose run has number ``offset`` modulo ``step``.

    Attributes:
        step: how many share the stream.
        offset: which of them this is.
        run: rows dealt out at a time.
        equal: what to do with a last round that is not full: None gives what is there, "drop"
            leaves it out, "pad" repeats its rows so that everybody gets as many.
    """

    name: ClassVar[str] = "stride"

    step: int = 1
    offset: int = 0
    run: int = 1
    equal: str | None = None

    def parameters(self) -> Any:
        return (self.step, self.offset, self.run, self.equal)

    def rows(self) -> int | None:
        total = self.child.rows()
        if total is None:
            return None
        rounds, rest = divmod(total, self.step * self.run)
        if self.equal == "drop":
            return rounds * self.run
        if self.equal == "pad":
            return rounds * self.run + (self.run if rest else 0)
        return rounds * self.run + min(max(rest - self.offset * self.run, 0), self.run)

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        return None

    def open(self, run: Run, state: State) -> Flow:
        return StrideFlow(self, start(self.child, run, None if state is None else state["whole"]))


class StrideFlow(Flow):
    """Running `Stride`: reads whole rounds, keeps its own rows of them."""

    exact = True

    def __init__(self, node: Stride, child: Flow) -> None:
        self._node = node
        self._reader = Reader(child)
        self._round = node.step * node.run

    def _next(self, limit: int | None) -> Block | None:
        node, size = self._node, self._round
        if node.run > 1:
            return self._own_run()
        most = _ROUNDS if limit is None else min(limit, _ROUNDS)
        have = min(self._reader.ensure(most * size), most * size)
        if have < size:
            return self._last(have)
        have -= have % size
        return self._picked(self._reader.block(have), have)

    def _picked(self, block: Block, rows: int) -> Block:
        import numpy as np

        return block.select(np.arange(self._node.offset, rows, self._node.step))

    def _own_run(self) -> Block | None:
        """A run, without reading those of the others where the child can step over them."""
        node = self._node
        if node.equal is not None:
            have = self._reader.ensure(self._round)
            if have < self._round:
                return self._last(have)
            block = self._reader.block(self._round)
            return block.slice(node.offset * node.run, (node.offset + 1) * node.run)
        before = node.offset * node.run
        if self._reader.advance(before) < before:
            return None
        have = min(self._reader.ensure(node.run), node.run)
        if not have:
            return None
        block = self._reader.block(have)
        self._reader.advance(self._round - before - node.run)
        return block

    def _last(self, have: int) -> Block | None:
        """What is given of a round that is not full."""
        import numpy as np

        node = self._node
        if not have or node.equal == "drop":
            return None
        block = self._reader.block(have)
        wanted = node.offset * node.run + np.arange(node.run)
        wanted = wanted % have if node.equal == "pad" else wanted[wanted < have]
        return block.select(wanted) if len(wanted) else None

    def _advance(self, rows: int) -> int:
        if self._node.equal is not None or self._node.run > 1:
            return super()._advance(rows)
        moved = self._reader.advance(rows * self._round)
        rounds, rest = divmod(moved, self._round)
        return rounds + (1 if rest > self._node.offset else 0)

    def _state(self) -> State:
        return {"whole": self._reader.state()}

    def close(self) -> None:
        self._reader.close()


def undealt(node: Node, state: State, deals: int) -> State:
    """A place of a chain that is dealt out, as one of the undivided chain.

    Args:
        node: the chain as it runs, a `Stride` (or another node that deals) somewhere in it.
        state: a place of it.
        deals: among how many it is dealt out.
    """
    place, rows = parted(state)
    if isinstance(node, Stride):
        place = None if place is None else place["whole"]
    elif place is not None and not node.numbers:
        below = node.children[0]
        if node.wraps:
            place = {**place, "up": undealt(below, place["up"], deals)}
        else:
            place = undealt(below, place, deals)
    return plus(place, rows * deals)


def dealt(node: Node, state: State) -> State:
    """A place of the undivided chain, at the beginning of a round, as one of the chain as it runs."""
    if isinstance(node, Stride):
        return None if state is None else {"whole": state}
    if state is None or node.numbers:
        return state
    if node.wraps:
        return {**state, "up": dealt(node.children[0], state["up"])}
    return dealt(node.children[0], state)
