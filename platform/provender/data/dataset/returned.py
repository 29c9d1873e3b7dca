"""The columns of a result: those of the input that stay, then what the function returned.

The rules are those of HF Datasets. A function *updates* its row or batch: columns that it does not
return stay, those it returns replace or are added, and ``remove_columns`` are left out unless it
returns them anew. A table or DataFrame that it returns is the whole result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.formatting import WHOLE
from provender.data.dataset.views import Piece, View
from provender.data.errors import ColumnLengthError, ReturnError, TransformError

if TYPE_CHECKING:
    from provender.data.dataset.calling import Call


def batch_columns(
    call: Call, out: Any, table: pa.Table, piece: Piece | None, view: Any
) -> dict[str, Any]:
    """Columns after a batched function.

    Args:
        call: what was called.
        out: what it returned.
        table: the batch; all columns.
        piece, view: what the function was given, where that was a view.

    Raises:
        ReturnError: it returned something else than columns.
    """
    whole = as_table(out)
    if whole is not None:
        return _columns_of(whole)
    if not isinstance(out, Mapping):
        raise _not_columns(call, out)
    if call.format.type in WHOLE:
        return dict(out)
    removed = set(call.remove_columns)
    base: dict[str, Any] = dict(zip(table.column_names, table.itercolumns(), strict=True))
    returned: Mapping[str, Any] = out
    if piece is not None:
        base.update(piece.changed_lists())
        for seen in (view, out) if type(out) is View and out is not view else (view,):
            base.update(seen.own())
            for name in seen.gone():
                base.pop(name, None)
        if type(out) is View:
            returned = {name: value for name, value in out.own().items() if name not in removed}
    kept = {name: value for name, value in base.items() if name not in removed}
    columns = {**kept, **returned}
    _check_lengths(call, columns, kept, returned)
    return columns


def _check_lengths(
    call: Call, columns: Mapping[str, Any], kept: Mapping[str, Any], returned: Mapping[str, Any]
) -> None:
    """The commonest mistake, told so that it can be mended."""
    stay = [name for name in kept if name not in returned]
    if not stay or not returned:
        return
    rows = len(kept[stay[0]])
    for name, values in returned.items():
        if hasattr(values, "__len__") and len(values) != rows and not isinstance(values, str):
            shown = ", ".join(map(repr, stay[:5])) + (", ..." if len(stay) > 5 else "")
            raise ColumnLengthError(
                f"{call.name} returned {len(values):,} values in {name!r} for a batch of "
                f"{rows:,} rows, but {shown} stay as they are.",
                hint="Return as many values as there are rows, or leave the columns of the input "
                "out: remove_columns=ds.column_names.",
                facts={
                    "lengths": {key: len(columns[key]) for key in (*stay[:5], name)},
                    "column": name,
                },
            )


def row_columns(
    call: Call,
    outs: Sequence[Any],
    table: pa.Table,
    piece: Piece | None,
    views: Sequence[Any],
    first: int,
) -> dict[str, Any]:
    """Columns after a function that took rows one by one.

    Args:
        call: what was called.
        outs: what it returned for each row.
        table: the rows; all columns.
        piece, views: what the function was given, where those were views.
        first: number of the first row.

    Raises:
        ReturnError: it returned something else than a dict.
        TransformError: it returned a table of other than one row.
    """
    if not isinstance(outs[0], Mapping) and as_table(outs[0]) is not None:
        return _columns_of(_joined(call, outs, first))
    for at, out in enumerate(outs):
        # Asking for the class first: the abstract check costs more than all else here.
        if out.__class__ is not dict and not isinstance(out, Mapping):
            raise _not_columns(call, out, first + at)
    if call.format.type in WHOLE:
        return _gathered(outs)
    removed = set(call.remove_columns)
    kept: dict[str, Any] = {
        name: column
        for name, column in zip(table.column_names, table.itercolumns(), strict=True)
        if name not in removed
    }
    if piece is None:
        return {**kept, **_gathered(outs)}
    changed = piece.changed_lists()
    kept.update({name: value for name, value in changed.items() if name in kept})
    if piece.noted or any(type(out) is View for out in outs):
        return _merged(kept, outs, piece, views, removed)
    return {**kept, **_gathered(outs)}


def _gathered(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns; None where a row has no such key."""
    names = list(rows[0])
    count = len(names)
    columns: dict[str, list[Any]] = {}
    try:
        for name in names:
            columns[name] = [row[name] for row in rows]
    except KeyError:
        count = -1
    if any(len(row) != count for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: [row.get(name) for row in rows] for name in names}
    return columns


def _merged(
    kept: dict[str, Any],
    outs: Sequence[Any],
    piece: Piece,
    views: Sequence[View],
    removed: set[str],
) -> dict[str, Any]:
    """As `row_columns`, where rows were changed in place or given back."""
    rows: list[dict[str, Any]] = []
    gone: list[set[str]] = []
    for out, view in zip(outs, views, strict=True):
        own = {name: value for name, value in view.own().items() if name not in removed}
        lost = set(view.gone())
        if type(out) is View:
            if out is not view:
                own.update((n, v) for n, v in out.own().items() if n not in removed)
                lost = (lost | set(out.gone())) - set(own)
        else:
            own.update(out)
            lost -= set(out)
        rows.append(own)
        gone.append(lost)
    everywhere = set.intersection(*gone) if gone else set()
    somewhere = set().union(*gone) - everywhere if any(gone) else set()
    columns = {name: value for name, value in kept.items() if name not in everywhere}
    names = dict.fromkeys(name for row in rows for name in row)
    for name in [*names, *(each for each in somewhere if each not in names)]:
        stays = name in kept and name not in removed
        columns[name] = [
            row[name]
            if name in row
            else (piece.value(name, at) if stays and name not in gone[at] else None)
            for at, row in enumerate(rows)
        ]
    return columns


def as_table(out: Any) -> pa.Table | None:
    """The Arrow table of a table, record batch or DataFrame; None for anything else."""
    if isinstance(out, pa.Table):
        return out
    if isinstance(out, pa.RecordBatch):
        return pa.Table.from_batches([out])
    kind = type(out)
    if kind.__name__ == "DataFrame":
        if kind.__module__.split(".")[0] == "pandas":
            return pa.Table.from_pandas(out, preserve_index=False)
        if kind.__module__.split(".")[0] == "polars":
            table: pa.Table = out.to_arrow()
            return table
    return None


def _joined(call: Call, outs: Sequence[Any], first: int) -> pa.Table:
    tables = []
    for at, out in enumerate(outs):
        table = as_table(out)
        if table is None:
            raise _not_columns(call, out, first + at)
        if table.num_rows != 1:
            raise TransformError(
                f"{call.name} returned a table of {table.num_rows:,} rows for row {first + at}.",
                hint="Return one row, or use batched=True to return more or fewer.",
                facts={"row": first + at},
            )
        tables.append(table)
    return pa.concat_tables(tables, promote_options="default")


def _columns_of(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.column_names, table.itercolumns(), strict=True))


def _not_columns(call: Call, out: Any, row: int | None = None) -> ReturnError:
    shown = repr(out)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    at = "" if row is None else f" for row {row}"
    wanted = "{'column': [value, ...]}" if call.batched else "{'column': value}"
    return ReturnError(
        f"{call.name} returned {shown} ({type(out).__name__}){at}, not a dict of columns.",
        hint=f"Return a dict such as {wanted}, or None if it is called only for what it does.",
        facts={"row": row, "found": type(out).__name__},
    )
