"""A function applied to runs of rows: arguments in, tables out, errors with row numbers."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.formatting import Format, make_formatter
from provender.data.dataset.shaping import Shaper
from provender.data.dataset.views import Piece
from provender.data.errors import ColumnError, TransformError
from provender.errors import ProvenderError

if TYPE_CHECKING:
    from provender.data.features import Features

PIECE_ROWS = 1000
"""Rows that are converted to Arrow together where the function takes one row at a time."""
SLOW_SECONDS = 3.0
"""A piece ends early once it took so long, so that slow work is committed often."""
MOST_AT_ONCE = 1000
"""Calls of an asynchronous function that run at the same time."""


@dataclass(frozen=True)
class Call:
    """A function and how it is to be called.

    Attributes:
        function: the user's.
        kind: ``map``, ``filter``, or ``load`` (see `shards`).
        name: what to call it in messages.
        batched: whether it takes batches.
        batch_size: rows of a batch; at least 1.
        with_indices, with_rank: whether it takes row numbers, and the worker's number.
        input_columns: columns that it takes as arguments of their own, or None.
        remove_columns: input columns that the result does not keep.
        fn_kwargs: more arguments.
        format: what the rows look like to it.
        piece_rows: see `PIECE_ROWS`.
    """

    function: Callable[..., Any]
    kind: str
    name: str
    batched: bool = False
    batch_size: int = PIECE_ROWS
    with_indices: bool = False
    with_rank: bool = False
    input_columns: tuple[str, ...] | None = None
    remove_columns: tuple[str, ...] = ()
    fn_kwargs: Mapping[str, Any] = field(default_factory=dict)
    format: Format = field(default_factory=Format)
    piece_rows: int = PIECE_ROWS

    @property
    def step(self) -> int:
        """Rows of a run."""
        return self.batch_size if self.batched else self.piece_rows


@dataclass(frozen=True)
class OfSplit:
    """A function that is given the name of the split behind its other arguments.

    Attributes:
        function: the user's.
        split: the name.
    """

    function: Callable[..., Any]
    split: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, self.split, **kwargs)


class Runner:
    """Calls a function on runs of rows.

    Args:
        call: what is called, and how.
        features: of the rows.
        shaper: turns what it returns into tables; not used by a filter.
        rank: number of this worker.
    """

    def __init__(
        self, call: Call, features: Features, shaper: Shaper | None, rank: int = 0
    ) -> None:
        from provender.data.features import decodes

        self._call = call
        self._features = features
        self._shaper = shaper
        self._rank = rank
        self._decoded = frozenset(name for name, each in features.items() if decodes(each))
        function = call.function
        inner = function.function if isinstance(function, OfSplit) else function
        self._is_async = inspect.iscoroutinefunction(inner)
        self._python = call.format.type is None
        self._used: set[str] = set()
        self._returns_none: bool | None = None
        columns = call.input_columns
        only = Format(call.format.type, columns, False, call.format.kwargs)
        self._formatter = make_formatter(only, features)

    def run(self, table: pa.Table, first: int) -> Iterator[tuple[int, pa.Table]]:
        """Applies the function to rows.

        Args:
            table: the rows; for a batched function a whole number of batches.
            first: number of the first row in the dataset.

        Yields:
            The number of the row after those done, and the table made from them.

        Raises:
            TransformError: the function raised, or returned what cannot be stored. What was done
                before that row was yielded before.
            ColumnError: it asked for, or gave, a column that is not there.
            FeatureTypeError: it gave another type than before.
        """
        step = self._call.step
        at = 0
        while at < table.num_rows:
            piece = table.slice(at, step)
            if self._call.batched:
                made = self._batch(piece, first + at)
                at += piece.num_rows
            else:
                made, done = yield from self._rows(piece, first + at)
                at += done
            yield first + at, made

    # --- calling ------------------------------------------------------------------------------

    def _more(self, index: Any) -> tuple[Any, ...]:
        more: tuple[Any, ...] = ()
        if self._call.with_indices:
            more += (index,)
        if self._call.with_rank:
            more += (self._rank,)
        return more

    def _batch(self, table: pa.Table, first: int) -> pa.Table:
        call = self._call
        view: Any = None
        piece: Piece | None = None
        if self._python and call.input_columns is None:
            piece = Piece(table, self._features, list(self._features), self._decoded)
            view = piece.view()
            args: tuple[Any, ...] = (view,)
        else:
            batch = self._formatter.batch(table)
            args = (batch,)
            if call.input_columns is not None:
                args = tuple(batch[name] for name in call.input_columns)
        if call.with_indices or call.with_rank:
            args += self._more(list(range(first, first + table.num_rows)))
        try:
            out = call.function(*args, **call.fn_kwargs)
            if self._is_async:
                out = _run_async([out])[0]
        except Exception as error:
            raise self._failed(error, first, table, table.num_rows) from error
        with _placed(call, first, table.num_rows):
            if call.kind == "filter":
                return self._kept(out, first, table.num_rows)
            return self._batch_table(out, table, piece, view, first)

    def _rows(
        self, table: pa.Table, first: int
    ) -> Generator[tuple[int, pa.Table], None, tuple[pa.Table, int]]:
        outs, piece, views, error = self._call_rows(table, first)
        done = len(outs)
        if error is not None and done == 0:
            raise error
        part = table if done == table.num_rows else table.slice(0, done)
        with _placed(self._call, first, done):
            if self._call.kind == "filter":
                made = self._kept(outs, first, done)
            else:
                made = self._rows_table(outs, part, piece, views, first)
        if error is not None:
            yield first + done, made
            raise error
        return made, done

    def _call_rows(
        self, table: pa.Table, first: int
    ) -> tuple[list[Any], Piece | None, list[Any], ProvenderError | None]:
        """Calls the function on each row, until it raises or becomes slow."""
        call, function, kwargs = self._call, self._call.function, self._call.fn_kwargs
        piece: Piece | None = None
        columns = call.input_columns
        if self._python and columns is None:
            piece = Piece(table, self._features, list(self._features), self._decoded)
            rows: Iterator[Any] = piece.views(self._used)
        elif self._python and columns is not None:
            batch = self._formatter.batch(table)
            rows = zip(*(batch[name] for name in columns), strict=True)
        elif columns is not None:
            rows = (tuple(row[name] for name in columns) for row in self._formatter.rows(table))
        else:
            rows = iter(self._formatter.rows(table))
        outs: list[Any] = []
        seen: list[Any] = []
        if self._is_async:
            error = self._await_rows(list(rows), first, table, outs, seen)
        else:
            add, see, clock = outs.append, seen.append, time.monotonic
            until = clock() + SLOW_SECONDS
            error = None
            plain = columns is None and not kwargs and not call.with_indices and not call.with_rank
            try:
                if plain:
                    for row in rows:
                        see(row)
                        add(function(row))
                        if clock() > until:
                            break
                else:
                    for at, row in enumerate(rows, first):
                        args = row if columns is not None else (row,)
                        see(row)
                        add(function(*args, *self._more(at), **kwargs))
                        if clock() > until:
                            break
            except Exception as caught:  # noqa: BLE001 - the user's function may raise anything
                at = len(outs)
                error = self._failed(caught, first + at, table.slice(at, 1), 1)
                error.__cause__ = caught
                del seen[at:]
        if piece is not None:
            self._used.update(piece.lists)
        return outs, piece, seen, error

    def _await_rows(
        self, rows: list[Any], first: int, table: pa.Table, outs: list[Any], seen: list[Any]
    ) -> ProvenderError | None:
        call = self._call
        calls = [
            call.function(
                *(row if call.input_columns is not None else (row,)),
                *self._more(first + at),
                **call.fn_kwargs,
            )
            for at, row in enumerate(rows)
        ]
        for at, out in enumerate(_run_async(calls, keep=True)):
            if isinstance(out, BaseException):
                if not isinstance(out, Exception):
                    raise out
                error = self._failed(out, first + at, table.slice(at, 1), 1)
                error.__cause__ = out
                return error
            outs.append(out)
            seen.append(rows[at])
        return None

    def _failed(self, error: Exception, first: int, table: pa.Table, count: int) -> ProvenderError:
        """The error for a function that raised."""
        call = self._call
        where = f"row {first}" if count == 1 else f"rows {first} to {first + count - 1}"
        if isinstance(error, ColumnError):
            return ColumnError(
                error.message,
                where=f"{call.kind}({call.name}), {where}",
                hint=error.hint,
                facts={**error.facts, "row": first},
            )
        shown = self._shown(table) if count == 1 else ""
        said = str(error).split("\n")[0]
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
        message = f"{call.name} raised {said} at {where}"
        return TransformError(
            message + (f": {shown}" if shown else "."),
            where=f"{call.kind}({call.name}), {where}",
            hint="What was computed before is kept: if the cause lies outside the function, run it "
            "again to go on from there.",
            facts={"row": first, "rows": count, "example": shown, "error": type(error).__name__},
        )

    def _shown(self, table: pa.Table) -> str:
        try:
            row = table.slice(0, 1).to_pylist()[0]
        except Exception:  # noqa: BLE001 - a row that cannot be shown must not hide the error
            return ""
        parts = []
        for name, value in list(row.items())[:8]:
            text = repr(value)
            parts.append(f"{name!r}: {text if len(text) <= 60 else text[:57] + '...'}")
        more = ", ..." if len(row) > 8 else ""
        return "{" + ", ".join(parts) + more + "}"

    # --- results ------------------------------------------------------------------------------

    def _kept(self, out: Any, first: int, count: int) -> pa.Table:
        """The numbers of the rows that a filter keeps."""
        import numpy as np

        if isinstance(out, pa.Array | pa.ChunkedArray):
            out = out.to_pylist()
        if not hasattr(out, "__len__") or isinstance(out, str | bytes | Mapping):
            raise TransformError(
                f"{self._call.name} returned a {type(out).__name__} for a batch, "
                "not a list of True and False.",
                hint="Return one truth value for each row of the batch.",
            )
        if len(out) != count:
            raise TransformError(
                f"{self._call.name} returned {len(out):,} truth values for {count:,} rows.",
                hint="Return one truth value for each row of the batch.",
            )
        mask = np.fromiter(map(bool, out), np.bool_, count)
        numbers = np.flatnonzero(mask).astype(np.uint64) + np.uint64(first)
        return pa.table({"indices": pa.array(numbers, pa.uint64())})

    def _note_none(self, is_none: bool, first: int) -> None:
        if self._returns_none is None:
            self._returns_none = is_none
        elif self._returns_none != is_none:
            now, before = ("None", "columns") if is_none else ("columns", "None")
            raise TransformError(
                f"{self._call.name} returned {now} for row {first}, {before} for rows before.",
                where=f"{self._call.kind}({self._call.name}), row {first}",
                hint="Return a dict for every row, or None for every row.",
                facts={"row": first},
            )

    def _batch_table(
        self, out: Any, table: pa.Table, piece: Piece | None, view: Any, first: int
    ) -> pa.Table:
        from provender.data.dataset.returned import batch_columns

        self._note_none(out is None, first)
        if out is None:
            return table.slice(0, 0)
        assert self._shaper is not None
        columns = batch_columns(self._call, out, table, piece, view)
        return self._shaper.table(columns, first)

    def _rows_table(
        self, outs: list[Any], table: pa.Table, piece: Piece | None, views: list[Any], first: int
    ) -> pa.Table:
        from provender.data.dataset.returned import row_columns

        if self._returns_none is None:
            self._note_none(outs[0] is None, first)
        for at, out in enumerate(outs):
            if (out is None) is not self._returns_none:
                self._note_none(out is None, first + at)
        if self._returns_none:
            return table.slice(0, 0)
        assert self._shaper is not None
        columns = row_columns(self._call, outs, table, piece, views, first)

        def place(name: Any) -> int:
            given = (
                at
                for at, out in enumerate(outs)
                if isinstance(out, Mapping)
                and (name in out or (piece is not None and name in views[at]))
            )
            return next(given, 0)

        return self._shaper.table(columns, first, place)

    def expect_none(self, is_none: bool) -> None:
        """Says what the function gave elsewhere: None (True), or columns."""
        self._returns_none = is_none

    @property
    def returns_none(self) -> bool:
        """Whether the function gave None so far, so that the rows stay as they are."""
        return self._returns_none is True


class _placed:  # noqa: N801 - reads as a verb in a with statement
    """Adds to errors of storing which function and rows they came from."""

    def __init__(self, call: Call, first: int, count: int) -> None:
        self._call = call
        self._first = first
        self._count = count

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, ProvenderError) and not error.facts.get("placed"):
            call, last = self._call, self._first + max(self._count - 1, 0)
            place = f"{call.kind}({call.name}), rows {self._first} to {last}"
            error.where = f"{place}, {error.where}" if error.where else place
            error.facts["placed"] = place


def _run_async(calls: Sequence[Any], keep: bool = False) -> list[Any]:
    """What coroutines return, up to a thousand running at once."""
    import asyncio

    async def gathered() -> list[Any]:
        gate = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(call: Any) -> Any:
            async with gate:
                return await call

        return await asyncio.gather(*map(one, calls), return_exceptions=keep)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(gathered())
    # Inside a running loop (a notebook) a loop of another thread has to do it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, gathered()).result()
