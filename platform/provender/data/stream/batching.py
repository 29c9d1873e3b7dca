"""`batch` and `unbatch`: several rows as one row of lists, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from provender.data.errors import ColumnLengthError, TransformError, unknown_column
from provender.data.stream.block import Block, join
from provender.data.stream.columns import with_features
from provender.data.stream.flow import Flow, Reader, State, plus
from provender.data.stream.formats import PLAIN, Format, Shaper
from provender.data.stream.node import Node, Run, Unary, start

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.features import Features

_AT_ONCE = 4096
"""Rows put together at a time, in batches that are made at once."""
_FIRST = 8


@dataclass(frozen=True, eq=False)
class _Lists(Unary):
    """Base: rows that hold lists of the values below."""

    def features(self) -> Features | None:
        from provender.data.features import List

        features = self.child.features()
        if features is None:
            return None
        return type(features)({name: List(feature) for name, feature in features.items()})

    def column_names(self) -> list[str] | None:
        return self.child.column_names()


@dataclass(frozen=True, eq=False)
class Batch(_Lists):
    """Rows of lists, each of `size` rows."""

    name: ClassVar[str] = "batch"

    size: int = 1
    drop_last: bool = False
    format: Format = PLAIN

    def parameters(self) -> Any:
        return (self.size, self.drop_last, self.format.type)

    def rows(self) -> int | None:
        rows = self.child.rows()
        if rows is None:
            return None
        return rows // self.size if self.drop_last else -(-rows // self.size)

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        return self._shared(count, index, pad)

    def open(self, run: Run, state: State) -> Flow:
        return BatchFlow(self, start(self.child, run, None if state is None else state["up"]))


class BatchFlow(Flow):
    """Running `Batch`; its state is the place below."""

    exact = True

    def __init__(self, node: Batch, child: Flow) -> None:
        self._node = node
        self._reader = Reader(child)
        self._shaper = Shaper(node.format)

    def _next(self, limit: int | None) -> Block | None:
        size = self._node.size
        most = max(1, _AT_ONCE // size)
        wanted = size * (most if limit is None else min(limit, most))
        have = min(self._reader.ensure(wanted), wanted)
        if not have:
            return None
        block = self._reader.block(have)
        if self._node.drop_last and have % size:
            have -= have % size
            if not have:
                return None
            block = block.slice(0, have)
        if block.table is not None:
            bounds = [*range(0, have, size), have]
            return Block(table=batched_table(block.table, bounds))
        rows = []
        for begin in range(0, have, size):
            part = block.slice(begin, begin + size)
            rows.append(self._shaper.batch(part))
        return Block(rows=rows)

    def _advance(self, rows: int) -> int:
        size = self._node.size
        done = self._reader.advance(rows * size)
        return done // size if self._node.drop_last else -(-done // size)

    def _state(self) -> State:
        return {"up": self._reader.state()}

    def close(self) -> None:
        self._reader.close()


@dataclass(frozen=True, eq=False)
class BatchBy(_Lists):
    """Rows of lists, each of the rows in a row that have the same values in some columns.

    Attributes:
        columns: these columns.
        ahead: how many rows are compared at a time, at most.
    """

    name: ClassVar[str] = "batch by column"

    columns: tuple[str, ...] = ()
    ahead: int = 1000
    format: Format = PLAIN

    def parameters(self) -> Any:
        return (self.columns, self.format.type)

    def open(self, run: Run, state: State) -> Flow:
        return BatchByFlow(self, start(self.child, run, None if state is None else state["up"]))


class BatchByFlow(Flow):
    """Running `BatchBy`; its state is the place below of the first row not given in a batch."""

    def __init__(self, node: BatchBy, child: Flow) -> None:
        self._node = node
        self._reader = Reader(child)
        self._shaper = Shaper(node.format)
        self._held: list[Block] = []
        self._begin: State = None
        self._last: tuple[Any, ...] | None = None
        self._ahead = min(_FIRST, node.ahead)

    def _next(self, limit: int | None) -> Block | None:
        del limit
        while have := min(self._reader.ensure(self._ahead), self._ahead):
            before = self._reader.state()
            block = self._reader.block(have)
            self._ahead = min(2 * self._ahead, self._node.ahead)
            if not self._held:
                self._begin, self._last = before, None
            held = sum(each.count for each in self._held)
            cuts = [held + cut for cut in self._cuts(block)]
            self._held.append(block)
            if cuts:
                whole, end = join(self._held), cuts[-1]
                self._held = [whole.slice(end, whole.count)]
                self._begin = plus(self._begin, end)
                return self._batches(whole.slice(0, end), [0, *cuts])
        if not self._held:
            return None
        whole, self._held = join(self._held), []
        return self._batches(whole, [0, whole.count])

    def _cuts(self, block: Block) -> list[int]:
        """The rows of a block that differ from the row before them."""
        names = block.names()
        for name in self._node.columns:
            if name not in names:
                raise unknown_column(name, names, "batch(by_column=)")
        if block.table is not None:
            columns = [block.table.column(name).to_pylist() for name in self._node.columns]
            keys = list(zip(*columns, strict=True))
        else:
            keys = [tuple(row[name] for name in self._node.columns) for row in block.as_rows()]
        cuts, last = [], self._last
        for at, key in enumerate(keys):
            if last is not None and not all(map(_equal, key, last)):
                cuts.append(at)
            last = key
        self._last = last
        return cuts

    def _batches(self, block: Block, bounds: list[int]) -> Block:
        if block.table is not None:
            return Block(table=batched_table(block.table, bounds))
        parts = [block.slice(begin, end) for begin, end in pairwise(bounds)]
        return Block(rows=[self._shaper.batch(part) for part in parts])

    def _state(self) -> State:
        return {"up": self._begin if self._held else self._reader.state()}

    def close(self) -> None:
        self._reader.close()


def _equal(one: Any, other: Any) -> bool:
    same = one == other
    return same if isinstance(same, bool) else bool(getattr(same, "all", lambda: same)())


def batched_table(table: pa.Table, bounds: Sequence[int]) -> pa.Table:
    """A table whose every row holds some rows of another.

    Args:
        table: the other.
        bounds: where the first begins, and where each ends.
    """
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features, List
    from provender.data.features.types import type_of

    offsets = pa.array(np.array(bounds, np.int32))
    features = Features.from_arrow_schema(table.schema)
    lists = Features({name: List(feature) for name, feature in features.items()})
    columns = []
    for name in table.column_names:
        column = table.column(name)
        values = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        made, wanted = pa.ListArray.from_arrays(offsets, values), type_of(lists[name])
        columns.append(made if made.type == wanted else made.cast(wanted))
    return with_features(pa.table(dict(zip(table.column_names, columns, strict=True))), lists)


@dataclass(frozen=True, eq=False)
class Unbatch(Unary):
    """Rows of lists as the rows they hold."""

    name: ClassVar[str] = "unbatch"

    def features(self) -> Features | None:
        from provender.data.features import LargeList, List

        features = self.child.features()
        if features is None:
            return None
        return type(features)(
            {k: v.feature if isinstance(v, List | LargeList) else v for k, v in features.items()}
        )

    def column_names(self) -> list[str] | None:
        return self.child.column_names()

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        return self._shared(count, index, pad)

    def open(self, run: Run, state: State) -> Flow:
        return UnbatchFlow(start(self.child, run, None if state is None else state["up"]))


class UnbatchFlow(Flow):
    """Running `Unbatch`; its state is the place below."""

    def __init__(self, child: Flow) -> None:
        self._child = child

    def _next(self, limit: int | None) -> Block | None:
        while (block := self._child.pull(limit)) is not None:
            made = Block(rows=[each for row in block.as_rows() for each in unbatched(row)])
            if made.count:
                return made
        return None

    def _state(self) -> State:
        return {"up": self._child.state()}

    def close(self) -> None:
        self._child.close()


def unbatched(row: Any) -> list[dict[str, Any]]:
    """The rows that a row of lists holds.

    Raises:
        TransformError: a column is not a list.
        ColumnLengthError: the lists differ in length.
    """
    lengths: dict[str, int] = {}
    for name, values in row.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise TransformError(
                f"unbatch needs a list in every column; {name!r} holds a {type(values).__name__}.",
                hint="Remove that column first, or use map(batched=True).",
                facts={"column": name},
            )
        lengths[name] = len(values)
    if len(set(lengths.values())) > 1:
        raise ColumnLengthError(
            "unbatch needs lists of one length in a row: "
            + ", ".join(f"{name} {length}" for name, length in lengths.items())
            + ".",
            hint="Remove the columns that do not belong to the batch.",
            facts={"lengths": lengths},
        )
    names = list(row)
    return [dict(zip(names, values, strict=True)) for values in zip(*row.values(), strict=True)]


def node_of(
    child: Node, size: int | None, columns: Sequence[str] | None, drop_last: bool, chosen: Format
) -> Node:
    """A `Batch` or `BatchBy` whose arguments make sense.

    Raises:
        ValueError: there is neither a size nor a column, the size is not positive, or
            `drop_last` is asked for batches by column.
    """
    if size is not None and size < 1:
        raise ValueError(f"batch_size must be at least 1, not {size}.")
    if columns is None:
        if size is None:
            raise ValueError("batch needs a batch_size or by_column.")
        return Batch(child, size, drop_last, chosen)
    if not columns:
        raise ValueError("by_column names no column.")
    if drop_last:
        raise ValueError("drop_last_batch goes with batch_size: batches by column have no size.")
    return BatchBy(child, tuple(columns), size or _AT_ONCE, chosen)
