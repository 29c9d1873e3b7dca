"""Stages as table rows; neighbouring shards of one state are put together as a range."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provender.cli.tables import Column, state_style

if TYPE_CHECKING:
    from provender.catalog import StageRecord

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
        record: the execution it tells of, where there is one.
    """

    key: str
    state: str
    why: tuple[str, ...] = ()
    record: StageRecord | None = None


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


def cells(rows: Iterable[Row], *, verbose: bool) -> Iterator[tuple[str, str, str]]:
    """Rows as table cells: stage, state, why.

    Args:
        rows: the stages in order.
        verbose: each shard in its own row, and every reason.
    """
    for group in grouped(rows, verbose=verbose):
        yield (*named(group), why_text(group[0].why, verbose=verbose))


def named(group: Sequence[Row]) -> tuple[str, str]:
    """Key and state of one stage, or of a range: ``shards/train/00000..00007``, ``8 hits``."""
    first = group[0]
    if len(group) == 1:
        return first.key, first.state
    number = group[-1].key.rpartition("/")[2]
    state = f"{len(group)} {first.state}{'s' if first.state == 'hit' else ''}"
    return f"{first.key}..{number}", state


def why_text(why: Sequence[str], *, verbose: bool) -> str:
    """Reasons, one a line, and only the first few unless all are asked for."""
    if verbose or len(why) <= MAX_REASONS + 1:
        return "\n".join(why)
    more = f"and {len(why) - MAX_REASONS} more (--verbose shows all)"
    return "\n".join([*why[:MAX_REASONS], more])


def grouped(rows: Iterable[Row], *, verbose: bool) -> Iterator[list[Row]]:
    """Rows, with neighbouring shards of one state and one cause together unless ``verbose``."""
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
        and (before.state, before.why) == (row.state, row.why)
    )
