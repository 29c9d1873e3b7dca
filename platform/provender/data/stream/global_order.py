"""``shuffle(buffer_size="global")``: a permutation of the whole split, row by row by number.

The row at a position is a function of seed, epoch and position. Nothing is buffered, a state is
one number, and skipping is arithmetic. Nodes and workers take positions r, r + w, ... of one
order, which is therefore the same however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from provender.data.stream.block import Block
from provender.data.stream.draws import key_of
from provender.data.stream.flow import Flow, State, plus
from provender.data.stream.leaf import Leaf
from provender.data.stream.node import Node, Run, Unary
from provender.data.stream.permutation import BlockOrder, Permutation
from provender.data.stream.seeds import Seed
from provender.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np

_FIRST, _MOST = 64, 2048


@dataclass(frozen=True, eq=False)
class GlobalShuffle(Unary):
    """All rows in random order.

    Attributes:
        seed: with the epoch it decides the order.
        block: rows that stay together for the reader's sake; 1: none do.
        window: rows that are read and permuted together, where `block` is more than 1.
        step, offset, run: of the positions: runs of `run`, every `step`-th of them from `offset`.
        equal: how a last round that is not full is dealt out, see `Stride`; "pad" begins anew.
        first, last: the positions that are given at all, up to the one before `last`.
    """

    name: ClassVar[str] = "shuffle global"

    seed: Seed = None  # type: ignore[assignment]
    block: int = 1
    window: int = 65536
    key: int = 0
    step: int = 1
    offset: int = 0
    run: int = 1
    equal: str | None = None
    first: int = 0
    last: int | None = None

    def parameters(self) -> Any:
        return (self.seed.parameters(), self.block, self.window)

    def rows(self) -> int | None:
        total = self.child.rows()
        return None if total is None else self.own_rows(self.end(total) - self.first)

    def end(self, total: int) -> int:
        """The place after the last position that is given, of so many."""
        return total if self.last is None else min(self.last, total)

    def ranged(self, start: int, stop: int) -> Node | None:
        """A range of the positions; None where they are dealt out already."""
        if self.step != 1:
            return None
        return replace(self, first=self.first + start, last=self.first + stop)

    def own_rows(self, total: int) -> int:
        """How many of so many positions are this one's."""
        rounds, rest = divmod(total, self.step * self.run)
        if self.equal == "drop":
            return rounds * self.run
        if self.equal == "pad":
            return (rounds + (1 if rest else 0)) * self.run
        return rounds * self.run + min(max(rest - self.offset * self.run, 0), self.run)

    @property
    def numbers(self) -> bool:
        return True

    def num_parts(self) -> int:
        return 1

    def pick(self, parts: Sequence[int]) -> Node:
        return super(Unary, self).pick(parts)

    def permuted(self, key: int) -> Node:
        del key
        return self

    def mixed(self, parts: int, run: int) -> Node:
        del parts, run
        return self

    def refined(self, count: int) -> Node | None:
        del count
        return None

    def strided(self, step: int, offset: int, run: int, equal: str | None) -> Node | None:
        """Every `step`-th run of the positions; None where two ways to deal do not go together."""
        if self.step != 1:
            if self.equal is not None or self.run != 1 or run != 1:
                return None
            step, offset = self.step * step, self.offset + self.step * offset
        return replace(self, step=step, offset=offset, run=run, equal=equal)

    def resolved(self, run: Run) -> Node:
        key = key_of("global", self.seed.used(run), run.epoch)
        return replace(self, key=key, child=self.child.resolved(run))

    def order(self) -> Permutation | BlockOrder:
        """The permutation of one pass."""
        total = self.child.rows() or 0
        if self.block > 1:
            return BlockOrder(total, self.block, self.window, self.key)
        return Permutation(total, self.key)

    def open(self, run: Run, state: State) -> Flow:
        check_global(self.child)
        return GlobalFlow(self, self.first if state is None else int(state["g"]))


def check_global(child: Node) -> Leaf:
    """The source below, if its rows can be read by number.

    Raises:
        SettingsError: they cannot; it says what stands in the way and what to do.
    """
    where = 'shuffle(buffer_size="global")'
    if not isinstance(child, Leaf):
        raise SettingsError(
            f"A global shuffle cannot come after {child.name}: its rows have no known numbers.",
            where=where,
            hint=f"Shuffle first and put {child.name} after it, or use a buffer_size.",
        )
    if not child.source.random_access or child.lengths is None:
        raise SettingsError(
            f"{type(child.source).__name__} cannot read rows by their number.",
            where=where,
            hint="Use a buffer_size, or publish the data as a version, whose index has every row.",
        )
    return child


class GlobalFlow(Flow):
    """Running `GlobalShuffle`; its state is the position in the whole order.

    Positions are dealt out from the one it starts at, so that another number of nodes can go on.
    """

    exact = True

    def __init__(self, node: GlobalShuffle, at: int) -> None:
        self._node = node
        self._leaf = check_global(node.child)
        self._order = node.order()
        self._begin = at
        self._end = node.end(self._order.n)
        self._rows = node.own_rows(max(self._end - at, 0))
        self._taken = 0
        self._fetch = _FIRST
        self._table: Any = None
        self._numbers: Any = None
        self._used = 0

    def _positions(self, first: int, count: int) -> np.ndarray:
        """Positions in the whole order of this one's rows, by their own count."""
        import numpy as np

        node = self._node
        own = np.arange(first, min(first + count, self._rows))
        places = own // node.run * node.step * node.run + node.offset * node.run + own % node.run
        shift = self._begin - node.first
        return node.first + (places + shift) % max(self._end - node.first, 1)

    def _fetched(self) -> bool:
        """Reads the next rows; False at the end."""
        positions = self._positions(self._taken, self._fetch)
        if not len(positions):
            return False
        if isinstance(self._order, BlockOrder):
            positions = self._positions(self._taken, self._node.window)
            positions = positions[positions < self._order.window_end(int(positions[0]))]
        self._fetch = min(self._fetch * 4, _MOST)
        self._numbers = self._order.at(positions)
        self._table = self._leaf.source.rows_at(self._leaf.ordinals(self._numbers))
        self._used = 0
        return True

    def _next(self, limit: int | None) -> Block | None:
        if (self._table is None or self._used == self._table.num_rows) and not self._fetched():
            return None
        left = self._table.num_rows - self._used
        count = left if limit is None else min(left, limit)
        table = self._table.slice(self._used, count)
        numbers = self._numbers[self._used : self._used + count]
        self._used += count
        self._taken += count
        return Block(table=table, numbers=numbers)

    def _advance(self, rows: int) -> int:
        done = min(rows, self._rows - self._taken)
        self._taken += done
        self._used += done
        if self._table is not None and self._used > self._table.num_rows:
            self._table = None
        return done

    def _state(self) -> State:
        node = self._node
        rounds, within = divmod(self._taken, node.run)
        place = {"g": min(self._begin + rounds * node.step * node.run, self._end)}
        return plus(place, within)
