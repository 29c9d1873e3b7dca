"""Which records of which files a pipeline reads, decided before anything is opened.

Hosts get ranges of one fixed order, so what each reads is a pure function of the version, the
split, the host's number and the number of hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from provender.errors import SplitError
from provender.training.splits import SplitSlice

Remainder = Literal["drop", "pad", "keep"]
"""What becomes of examples that do not divide evenly over hosts: left out, made up for by giving
the first examples of a host once more, or kept, so that hosts differ by a few."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive records of one shard file.

    Attributes:
        name: the file's name in the version's folder.
        start: first record.
        stop: one after the last.
        length: records in the file.
    """

    name: str
    start: int
    stop: int
    length: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def whole(self) -> bool:
        """Whether it is all of the file."""
        return self.start == 0 and self.stop == self.length


def pieces_of(
    slices: Iterable[SplitSlice], files: Mapping[str, Sequence[tuple[str, int]]]
) -> tuple[Piece, ...]:
    """The records that ranges of splits mean, in order.

    Args:
        slices: ranges of examples, see `provender.training.splits.resolve_split`.
        files: split name -> file name and number of examples of each shard, in order.

    Returns:
        Pieces without empty ones.
    """
    found: list[Piece] = []
    for each in slices:
        at = 0
        for name, length in files[each.split]:
            start, stop = max(each.start - at, 0), min(each.stop - at, length)
            if start < stop:
                found.append(Piece(name, start, stop, length))
            at += length
    return tuple(found)


def for_host(
    pieces: Sequence[Piece], index: int, count: int, remainder: Remainder = "drop"
) -> tuple[Piece, ...]:
    """The part of the records that one of several hosts reads.

    Whole files go to hosts where they divide evenly among them; else each host gets one range of
    examples, so that no host waits for another however few files there are. Together the hosts
    read every example once, but for what ``remainder`` says.

    Args:
        pieces: all records, in order.
        index: this host, from 0.
        count: hosts.
        remainder: what becomes of examples that do not divide evenly.

    Returns:
        This host's pieces. With ``drop`` and ``pad`` each host has the same number of examples.

    Raises:
        SplitError: there is no such host, or fewer examples than hosts where each must have as
            many.
    """
    if not 0 <= index < count:
        raise SplitError(
            f"There is no pipeline {index} of {count}.", hint="They are counted from 0."
        )
    if count == 1:
        return tuple(pieces)
    total = sum(len(each) for each in pieces)
    if remainder != "keep" and total < count:
        raise SplitError(
            f"{total} examples cannot be shared evenly by {count} hosts.",
            hint="Use fewer hosts, or remainder='keep'.",
        )
    shares = _shares(pieces, count)
    mine = shares[index]
    sizes = [sum(len(each) for each in share) for share in shares]
    if remainder == "drop":
        return _first(mine, min(sizes))
    if remainder == "pad":
        missing = max(sizes) - sizes[index]
        while missing:
            more = _first(shares[index], missing)
            mine = (*mine, *more)
            missing -= sum(len(each) for each in more)
    return mine


def _shares(pieces: Sequence[Piece], count: int) -> list[tuple[Piece, ...]]:
    if len(pieces) % count == 0:
        per = len(pieces) // count
        shares = [tuple(pieces[at * per : (at + 1) * per]) for at in range(count)]
        sizes = [sum(len(each) for each in share) for share in shares]
        # Shards of one split differ by an example; files of several splits, and shards that were cut
        # by keys, may differ by more.
        if max(sizes) - min(sizes) <= 1:
            return shares
    total = sum(len(each) for each in pieces)
    each, rest = divmod(total, count)
    borders = [at * each + min(at, rest) for at in range(count + 1)]
    return [_range(pieces, borders[at], borders[at + 1]) for at in range(count)]


def _range(pieces: Sequence[Piece], start: int, stop: int) -> tuple[Piece, ...]:
    found, at = [], 0
    for each in pieces:
        first, last = max(start - at, 0), min(stop - at, len(each))
        if first < last:
            found.append(replace(each, start=each.start + first, stop=each.start + last))
        at += len(each)
    return tuple(found)


def cut(pieces: Sequence[Piece], start: int) -> tuple[Piece, ...]:
    """The records from number ``start`` on."""
    return _range(pieces, start, sum(len(each) for each in pieces))


def _first(pieces: Sequence[Piece], count: int) -> tuple[Piece, ...]:
    return _range(pieces, 0, count)
