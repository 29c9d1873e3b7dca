"""Stages as table rows; neighbouring shards of one state are put together as a range."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from provender.cli.tables import Column, state_style

COLUMNS = (
    Column("stage"),
    Column("state", style=state_style),
    Column("why", wraps=True),
)
MAX_REASONS = 4
"""Reasons shown for one stage unless all are asked for."""

_NUMBERED = re.compile(r"(?P<stem>.+/)(?P<number>\d+)")
_PART = re.compile(r"(?P<stage>examples/.+)/part-\d+-of-\d+")


@dataclass(frozen=True)
class Row:
    """One stage.

    Attributes:
        key: stage key.
        state: one word.
        why: reasons, one sentence each.
        more: further cells of the row, after the state.
    """

    key: str
    state: str
    why: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


def whole_stage(key: str) -> str:
    """The stage that a part of a split belongs to; any other key as it is."""
    found = _PART.fullmatch(key)
    return found["stage"] if found else key


def is_part(key: str) -> bool:
    """Whether the key is that of one part of a split."""
    return _PART.fullmatch(key) is not None


def reason_texts(reasons: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Reasons as sentences."""
    from provender.engine.plan import reason_text

    return tuple(reason_text(each) for each in reasons)


def cells(rows: Iterable[Row], *, verbose: bool) -> Iterator[tuple[str, ...]]:
    """Rows as table cells: stage, state, what the row adds, why.

    Args:
        rows: the stages in order.
        verbose: each shard in its own row, and every reason.
    """
    for group in _groups(rows, verbose):
        first, last = group[0], group[-1]
        key, state = first.key, first.state
        if len(group) > 1:
            number = last.key.rpartition("/")[2]
            key = f"{first.key}..{number}"
            state = f"{len(group)} {state}{'s' if state == 'hit' else ''}"
        yield (key, state, *first.more, "\n".join(_short(first.why, verbose)))


def _short(why: Sequence[str], verbose: bool) -> list[str]:
    if verbose or len(why) <= MAX_REASONS + 1:
        return list(why)
    return [*why[:MAX_REASONS], f"and {len(why) - MAX_REASONS} more (--verbose shows all)"]


def _groups(rows: Iterable[Row], verbose: bool) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        if group and not verbose and _follows(group[-1], row):
            group.append(row)
            continue
        if group:
            yield group
        group = [row]
    if group:
        yield group


def _follows(before: Row, row: Row) -> bool:
    a, b = _NUMBERED.fullmatch(before.key), _NUMBERED.fullmatch(row.key)
    return (
        a is not None
        and b is not None
        and a["stem"] == b["stem"]
        and int(b["number"]) == int(a["number"]) + 1
        and (before.state, before.why, before.more) == (row.state, row.why, row.more)
    )
