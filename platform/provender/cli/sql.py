"""``sql``: the catalog asked in SQL, as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli.choices import chosen
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column
from provender.cli.units import counted
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.catalog import SqlResult

_FORMATS = ("table", "csv", "json", "parquet")


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(
        app,
        "sql",
        'provender sql "SELECT * FROM v_versions"',
        'provender sql "SELECT * FROM v_stage_runs" --output stages.parquet --limit 0',
    )(sql)


def sql(
    call: Invocation,
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help="One SELECT; the database allows no other.")
    ],
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"{', '.join(_FORMATS)}; by default what --output's name says, else table.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there, not to the screen."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Rows at most; 0 for all of them.")
    ] = 1000,
    timeout: Annotated[
        int, typer.Option("--timeout", min=0, help="Give up after so many seconds; 0 for never.")
    ] = 60,
) -> None:
    """Ask the catalog in SQL, read-only. Stable views: v_versions, v_stage_runs, v_lineage ..."""
    kind = _kind(call, format, output)
    found = call.questions.sql(statement, limit=limit or None, timeout=timeout or None)
    if call.json and output is None:
        call.out.document({"rows": _objects(found), "truncated": found.truncated})
        return
    if output is not None:
        _write(Path(output).expanduser(), found, kind)
        _tell_written(call, found, output)
    elif kind == "csv":
        call.out.raw(_csv(found).removesuffix("\n"))
    elif kind == "json":
        call.out.raw(_json(found))
    else:
        columns = [Column(name) for name in found.columns]
        call.out.table(columns, [list(map(_cell, row)) for row in found.rows])
    if found.truncated:
        call.out.aside(
            f"Cut off after {counted(limit, 'row')}; --limit raises that, --limit 0 lifts it."
        )


def _kind(call: Invocation, format: str | None, output: str | None) -> str:
    if format is not None:
        kind = chosen(format, _FORMATS, "--format")
    else:
        suffix = Path(output).suffix.lstrip(".").lower() if output else "table"
        kind = {"ndjson": "json", "pq": "parquet", "txt": "table"}.get(suffix, suffix)
        if kind not in _FORMATS:
            message = f"What to write is not clear from the name {output!r}."
            hint = f"Add --format {' or --format '.join(_FORMATS[1:])}."
            raise SettingsError(message, where="--output", hint=hint)
    if kind == "parquet" and output is None:
        message = "Parquet is no text."
        raise SettingsError(message, where="--format", hint="Add --output FILE.")
    if kind == "table" and output is not None:
        message = "A table is for reading; a file of one cannot be read back."
        raise SettingsError(message, where="--output", hint="Add --format csv, json or parquet.")
    return kind


def _tell_written(call: Invocation, found: SqlResult, output: str) -> None:
    rows = len(found.rows)
    if call.json:
        call.out.document({"output": output, "rows": rows, "truncated": found.truncated})
    else:
        call.out.remark(f"{output}: {rows:,} row{'' if rows == 1 else 's'}")


def _write(path: Path, found: SqlResult, kind: str) -> None:
    """Writes beside the file and then in its place, so that nobody reads half of it."""
    part = path.with_name(f".{path.name}.part")
    try:
        if kind == "parquet":
            _parquet(part, found)
        else:
            text = _csv(found) if kind == "csv" else _json(found) + "\n"
            part.write_text(text, encoding="utf-8", newline="")
        part.replace(path)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}."
        raise SettingsError(message, where="--output") from error
    finally:
        part.unlink(missing_ok=True)


def _unlike(columns: Sequence[str]) -> list[str]:
    """Column names that differ: of two alike the second becomes ``name_2``."""
    found: list[str] = []
    for name in columns:
        count, fresh = 1, name
        while fresh in found:
            count += 1
            fresh = f"{name}_{count}"
        found.append(fresh)
    return found


def _objects(found: SqlResult) -> list[dict[str, Any]]:
    names = _unlike(found.columns)
    return [dict(zip(names, map(_plain, row), strict=True)) for row in found.rows]


def _plain(value: Any) -> Any:
    """A value as JSON has it: exact numbers as numbers, infinities as text, bytes as hex."""
    from decimal import Decimal

    from provender.cli.documents import plain

    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        return str(value)
    if hasattr(value, "isoformat") and not hasattr(value, "tzinfo"):
        return value.isoformat()
    return plain(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(_plain(value) if isinstance(value, (bytes, memoryview)) else value)


def _csv(found: SqlResult) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(found.columns)
    for row in found.rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _json(found: SqlResult) -> str:
    return json.dumps(_objects(found), indent=2, ensure_ascii=False)


def _parquet(path: Path, found: SqlResult) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = _unlike(found.columns)
    columns = [[row[i] for row in found.rows] for i in range(len(names))]
    table = pa.table({n: _array(pa, v) for n, v in zip(names, columns, strict=True)})
    pq.write_table(table, path)


def _array(pa: Any, values: list[Any]) -> Any:
    """A column of one type; SQLite's columns may mix them, and then it is text."""
    values = [bytes(v) if isinstance(v, memoryview) else v for v in values]
    if any(isinstance(v, (dict, list)) for v in values):
        values = [None if v is None else json.dumps(v, ensure_ascii=False) for v in values]
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {int, float} and float in kinds:
        values = [None if v is None else float(v) for v in values]
    elif len(kinds) > 1:
        values = [None if v is None else _cell(v) for v in values]
    if not kinds:
        return pa.array(values, pa.string())
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if v is None else _cell(v) for v in values], pa.string())
