"""`take`, `skip`, `repeat` and `shard`: how many rows, how often, which part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from provender.data.stream.block import Block
from provender.data.stream.flow import Flow, State
from provender.data.stream.node import Node, Run, Unary, start


@dataclass(frozen=True, eq=False)
class _Fixed(Unary):
    """Rows chosen by their place: the order of shards is fixed, and there is one part."""

    count: int = 0

    def parameters(self) -> Any:
        return self.count

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


@dataclass(frozen=True, eq=False)
class Take(_Fixed):
    """The first rows."""

    name: ClassVar[str] = "take"

    def rows(self) -> int | None:
        rows = self.child.rows()
        return None if rows is None else min(rows, self.count)

    def open(self, run: Run, state: State) -> Flow:
        left = self.count if state is None else int(state["left"])
        return TakeFlow(start(self.child, run, None if state is None else state["up"]), left)


class TakeFlow(Flow):
    """Running `Take`; its state is how many rows are left, and the place below."""

    exact = True

    def __init__(self, child: Flow, left: int) -> None:
        self._child = child
        self._left = left

    def _next(self, limit: int | None) -> Block | None:
        most = self._left if limit is None else min(limit, self._left)
        block = self._child.pull(most) if most else None
        if block is not None:
            self._left -= block.count
            if not self._left:
                self._child.close()
        return block

    def _advance(self, rows: int) -> int:
        done = self._child.advance(min(rows, self._left))
        self._left -= done
        return done

    def _state(self) -> State:
        return {"left": self._left, "up": self._child.state()}

    def close(self) -> None:
        self._child.close()


@dataclass(frozen=True, eq=False)
class Skip(_Fixed):
    """All but the first rows. Its flow is that of its child, begun further on."""

    name: ClassVar[str] = "skip"

    def rows(self) -> int | None:
        rows = self.child.rows()
        return None if rows is None else max(rows - self.count, 0)

    def open(self, run: Run, state: State) -> Flow:
        flow = start(self.child, run, state)
        if state is None:
            flow.advance(self.count)
        return flow


@dataclass(frozen=True, eq=False)
class Repeat(Unary):
    """The rows several times over; without a number of times, for ever."""

    name: ClassVar[str] = "repeat"

    times: int | None = None

    def parameters(self) -> Any:
        return self.times

    def rows(self) -> int | None:
        rows = self.child.rows()
        return None if rows is None or self.times is None else rows * max(self.times, 0)

    def open(self, run: Run, state: State) -> Flow:
        return RepeatFlow(self, run, state)


class RepeatFlow(Flow):
    """Running `Repeat`; its state is how often it went through, and the place below."""

    exact = True

    def __init__(self, node: Repeat, run: Run, state: State) -> None:
        self._node = node
        self._run = run
        self._done = 0 if state is None else int(state["pass"])
        below = None if state is None else state["up"]
        self._child = start(node.child, run.within(self._done), below)
        self._some = state is not None

    @property
    def _over(self) -> bool:
        return self._node.times is not None and self._done >= self._node.times

    def _again(self) -> bool:
        """Starts the next pass; not after one that had no rows at all, which would never end."""
        self._child.close()
        if not self._some:
            return False
        self._done += 1
        self._some = False
        if not self._over:
            self._child = start(self._node.child, self._run.within(self._done))
        return not self._over

    def _next(self, limit: int | None) -> Block | None:
        while not self._over:
            block = self._child.pull(limit)
            if block is not None:
                self._some = True
                return block
            if not self._again():
                break
        return None

    def _advance(self, rows: int) -> int:
        done = 0
        while done < rows and not self._over:
            step = self._child.advance(rows - done)
            self._some = self._some or step > 0
            done += step
            if done < rows and not self._again():
                break
        return done

    def _state(self) -> State:
        return {"pass": self._done, "up": self._child.state()}

    def close(self) -> None:
        self._child.close()


@dataclass(frozen=True, eq=False)
class Shard(Unary):
    """One of several shares of the shards (`provender.data.stream.split` divides)."""

    name: ClassVar[str] = "shard"

    count: int = 1
    index: int = 0
    contiguous: bool = True

    def parameters(self) -> Any:
        return (self.count, self.index, self.contiguous)

    def open(self, run: Run, state: State) -> Flow:
        raise AssertionError("shard is divided before the stream starts")
