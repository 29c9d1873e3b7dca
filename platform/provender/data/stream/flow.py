"""A running operator: blocks come out of it, and it can say from where it would go on.

The rule that makes every resume exact: a state is a place in the sequence of *rows* that an
operator gives. Where the blocks are cut does not matter, so "the state before a block, and then so
many rows" (`plus`) is a state again, and skipping and resuming are one thing (`Flow.advance`).
"""

from __future__ import annotations

from typing import Any

from provender.data.stream.block import Block, join

State = Any
"""A JSON-ready place in the rows of an operator; None is its beginning."""


def plus(state: State, rows: int) -> State:
    """The place that many rows after another."""
    if rows == 0:
        return state
    if isinstance(state, dict) and "plus" in state:
        return {"of": state["of"], "plus": state["plus"] + rows}
    return {"of": state, "plus": rows}


def parted(state: State) -> tuple[State, int]:
    """A place as one that an operator made, and how many rows after it."""
    rows = 0
    while isinstance(state, dict) and "plus" in state:
        rows += int(state["plus"])
        state = state["of"]
    return state, rows


class Flow:
    """Base of running operators.

    An operator implements `_next` and `_state`, and `_advance` where it can do better than to
    read and drop. Where ``exact`` is true `_next` never gives more rows than it was asked for.
    """

    exact = False
    _rest: Block | None = None
    _before: State = None
    _given = 0

    def _next(self, limit: int | None) -> Block | None:
        """The next rows, at least one; None at the end."""
        raise NotImplementedError

    def _state(self) -> State:
        """The place after the last block of `_next`."""
        raise NotImplementedError

    def _advance(self, rows: int) -> int:
        done = 0
        while done < rows:
            block = self.pull(rows - done)
            if block is None:
                break
            done += block.count
        return done

    def pull(self, limit: int | None = None) -> Block | None:
        """The next rows, at least one and at most `limit`; None at the end."""
        block = self._rest
        if block is None:
            if self.exact:
                return self._next(limit)
            self._before = self._state()
            self._given = 0
            block = self._next(limit)
            if block is None:
                return None
        if limit is not None and block.count > limit:
            self._given += limit
            self._rest = block.slice(limit, block.count)
            return block.slice(0, limit)
        self._rest = None
        return block

    def state(self) -> State:
        """The place of the row that the next `pull` begins with."""
        return self._state() if self._rest is None else plus(self._before, self._given)

    def advance(self, rows: int) -> int:
        """Goes on by that many rows without giving them; returns how many there were."""
        done = 0
        if self._rest is not None:
            done = min(rows, self._rest.count)
            self._given += done
            self._rest = (
                self._rest.slice(done, self._rest.count) if done < self._rest.count else None
            )
        return done + self._advance(rows - done) if done < rows else done

    def close(self) -> None:
        """Ends what it holds open; may be called twice."""


class Reader:
    """A flow read ahead by rows: how many are there, and then so many of them."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._held: list[tuple[State, Block]] = []
        self._offset = 0
        self._available = 0
        self.ended = False

    def ensure(self, rows: int) -> int:
        """Reads until `rows` are at hand or there are no more; returns how many are."""
        while self._available < rows and not self.ended:
            before = self.flow.state()
            block = self.flow.pull(rows - self._available)
            if block is None:
                self.ended = True
            else:
                self._held.append((before, block))
                self._available += block.count
        return self._available

    def take(self, rows: int) -> list[Block]:
        """The next `rows` rows, which must be at hand."""
        taken: list[Block] = []
        self._available -= rows
        while rows:
            block = self._held[0][1]
            stop = min(self._offset + rows, block.count)
            taken.append(block.slice(self._offset, stop))
            rows -= stop - self._offset
            if stop == block.count:
                self._held.pop(0)
                self._offset = 0
            else:
                self._offset = stop
        return taken

    def block(self, rows: int) -> Block:
        """As `take`, as one block."""
        return join(self.take(rows))

    def advance(self, rows: int) -> int:
        """Goes on by that many rows; returns how many there were."""
        ready = min(rows, self._available)
        if ready:
            self.take(ready)
        if ready < rows and not self.ended:
            return ready + self.flow.advance(rows - ready)
        return ready

    def state(self) -> State:
        """The place of the next row that `take` would give."""
        if self._held:
            return plus(self._held[0][0], self._offset)
        return self.flow.state()

    def close(self) -> None:
        """Closes the flow."""
        self._held.clear()
        self._available = self._offset = 0
        self.flow.close()
