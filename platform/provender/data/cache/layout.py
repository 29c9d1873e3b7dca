"""How a result is cut into pieces, and how a piece is named. Pure functions.

A *segment* is one file that holds the rows made from the input rows [start, stop). Its name
carries everything that proves it, so that a finished segment needs no other record: whatever
happens to the process that wrote it, the name is there with the whole file or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MIN_UNITS = 16
"""A small input is cut into at least so many units, so that little of it is computed twice."""

UNIT_ROWS = 65_536
"""A large input is cut into units of about so many rows."""

MAX_UNITS = 4096
"""A huge input is cut into no more units than this: each becomes a mapped file."""

SUFFIX = ".arrow"
_NAME = re.compile(
    r"(?P<start>\d{12,})-(?P<stop>\d{12,})-(?P<rows>\d+)-(?P<size>\d+)-(?P<digest>[0-9a-f]{32})"
    + re.escape(SUFFIX)
)

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One finished piece.

    Attributes:
        start: first input row.
        stop: the input row after the last.
        rows: rows in the file; differs from ``stop - start`` where a transform adds or drops rows.
        size: bytes.
        digest: XXH3, 128 bits, of the file, 32 hexadecimal characters.
    """

    start: int
    stop: int
    rows: int
    size: int
    digest: str

    @property
    def file(self) -> str:
        """Its file's name."""
        span = f"{self.start:012d}-{self.stop:012d}"
        return f"{span}-{self.rows}-{self.size}-{self.digest}{SUFFIX}"

    @classmethod
    def from_file(cls, name: str) -> Segment | None:
        """The segment that a file name tells of; None for any other name."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        start, stop, rows, size, digest = found.groups()
        return cls(int(start), int(stop), int(rows), int(size), digest)


def units(total: int, align: int = 1) -> list[Range]:
    """Cuts [0, total) into the ranges that are committed one by one.

    Depends on nothing but the arguments, so that a result made by four workers can be finished
    by one.

    Args:
        total: number of input rows.
        align: every cut is at a multiple of this, e.g. the batch size of a batched transform.

    Returns:
        Ranges in order, without gaps. At least `MIN_UNITS` of them where `align` allows it.
    """
    step = unit_rows(total, align)
    return [(start, min(start + step, total)) for start in range(0, total, step)]


def unit_rows(total: int, align: int = 1) -> int:
    """Input rows of each of the `units` but the last."""
    largest = max(UNIT_ROWS, -(-total // MAX_UNITS))
    wanted = min(max(total // MIN_UNITS, 1), largest)
    return max(align, wanted - wanted % align)


def chosen(found: Iterable[Segment]) -> list[Segment]:
    """Segments that do not overlap, in order.

    The same rows can lie in two files after a worker outlived the process that it worked for.
    Which of them is taken depends on their names alone.
    """
    kept: list[Segment] = []
    for each in sorted(found, key=lambda one: (one.start, -one.stop, one.file)):
        if not kept or each.start >= kept[-1].stop:
            kept.append(each)
    return kept


def tiling(total: int, found: Iterable[Segment]) -> list[Segment] | None:
    """Segments that follow each other from 0 to ``total`` without gap or overlap, or None.

    There can be one although `chosen` leaves gaps: pieces of a worker that outlived its process
    are cut elsewhere than those of the run that took over.
    """
    next_of: dict[int, Segment] = {}
    for each in sorted(found, key=lambda one: (one.start, one.file), reverse=True):
        if each.stop == total or each.stop in next_of:
            next_of[each.start] = each
    row, kept = 0, []
    while row < total:
        if row not in next_of:
            return None
        kept.append(next_of[row])
        row = next_of[row].stop
    return kept


def gaps(total: int, segments: Iterable[Segment]) -> list[Range]:
    """The parts of [0, total) that no segment covers; the segments must be `chosen`."""
    found: list[Range] = []
    done = 0
    for each in segments:
        if each.start > done:
            found.append((done, min(each.start, total)))
        done = max(done, each.stop)
    if done < total:
        found.append((done, total))
    return found


def missing(total: int, align: int, segments: Iterable[Segment]) -> list[Range]:
    """The gaps, cut where the `units` are cut.

    Args:
        total: number of input rows.
        align: as for `units`.
        segments: finished pieces, `chosen`.
    """
    step = unit_rows(total, align)
    found: list[Range] = []
    for start, stop in gaps(total, segments):
        while start < stop:
            end = min(stop, start - start % step + step)
            found.append((start, end))
            start = end
    return found


def fits(segment: Segment, total: int, align: int) -> bool:
    """Whether a segment can be part of a result over [0, total) cut at multiples of `align`."""
    ends_well = segment.stop % align == 0 or segment.stop == total
    return segment.start % align == 0 and ends_well and segment.stop <= total
