"""Row numbers that exist, and column names that exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from provender.data.errors import ColumnError, unknown_column
from provender.errors import UnknownReference


class RowError(UnknownReference, IndexError):
    """A row number beyond the dataset; also an IndexError, by which Python ends loops."""


def check_row(row: int, count: int) -> int:
    """The row counted from the start.

    Raises:
        RowError: there is no such row.
    """
    found = row + count if row < 0 else row
    if not 0 <= found < count:
        raise out_of_range(row, count)
    return found


def check_rows(rows: np.ndarray, count: int) -> np.ndarray:
    """Row numbers counted from the start.

    Raises:
        RowError: one of them does not exist.
    """
    if len(rows) == 0:
        return rows
    low, high = int(rows.min()), int(rows.max())
    if high >= count or low < -count:
        raise out_of_range(high if high >= count else low, count)
    return np.where(rows < 0, rows + count, rows) if low < 0 else rows


def out_of_range(row: int, count: int) -> RowError:
    """The error for a row that is not there."""
    return RowError(
        f"There is no row {row}; the dataset has {count} rows.",
        hint=f"Rows are numbered 0 to {count - 1}, or -{count} to -1 from the end."
        if count
        else "The dataset is empty.",
        facts={"row": row, "rows": count},
    )


def names_of(columns: Any, known: Iterable[str], where: str) -> list[str]:
    """Column names as a list, once they all exist.

    Args:
        columns: a name, or names.
        known: what there is.
        where: the argument that they were given in.

    Raises:
        ColumnError: one of them does not exist, with the nearest name.
    """
    names = [columns] if isinstance(columns, str) else list(columns)
    known = list(known)
    there = set(known)
    for name in names:
        if name not in there:
            raise unknown_column(name, known, where)
    return names


def check_distinct(names: Sequence[str], what: str) -> None:
    """Raises where a column name comes twice.

    Raises:
        ColumnError: naming it.
    """
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ColumnError(
            f"{what} would have more than one column {', '.join(map(repr, twice))}.",
            hint="Rename or remove one of them first.",
            facts={"columns": list(names), "twice": twice},
        )
