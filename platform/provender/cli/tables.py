"""Tables as text. The plain form needs no library and holds no control codes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_GAP = "  "
_NARROWEST = 30
# With those that make a terminal show the text around them in another order.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_STYLES = {
    "hit": "green",
    "hits": "green",
    "ok": "green",
    "succeeded": "green",
    "published": "green",
    "cached": "green",
    "reused": "green",
    "fixed": "green",
    "run": "yellow",
    "ran": "yellow",
    "running": "yellow",
    "trial": "yellow",
    "wait": "dim",
    "waiting": "dim",
    "skipped": "dim",
    "failed": "red",
    "error": "red",
    "unreadable": "red",
    "damaged": "red",
    "missing": "red",
    "died": "red",
    "refused": "red",
    "blocked": "red",
    "passed": "green",
    "allowed": "yellow",
    "retracted": "red",
    "interrupted": "yellow",
    "warning": "yellow",
    "changed": "yellow",
    "extra": "yellow",
}


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its heading.
        right: whether it holds numbers, which are aligned right.
        wraps: whether long text wraps; others are never broken.
        style: cell text -> Rich style on a terminal.
    """

    title: str
    right: bool = False
    wraps: bool = False
    style: Callable[[str], str] | None = None


def state_style(state: str) -> str:
    """The colour of a state; ``8 hits`` is coloured like ``hit``."""
    return _STYLES.get(state.rpartition(" ")[2], "")


def clean(text: str) -> str:
    """Text without control characters, which data may hold but a terminal would obey."""
    return _CONTROL.sub("\ufffd", text)


def plain_lines(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], *, width: int, heading: bool = True
) -> Iterator[str]:
    """A table as lines.

    Args:
        columns: the columns.
        rows: cells; a cell may hold several lines.
        width: where wrapping columns end.
        heading: whether the titles are shown.

    Yields:
        Lines without trailing blanks.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    titles = [[column.title for column in columns]] if heading else []
    fixed = [
        0
        if column.wraps
        else max((len(line) for row in [*titles, *cells] for line in row[i].split("\n")), default=0)
        for i, column in enumerate(columns)
    ]
    wrapping = sum(column.wraps for column in columns)
    left = width - sum(fixed) - len(_GAP) * (len(columns) - 1)
    share = max(_NARROWEST, left // wrapping) if wrapping else 0
    sizes = [share if column.wraps else size for column, size in zip(columns, fixed, strict=True)]
    for row in [*titles, *cells]:
        parts = [
            _wrapped(cell, share) if column.wraps else cell.split("\n")
            for cell, column in zip(row, columns, strict=True)
        ]
        for i in range(max(len(part) for part in parts)):
            texts = [part[i] if i < len(part) else "" for part in parts]
            yield _GAP.join(
                text.rjust(size) if column.right else text.ljust(size)
                for text, size, column in zip(texts, sizes, columns, strict=True)
            ).rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    found: list[str] = []
    for line in text.split("\n"):
        # Paths and digests stay whole so that they can be searched for and copied.
        found += textwrap.wrap(
            line, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  "
        ) or [""]
    return found


def rich_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], *, heading: bool = True
) -> Table:
    """The same table for a terminal; loads Rich."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=heading, header_style="bold"
    )
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.wraps,
            overflow="fold",
        )
    for row in rows:
        table.add_row(
            *(
                Text(clean(cell), style=column.style(cell) if column.style else "")
                for cell, column in zip(row, columns, strict=True)
            )
        )
    return table
