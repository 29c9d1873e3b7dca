"""`batch` and `unbatch`: several rows as one row of lists, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from provender.data.errors import ColumnLengthError, TransformError
from provender.data.stream.block import Block
from provender.data.stream.columns import with_features
from provender.data.stream.flow import Flow, Reader, State
from provender.data.stream.formats import PLAIN, Format, Shaper
from provender.data.stream.node import Node, Run, Unary, start

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.features import Features

_AT_ONCE = 4096
"""Rows put together at a time, in batches that are made at once."""


@dataclass(frozen=True, eq=False)
class Batch(Unary):
    """Rows of lists, each of `size` rows."""

    name: ClassVar[str] = "batch"

    size: int = 1
    drop_last: bool = False
    format: Format = PLAIN

    def parameters(self) -> Any:
        return (self.size, self.drop_last, self.format.type)

    def features(self) -> Features | None:
        from provender.data.features import List

        features = self.child.features()
        if features is None:
            return None
        return type(features)({name: List(feature) for name, feature in features.items()})

    def column_names(self) -> list[str] | None:
        return self.child.column_names()

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
            return Block(table=batched_table(block.table, size))
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


def batched_table(table: pa.Table, size: int) -> pa.Table:
    """A table whose every row holds `size` rows of another; the last may hold fewer."""
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features, List
    from provender.data.features.types import type_of

    bounds = [*range(0, table.num_rows, size), table.num_rows]
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


def node_of(child: Node, size: int, drop_last: bool, chosen: Format) -> Batch:
    """A `Batch` whose arguments make sense.

    Raises:
        ValueError: the size is not positive.
    """
    if size < 1:
        raise ValueError(f"batch_size must be at least 1, not {size}.")
    return Batch(child, size, drop_last, chosen)
