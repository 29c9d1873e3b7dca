"""`map`: a function for each row, or for each batch of rows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from provender.data.errors import ColumnError, ColumnLengthError, TransformError, unknown_column
from provender.data.stream.block import Block
from provender.data.stream.calls import Call, all_awaited, awaited, noted, wrong_return
from provender.data.stream.flow import Flow, Reader, State
from provender.data.stream.formats import Shaper
from provender.data.stream.node import Run, Unary, start
from provender.data.stream.rowwise import Broken, RowWise

if TYPE_CHECKING:
    import numpy as np

    from provender.data.features import Features

_RETURN = "Return a dict of the columns to add or change, e.g. {'text': ...}."
_RETURN_BATCH = "Return a dict of columns, e.g. {'text': [...]}, with a value for every row."


@dataclass(frozen=True, eq=False)
class MapRows(RowWise):
    """A function called for each row; what it returns is laid over the row."""

    name: ClassVar[str] = "map"
    fails: ClassVar[bool] = True

    call: Call = None  # type: ignore[assignment]
    remove: tuple[str, ...] = ()
    target: Features | None = None

    @property
    def numbers_rows(self) -> bool:
        return self.call.with_indices

    def parameters(self) -> Any:
        target = None if self.target is None else self.target.to_dict()
        return (*self.call.parameters(), tuple(sorted(self.remove)), target)

    def features(self) -> Features | None:
        return self.target

    @cached_property
    def _shaper(self) -> Shaper:
        return self.call.shaper()

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        rows = self._inputs(block)
        outputs: list[Any] = []
        try:
            simple = self.call.simple()
            if simple is not None:
                add = outputs.append
                for row in rows:
                    add(simple(row))
            else:
                for row, number in zip(rows, _numbers_of(numbers, rows), strict=True):
                    outputs.append(self.call(row, number))
        except Exception as error:  # noqa: BLE001 - the user's, raised after the rows before it
            broken: Exception | None = error
        else:
            broken = None
        outputs, failed = all_awaited(outputs)
        broken = failed or broken
        if broken is not None:
            noted(broken, "map", self.call.title, seen + len(outputs))
            rows = rows[: len(outputs)]
            raise Broken(
                broken, self._finished(self._laid_over(rows, outputs, seen), seen), len(outputs)
            ) from None
        return self._finished(self._laid_over(rows, outputs, seen), seen)

    def _inputs(self, block: Block) -> list[Any]:
        if self._shaper.is_table and block.count:
            raise TransformError(
                f"map of single rows does not work in the format {self.call.format.type!r}.",
                hint="Use map(..., batched=True), or with_format(None) before it.",
            )
        return self._shaper.rows(block)

    def _laid_over(self, rows: list[Any], outputs: list[Any], seen: int) -> list[Any]:
        """Each row with what was returned for it; checks only once something fails."""
        try:
            if not self.remove:
                return [
                    output if output is row else {**row, **output}
                    for row, output in zip(rows, outputs, strict=True)
                ]
            gone = frozenset(self.remove)
            if rows and not gone <= rows[0].keys():
                missing = next(name for name in self.remove if name not in rows[0])
                raise unknown_column(missing, rows[0], "remove_columns")
            kept = [name for name in rows[0] if name not in gone] if rows else []
            if not kept:
                return [
                    {k: v for k, v in output.items() if k not in gone}
                    if output is row
                    else {**output}
                    for row, output in zip(rows, outputs, strict=True)
                ]
            return [_without(row, output, kept) for row, output in zip(rows, outputs, strict=True)]
        except (TypeError, AttributeError):
            for at, output in enumerate(outputs):
                if not isinstance(output, Mapping):
                    raise wrong_return("map", self.call.title, seen + at, output, _RETURN) from None
            raise

    def _finished(self, rows: list[Any], seen: int) -> Block:
        if self.target is None:
            return Block(rows=rows)
        from provender.data.features import table_from_rows

        names = list(self.target)
        known = set(names)
        for at, row in enumerate(rows, seen):
            if not known.issuperset(row):
                raise _unnamed(row, names, at)
        rows = [{name: row.get(name) for name in names} for row in rows]
        return Block(table=table_from_rows(rows, self.target, first_row=seen, coerce=True))


def _unnamed(row: Mapping[str, Any], named: list[str], at: int) -> ColumnError:
    """The error for a column that ``features=`` does not name."""
    other = next(name for name in row if name not in named)
    near = difflib.get_close_matches(str(other), named, 1)
    return ColumnError(
        f"Row {at} has a column {other!r} that features= does not name.",
        where="map",
        hint=(f"Did you mean {near[0]!r}? " if near else "")
        + "Name it there, or leave it out with remove_columns=.",
        facts={"row": at, "column": other, "columns": named},
    )


def _without(row: Any, output: Any, kept: list[str]) -> dict[str, Any]:
    made = {name: row[name] for name in kept}
    if output is row:
        return made
    made.update(output)
    return made


def _numbers_of(numbers: np.ndarray | None, rows: list[Any]) -> list[int] | list[None]:
    return [None] * len(rows) if numbers is None else numbers.tolist()


@dataclass(frozen=True, eq=False)
class MapBatches(Unary):
    """A function called for each batch; it may return another number of rows."""

    name: ClassVar[str] = "map batched"

    call: Call = None  # type: ignore[assignment]
    batch_size: int | None = 1000
    drop_last: bool = False
    remove: tuple[str, ...] = ()
    target: Features | None = None
    from_blocks: bool = False

    def parameters(self) -> Any:
        target = None if self.target is None else self.target.to_dict()
        last = (self.batch_size, self.drop_last, tuple(sorted(self.remove)), target)
        return (*self.call.parameters(), *last)

    def features(self) -> Features | None:
        return self.target

    def num_parts(self) -> int:
        return self.child.num_parts() if not self.call.with_indices else 1

    def pick(self, parts: Any) -> Any:
        return super().pick(parts) if not self.call.with_indices else super(Unary, self).pick(parts)

    def permuted(self, key: int) -> Any:
        return super().permuted(key) if not self.call.with_indices else self

    def mixed(self, parts: int, run: int) -> Any:
        return super().mixed(parts, run) if not self.call.with_indices else self

    def balanced(self, count: int, index: int, pad: bool = False) -> Any:
        return None if self.call.with_indices else self._shared(count, index, pad)

    def refined(self, count: int) -> Any:
        return super().refined(count) if not self.call.with_indices else None

    def open(self, run: Run, state: State) -> Flow:
        at = 0 if state is None else int(state["i"])
        return MapBatchesFlow(
            self, start(self.child, run, None if state is None else state["up"]), at
        )


class MapBatchesFlow(Flow):
    """Running `MapBatches`; its state is how many rows went in, and the place below."""

    def __init__(self, node: MapBatches, child: Flow, at: int) -> None:
        self._node = node
        self._reader = Reader(child)
        self._at = at
        self._shaper = node.call.shaper()

    def _next(self, limit: int | None) -> Block | None:
        node = self._node
        whole = node.batch_size is None or node.batch_size <= 0
        size = 1 << 62 if whole else int(node.batch_size or 0)
        self._failed = None
        while True:
            have = min(self._reader.ensure(size), size)
            if not have or (have < size and node.drop_last and not whole):
                return None
            before = self._reader.state()
            block = self._reader.block(have)
            first, self._at = self._at, self._at + have
            try:
                made = self._made(block, first)
            except BaseException:
                # So that a state taken now comes back to this batch.
                self._failed = {"i": first, "up": before}
                raise
            if made.count:
                return made

    _failed: State = None

    def _made(self, block: Block, first: int) -> Block:
        node = self._node
        given = self._shaper.batch(block, first)
        indices: list[int] | None = None
        if node.call.with_indices:
            indices = list(range(first, first + block.count))
            if node.from_blocks and block.numbers is not None:
                indices = block.numbers.tolist()
        try:
            output = awaited(node.call(given, indices))
        except Exception as error:
            noted(error, "map", node.call.title, first, block.count)
            raise
        return _batch_result(node, given, output, block, first)

    def _state(self) -> State:
        if self._failed is not None:
            return self._failed
        return {"i": self._at, "up": self._reader.state()}

    def close(self) -> None:
        self._reader.close()


def _batch_result(node: MapBatches, given: Any, output: Any, block: Block, first: int) -> Block:
    import pyarrow as pa

    title = node.call.title
    if type(output).__module__.split(".")[0] in ("pandas", "polars"):
        from provender.data.features import table_from_batch

        output = output.to_arrow() if hasattr(output, "to_arrow") else table_from_batch(output)
    if isinstance(output, pa.Table):
        if not isinstance(given, Mapping):
            return _targeted(node, Block(table=output), first)
        output = {name: output.column(name) for name in output.column_names}
    if not isinstance(output, Mapping):
        raise wrong_return("map", title, first, output, _RETURN_BATCH)
    if not isinstance(given, Mapping):
        given = {name: block.as_table().column(name) for name in block.as_table().column_names}
    for name in node.remove:
        if name not in given:
            raise unknown_column(name, given, "remove_columns")
    gone = set(node.remove)
    if output is given:
        made = {name: values for name, values in output.items() if name not in gone}
    else:
        made = {name: values for name, values in given.items() if name not in gone}
        made.update(output)
    return _targeted(node, Block(columns=made, count=_length(made, output, title, first)), first)


def _length(made: Mapping[str, Any], output: Mapping[str, Any], title: str, first: int) -> int:
    """The one length of all columns.

    Raises:
        TransformError: a column is not a list.
        ColumnLengthError: they differ.
    """
    lengths = {}
    for name, values in made.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise TransformError(
                f"{title} returned {type(values).__name__} for the column {name!r}, not a list.",
                where=f"map, batch at row {first}",
                hint=_RETURN_BATCH,
                facts={"row": first, "column": name},
            )
        lengths[name] = len(values)
    if len(set(lengths.values())) > 1:
        new = next((lengths[name] for name in output), 0)
        off = [name for name in lengths if lengths[name] != new]
        raise ColumnLengthError(
            f"{title} made columns of different lengths: "
            + ", ".join(f"{name} {count:,}" for name, count in lengths.items())
            + ".",
            where=f"map, batch at row {first}",
            hint=f"Return all columns at one length, or add remove_columns={off!r}.",
            facts={"lengths": lengths},
        )
    return next(iter(lengths.values()), 0)


def _targeted(node: MapBatches, block: Block, first: int) -> Block:
    if node.target is None or not block.count:
        return block
    from provender.data.features import table_from_batch

    if block.table is not None:
        given = {name: block.table.column(name) for name in block.table.column_names}
    else:
        given = dict(block.columns or {})
    if not set(node.target).issuperset(given):
        raise _unnamed(given, list(node.target), first)
    columns = {name: given.get(name, [None] * block.count) for name in node.target}
    return Block(table=table_from_batch(columns, node.target, first_row=first, coerce=True))
