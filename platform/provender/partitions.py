"""Datasets in pieces of time: what a piece is called, where it begins, and which pieces a span has.

A piece is a builder config whose name is an ISO 8601 date or a part of one, in UTC:

    year 2026    month 2026-11    week 2026-W48    day 2026-11-29    hour 2026-11-29T05
"""

from __future__ import annotations

import calendar
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from provender.errors import SettingsError

_SHAPES = {
    "year": (r"\d{4}", "%Y"),
    "month": (r"\d{4}-\d{2}", "%Y-%m"),
    "week": (r"\d{4}-W\d{2}", "%G-W%V"),
    "day": (r"\d{4}-\d{2}-\d{2}", "%Y-%m-%d"),
    "hour": (r"\d{4}-\d{2}-\d{2}T\d{2}", "%Y-%m-%dT%H"),
}
GRAINS = tuple(_SHAPES)

CRON = {
    "year": "0 0 1 1 *",
    "month": "0 0 1 * *",
    "week": "0 0 * * 1",
    "day": "0 0 * * *",
    "hour": "0 * * * *",
}
"""When a piece has just ended, as a cron expression in UTC."""

_LONGEST = 20_000
"""Most pieces of one span: more is a slip of the pen."""


@dataclass(frozen=True, order=True)
class Partition:
    """One piece of time.

    Attributes:
        start: its first moment, UTC.
        grain: ``hour``, ``day``, ``week``, ``month`` or ``year``.
    """

    start: datetime
    grain: str

    @property
    def name(self) -> str:
        """The name of the builder config, e.g. ``2026-11-29``."""
        return self.start.strftime(_SHAPES[self.grain][1])

    @property
    def stop(self) -> datetime:
        """The first moment after it, UTC."""
        return self.next().start

    def next(self) -> Partition:
        """The piece that follows."""
        start = self.start
        if self.grain == "year":
            return Partition(start.replace(year=start.year + 1), self.grain)
        if self.grain == "month":
            # The 28th and four days are in the month after, whichever month it is.
            return Partition((start + timedelta(days=32)).replace(day=1), self.grain)
        days = {"week": 7, "day": 1}.get(self.grain, 0)
        return Partition(start + (timedelta(days=days) or timedelta(hours=1)), self.grain)

    def previous(self) -> Partition:
        """The piece before it."""
        return partition_of(self.start - timedelta(seconds=1), self.grain)

    def __str__(self) -> str:
        return self.name


def pattern(grain: str) -> str:
    """The regular expression that names of such pieces have, from their first character to the last.

    Args:
        grain: one of `GRAINS`.
    """
    return f"^{_SHAPES[grain][0]}$"


def check_grain(grain: str, where: str) -> str:
    """A grain as it is.

    Args:
        grain: what somebody wrote.
        where: named in the error.

    Raises:
        SettingsError: there is no such grain.
    """
    if grain in GRAINS:
        return grain
    near = difflib.get_close_matches(str(grain), GRAINS, 1, 0.4)
    raise SettingsError(
        f"A dataset is not cut by {grain!r}.",
        where=where,
        hint=(f"Did you mean {near[0]}? " if near else "") + f"There are: {', '.join(GRAINS)}.",
        facts={"key": "partition"},
    )


def partition_of(moment: datetime, grain: str) -> Partition:
    """The piece that a moment lies in.

    Args:
        moment: any time; without a zone it is UTC.
        grain: one of `GRAINS`.
    """
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    start = moment.replace(minute=0, second=0, microsecond=0)
    if grain != "hour":
        start = start.replace(hour=0)
    if grain == "week":
        start -= timedelta(days=start.weekday())
    elif grain == "month":
        start = start.replace(day=1)
    elif grain == "year":
        start = start.replace(month=1, day=1)
    return Partition(start, grain)


def parse_partition(name: str, grain: str | None = None, *, where: str = "") -> Partition:
    """Reads the name of a piece.

    Args:
        name: e.g. ``2026-11-29``.
        grain: what it must be; None takes what its shape says.
        where: named in the error.

    Raises:
        SettingsError: it is no such name, or there is no such day.
    """
    for each, (shape, form) in _SHAPES.items():
        if re.fullmatch(shape, name) and grain in (None, each):
            try:
                if each == "week":
                    start = datetime.strptime(f"{name}-1", "%G-W%V-%u")
                else:
                    start = datetime.strptime(name, form)
            except ValueError:
                break
            return Partition(start.replace(tzinfo=UTC), each)
    near = _near(name, grain or "day")
    example = partition_of(datetime(2026, 11, 30, tzinfo=UTC), grain or "day")
    raise SettingsError(
        f"{name!r} names no {grain or 'piece of time'}.",
        where=where or None,
        hint=f"Did you mean {near}?" if near else f"Such as {example}.",
    )


def _near(name: str, grain: str) -> Partition | None:
    """The piece that was meant, if its numbers are there in their order; each within its limits."""
    found = re.match(r"\D*(\d{4})\D*(\d{1,2})?\D*(\d{1,2})?\D*(\d{1,2})?", name)
    if found is None or found[1] == "0000":
        return None
    year, second, third, fourth = (int(each) if each else None for each in found.groups())
    assert year is not None
    if grain == "week":
        last = date(year, 12, 28).isocalendar().week
        start = datetime.fromisocalendar(year, _within(second, 1, last), 1)
    else:
        month = _within(second, 1, 12)
        day = _within(third, 1, calendar.monthrange(year, month)[1])
        start = datetime(year, month, day, _within(fourth, 0, 23))
    return partition_of(start, grain)


def _within(number: int | None, least: int, most: int) -> int:
    return least if number is None else min(max(number, least), most)


def span(first: str, last: str, grain: str) -> list[Partition]:
    """All pieces from one to another, both included.

    Args:
        first: a date as ISO 8601 has it: ``2026-11-01``, or the name of a piece, of which the
            beginning counts.
        last: likewise; of the name of a larger piece the end counts.
        grain: one of `GRAINS`.

    Raises:
        SettingsError: one of them is no date; the first comes after the last; or there are too
            many pieces between them.
    """
    begin, _ = _ends(first, grain, "--from")
    _, end = _ends(last, grain, "--to")
    if begin > end:
        raise SettingsError(f"{begin} comes after {end}.", where="--from, --to")
    found: list[Partition] = []
    for each in _from(begin):
        if each > end:
            return found
        if len(found) == _LONGEST:
            break
        found.append(each)
    raise SettingsError(
        f"From {begin} to {end} there are more than {_LONGEST:,} pieces.",
        where="--from, --to",
        hint="Is the grain right? Else take several spans, one after the other.",
    )


def _from(first: Partition) -> Iterator[Partition]:
    each = first
    while True:
        yield each
        each = each.next()


def _ends(text: str, grain: str, where: str) -> tuple[Partition, Partition]:
    """The first and the last piece of what somebody wrote."""
    for each, (shape, _) in _SHAPES.items():
        if re.fullmatch(shape, text):
            named = parse_partition(text, each, where=where)
            last = partition_of(named.stop - timedelta(seconds=1), grain)
            return partition_of(named.start, grain), last
    try:
        only = partition_of(datetime.fromisoformat(text), grain)
    except ValueError:
        only = parse_partition(text, grain, where=where)
    return only, only
