"""`shuffle` through a buffer: the order is a function of the random numbers alone.

A buffer of B rows is filled; each draw names a slot, whose row is given and replaced by the next
row that is read. Row j (from B on) goes into the slot that draw ``j - B`` names, so which rows the
buffer holds after k draws can be computed from the draws before k, without the rows. A state is
therefore k and the place below of the oldest row that is still held. Every fourth draw goes
through the slots in a fixed random order, so that no row stays longer than ``4 B`` draws: that
bounds what a resume reads again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from provender.data.stream.block import Block
from provender.data.stream.draws import Draws, key_of, order_of
from provender.data.stream.flow import Flow, State, plus
from provender.data.stream.node import Node, Run, Unary, start
from provender.data.stream.pool import Pool
from provender.data.stream.seeds import Seed

SWEEP = 4
_AT_ONCE = 1024
_MOST = 8192
_SHORTEST_RUN = 16


@dataclass(frozen=True, eq=False)
class BufferShuffle(Unary):
    """Rows in a random order, as far as a buffer reaches; shards in a random order.

    Attributes:
        seed: with the epoch it decides the order.
        size: rows held.
        inputs: shards read in turn.
    """

    name: ClassVar[str] = "shuffle"

    seed: Seed = None  # type: ignore[assignment]
    size: int = 1000
    inputs: int = 10
    key: int = 0
    salt: tuple[Any, ...] = ()

    def parameters(self) -> Any:
        return (self.seed.parameters(), self.size, self.inputs)

    def rows(self) -> int | None:
        return self.child.rows()

    def pick(self, parts: Sequence[int]) -> Node:
        salt = self.salt if self.num_parts() == 1 else (*self.salt, tuple(parts))
        return replace(self, child=self.child.pick(parts), salt=salt)

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        share = self.child.balanced(count, index, pad)
        return (
            None if share is None else replace(self, child=share, salt=(*self.salt, count, index))
        )

    def resolved(self, run: Run) -> Node:
        key = key_of("shuffle", self.seed.used(run), run.epoch)
        child = self.child.resolved(run).permuted(key_of(key, "shards"))
        if self.inputs > 1:
            child = child.mixed(self.inputs, max(_SHORTEST_RUN, self.size // self.inputs))
        return replace(self, child=child, key=key_of(key, "rows"))

    def open(self, run: Run, state: State) -> Flow:
        if self.size <= 1:
            return start(self.child, run, state)
        return BufferShuffleFlow(self, run, state)


class BufferShuffleFlow(Flow):
    """Running `BufferShuffle`.

    Its state: ``k`` draws made, ``o`` the number of the oldest row held, ``up`` the place of that
    row below, and ``n`` the number of all rows once the end was met. Tables are given in large
    blocks, which cost less a row; `Flow.pull` cuts them.
    """

    def __init__(self, node: BufferShuffle, run: Run, state: State) -> None:
        self._node = node
        self._run = run
        self._size = node.size
        self._key = key_of(node.key, *node.salt)
        self._draws = Draws(self._key)
        self._sweep = order_of(key_of(self._key, "sweep"), node.size)
        self._k = 0 if state is None else int(state["k"])
        self._read = 0 if state is None else int(state["o"])
        self._total: int | None = None if state is None else state.get("n")
        self._child = start(node.child, run, None if state is None else state["up"])
        self._marks: deque[tuple[int, State]] = deque()
        self._pool = Pool()
        steady = self._k if self._total is None else min(self._k, max(self._total - node.size, 0))
        self._slots = self._contents(steady)
        self._order: np.ndarray | None = None
        self._ramp = 64

    # -- which rows ------------------------------------------------------------------------

    def _named(self, first: int, count: int) -> np.ndarray:
        """The slots that draws ``first`` to ``first + count - 1`` name."""
        slots = self._draws.below(self._size, first, count)
        swept = np.arange(first + (SWEEP - 1 - first) % SWEEP, first + count, SWEEP)
        slots[swept - first] = self._sweep[(swept // SWEEP) % self._size]
        return slots

    def _contents(self, draws: int) -> np.ndarray:
        """The number of the row in each slot after so many draws."""
        first = max(0, draws - SWEEP * (self._size + 1))
        slots = np.arange(self._size)
        slots[self._named(first, draws - first)] = self._size + np.arange(first, draws)
        return slots

    def _drawn(self, count: int) -> np.ndarray:
        """The numbers of the next rows given, while every one of them is replaced."""
        named = self._named(self._k, count)
        arriving = self._size + self._k + np.arange(count)
        # Sixteen bits are sorted by radix, several times faster.
        small = named.astype(np.uint16) if self._size <= 1 << 16 else named
        order = np.argsort(small, kind="stable")
        ordered = named[order]
        again = np.flatnonzero(ordered[1:] == ordered[:-1])
        given = self._slots[named]
        given[order[again + 1]] = arriving[order[again]]
        self._slots[named] = arriving
        return given

    # -- reading and giving ----------------------------------------------------------------

    def _fill(self, upto: int) -> None:
        while self._read < upto and (self._total is None or self._read < self._total):
            place = self._child.state()
            block = self._child.pull(min(upto - self._read, _AT_ONCE))
            if block is None:
                self._total = self._read
                break
            self._marks.append((self._read, place))
            self._pool.add(self._read, block)
            self._read += block.count

    def _next(self, limit: int | None) -> Block | None:
        count = _AT_ONCE if limit is None else min(limit, _AT_ONCE)
        if self._pool.tables:
            self._ramp = min(self._ramp * 2, _MOST)
            count = max(count, self._ramp)
        self._fill(self._size + self._k + count)
        if self._total is not None:
            count = min(count, self._total - self._k)
            if count <= 0:
                return None
            steady = max(self._total - self._size - self._k, 0)
            if not steady:
                return self._last(count)
            count = min(count, steady)
        given = self._drawn(count)
        self._k += count
        made = self._pool.take(given)
        if self._pool.held > 3 * self._size + 2 * _MOST:
            self._compact()
        return made

    def _compact(self) -> None:
        self._pool.keep(
            np.concatenate([np.sort(self._slots), np.arange(self._size + self._k, self._read)])
        )

    def _remaining(self) -> np.ndarray:
        """Numbers of the rows still to be given once all are read, in their order."""
        assert self._total is not None
        if self._order is None:
            held = min(self._size, self._total)
            self._order = self._slots[order_of(key_of(self._key, "rest"), held)]
        return self._order[self._k - max(self._total - self._size, 0) :]

    def _last(self, count: int) -> Block:
        given = self._remaining()[:count]
        self._k += count
        return self._pool.take(given)

    def _advance(self, rows: int) -> int:
        if rows > SWEEP * self._size + _AT_ONCE and self._total is None:
            return self._jump(rows)
        done = 0
        while done < rows:
            block = self.pull(min(rows - done, _AT_ONCE))
            if block is None:
                break
            done += block.count
        return done

    def _jump(self, rows: int) -> int:
        """Goes far ahead without reading what lies between."""
        begin, upto = self._k, self._k + rows
        slots = self._contents(upto)
        oldest = int(slots.min())
        if oldest <= self._read:
            return self.advance(SWEEP * self._size) + self.advance(rows - SWEEP * self._size)
        read = self._read
        first = self._child.state()
        moved = self._child.advance(oldest - read)
        place, beyond = self._child.state(), self._size + upto - oldest
        if moved == oldest - read:
            moved += self._child.advance(beyond)
        self._child.close()
        if moved == oldest - read + beyond:
            self._restart(upto, slots, oldest, place)
            return rows
        # The end came before: what is left in the buffer there is what the last draws leave.
        self._total = read + moved
        self._slots, self._k = (
            self._contents(max(self._total - self._size, 0)),
            min(upto, self._total),
        )
        remaining = self._remaining()
        oldest = int(remaining.min()) if len(remaining) else self._total
        number, before = [mark for mark in [*self._marks, (read, first)] if mark[0] <= oldest][-1]
        self._restart(self._k, self._slots, oldest, plus(before, oldest - number))
        return self._k - begin

    def _restart(self, k: int, slots: np.ndarray, read: int, place: State) -> None:
        self._k, self._slots, self._read = k, slots, read
        self._child = start(self._node.child, self._run, place)
        self._pool = Pool()
        self._marks.clear()

    def _state(self) -> State:
        oldest = self._read
        if self._total is None or self._k < self._total - self._size:
            oldest = min(int(self._slots.min()), oldest) if self._read else 0
        elif len(remaining := self._remaining()):
            oldest = int(remaining.min())
        while len(self._marks) > 1 and self._marks[1][0] <= oldest:
            self._marks.popleft()
        place = self._child.state()
        if self._marks and oldest < self._read:
            number, before = self._marks[0]
            place = plus(before, oldest - number)
        state = {"k": self._k, "o": oldest, "up": place}
        if self._total is not None and self._k >= self._total - self._size:
            state["n"] = self._total
        return state

    def close(self) -> None:
        self._child.close()
