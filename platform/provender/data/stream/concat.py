"""Streams one after another, and side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from provender.data.errors import ColumnError
from provender.data.stream.block import Block
from provender.data.stream.flow import Flow, Reader, State
from provender.data.stream.leaf import Leaf
from provender.data.stream.node import Node, Run, start

if TYPE_CHECKING:
    from provender.data.features import Features


@dataclass(frozen=True, eq=False)
class Several(Node):
    """Base of nodes with several children."""

    parts: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return self.parts

    def with_children(self, children: Sequence[Node]) -> Node:
        return replace(self, parts=tuple(children))

    def features(self) -> Features | None:
        return self.parts[0].features() if self.parts else None

    def column_names(self) -> list[str] | None:
        return self.parts[0].column_names() if self.parts else None


@dataclass(frozen=True, eq=False)
class Concat(Several):
    """One stream after another."""

    name: ClassVar[str] = "concatenate"

    def rows(self) -> int | None:
        counts = [each.rows() for each in self.parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def num_parts(self) -> int:
        return sum(each.num_parts() for each in self.parts)

    def _places(self) -> list[tuple[int, int]]:
        return [
            (at, part) for at, each in enumerate(self.parts) for part in range(each.num_parts())
        ]

    def pick(self, parts: Sequence[int]) -> Node:
        places = self._places()
        runs: list[tuple[int, list[int]]] = []
        for part in parts:
            child, inner = places[part]
            if runs and runs[-1][0] == child:
                runs[-1][1].append(inner)
            else:
                runs.append((child, [inner]))
        return replace(self, parts=tuple(self.parts[child].pick(inner) for child, inner in runs))

    def permuted(self, key: int) -> Node:
        from provender.data.stream.draws import key_of, order_of

        shuffled = [each.permuted(key_of(key, at)) for at, each in enumerate(self.parts)]
        mixed = replace(self, parts=tuple(shuffled))
        return mixed.pick(order_of(key, mixed.num_parts()).tolist())

    def mixed(self, parts: int, run: int) -> Node:
        return replace(self, parts=tuple(each.mixed(parts, run) for each in self.parts))

    def refined(self, count: int) -> Node | None:
        finer = [each.refined(count) or each for each in self.parts]
        made = replace(self, parts=tuple(finer))
        return made if made.num_parts() >= count else None

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        total = self.rows()
        leaves = [each for each in self.parts if isinstance(each, Leaf)]
        if total is None or pad or len(leaves) < len(self.parts):
            return None
        start_, stop = total * index // count, total * (index + 1) // count
        kept: list[Node] = []
        at = 0
        for each in leaves:
            rows = each.rows() or 0
            low, high = max(start_ - at, 0), min(stop - at, rows)
            share = each.sliced(low, high) if low < high else None
            if share is not None:
                kept.append(share)
            at += rows
        return replace(self, parts=tuple(kept))

    def open(self, run: Run, state: State) -> Flow:
        return ConcatFlow(self, run, state)


class ConcatFlow(Flow):
    """Running `Concat`; its state is which stream, and the place in it."""

    exact = True

    def __init__(self, node: Concat, run: Run, state: State) -> None:
        self._node = node
        self._run = run
        self._index = 0 if state is None else int(state["k"])
        self._child: Flow | None = None
        if state is not None and "up" in state:
            self._child = start(node.parts[self._index], run.within(self._index), state["up"])

    def _current(self) -> Flow | None:
        if self._child is None and self._index < len(self._node.parts):
            self._child = start(self._node.parts[self._index], self._run.within(self._index))
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            self._child.close()
        self._child = None
        self._index += 1

    def _next(self, limit: int | None) -> Block | None:
        while (child := self._current()) is not None:
            block = child.pull(limit)
            if block is not None:
                block.numbers = None
                return block
            self._end()
        return None

    def _advance(self, rows: int) -> int:
        done = 0
        while done < rows and (child := self._current()) is not None:
            done += child.advance(rows - done)
            if done < rows:
                self._end()
        return done

    def _state(self) -> State:
        if self._child is None:
            return {"k": self._index}
        return {"k": self._index, "up": self._child.state()}

    def close(self) -> None:
        if self._child is not None:
            self._child.close()


@dataclass(frozen=True, eq=False)
class Beside(Several):
    """Streams side by side: the n-th rows of all of them as one row; ends with the shortest."""

    name: ClassVar[str] = "concatenate columns"

    def features(self) -> Features | None:
        from provender.data.features import Features

        made: dict[str, Any] = {}
        for each in self.parts:
            features = each.features()
            if features is None:
                return None
            _refuse_twice(made, list(features))
            made.update(features)
        return Features(made)

    def column_names(self) -> list[str] | None:
        names = [each.column_names() for each in self.parts]
        known = [name for name in names if name is not None]
        return [n for name in known for n in name] if len(known) == len(names) else None

    def rows(self) -> int | None:
        counts = [each.rows() for each in self.parts]
        known = [count for count in counts if count is not None]
        return min(known, default=None) if len(known) == len(counts) else None

    def open(self, run: Run, state: State) -> Flow:
        states = [None] * len(self.parts) if state is None else state["up"]
        flows = [start(each, run, place) for each, place in zip(self.parts, states, strict=True)]
        return BesideFlow(flows)


class BesideFlow(Flow):
    """Running `Beside`; its state is the places in all of them."""

    exact = True

    def __init__(self, flows: list[Flow]) -> None:
        self._readers = [Reader(flow) for flow in flows]

    def _next(self, limit: int | None) -> Block | None:
        wanted = 1000 if limit is None else min(limit, 1000)
        have = min((min(reader.ensure(wanted), wanted) for reader in self._readers), default=0)
        if not have:
            return None
        blocks = [reader.block(have) for reader in self._readers]
        seen: dict[str, Any] = {}
        for block in blocks:
            _refuse_twice(seen, block.names())
            seen.update(dict.fromkeys(block.names()))
        lists = zip(*(block.as_rows() for block in blocks), strict=True)
        return Block(rows=[{k: v for row in rows for k, v in row.items()} for rows in lists])

    def _advance(self, rows: int) -> int:
        return min((reader.advance(rows) for reader in self._readers), default=0)

    def _state(self) -> State:
        return {"up": [reader.state() for reader in self._readers]}

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


def _refuse_twice(have: Any, names: Sequence[str]) -> None:
    for name in names:
        if name in have:
            raise ColumnError(
                f"Two of the streams have a column {name!r}.",
                hint="Rename or remove one of them before putting them side by side.",
            )
