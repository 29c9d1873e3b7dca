"""Where the segments of a record lie in its row, as XLNet's code chooses them (Yang et al., 2019).

A begins where it is told to. The sentences from there on that fill the room are cut between two of
them; B is what follows the cut, or, in half of the records and where there is nothing to cut, whole
sentences from a random place of the row. What does not fit is cut from the ends, the longer first.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from provender.nlp.pretraining.counter import below

_BLOCK = 1 << 10
_HALF = 1 << 31
_LONG = 1 << 14


@dataclass(frozen=True)
class Segments:
    """Two segments of a row, the ends excluded.

    Attributes:
        a_begin: first token of A.
        a_end: the token after A.
        b_begin: first token of B.
        b_end: the token after B.
        follows: whether B follows A in the text.
    """

    a_begin: int
    a_end: int
    b_begin: int
    b_end: int
    follows: bool


@dataclass
class LongRuns:
    """What is known of long sentences of a row: stretches of tokens without an end of a sentence.

    Without it a sentence of millions of tokens would be searched anew for each record.
    """

    _begins: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)

    def begin(self, token: int) -> int | None:
        """Where the sentence of a token begins, if that is known."""
        i = bisect_right(self._begins, token) - 1
        return self._begins[i] if i >= 0 and token < self._ends[i] else None

    def add(self, begin: int, end: int) -> None:
        """Notes that a sentence begins at ``begin`` and goes on to ``end`` at least."""
        i = bisect_right(self._begins, begin) - 1
        if i >= 0 and self._begins[i] == begin:
            self._ends[i] = max(self._ends[i], end)
        elif end - begin >= _LONG:
            self._begins.insert(i + 1, begin)
            self._ends.insert(i + 1, end)


def choose(
    sides: np.ndarray, begin: int, room: int, random: np.ndarray, runs: LongRuns | None = None
) -> Segments:
    """The segments of a record.

    Args:
        sides: of the row's tokens, see `provender.nlp.xlnet_data.stream`.
        begin: where A begins.
        room: tokens of A and B together, at least 2; the row has more from ``begin`` on.
        random: three random words.
        runs: what former calls found out about the row.

    Returns:
        Segments of ``room`` tokens in all.
    """
    cuts, end = _cuts(sides, begin, room)
    if cuts and random[0] >= _HALF:
        cut = cuts[_below(random[1], len(cuts))]
        return _fitted(Segments(begin, cut, cut, end, True), room)
    cut = cuts[_below(random[1], len(cuts))] if cuts else end
    length = max(1, room - (cut - begin))
    b_begin = _below(random[2], len(sides) - length)
    first = _sentence_begin(sides, b_begin, runs or LongRuns())
    last = _sentence_end(sides, b_begin + length, first + room)
    return _fitted(Segments(begin, cut, first, last, False), room)


def _below(word: np.uint32, bound: int) -> int:
    return int(below(np.asarray(word), bound))


def _cuts(sides: np.ndarray, begin: int, room: int) -> tuple[list[int], int]:
    """Where sentences begin within the room after ``begin``, and where the first begins beyond it."""
    found: list[int] = []
    at = begin
    while at < len(sides) - 1:
        block = sides[at : at + _BLOCK + 1]
        changes = np.flatnonzero(block[1:] != block[:-1]) + at + 1
        for each in changes.tolist():
            if each - begin >= room:
                return found, each
            found.append(each)
        at += _BLOCK
        if at - begin > room:
            # What is beyond the room is cut off, so its exact end does not matter.
            return found, min(at, len(sides))
    return found, len(sides)


def _sentence_begin(sides: np.ndarray, token: int, runs: LongRuns) -> int:
    begin = 0
    stop = token + 1
    while stop > 1:
        known = runs.begin(stop - 1)
        if known is not None:
            begin = known
            break
        start = max(0, stop - _BLOCK)
        block = sides[start:stop]
        changes = np.flatnonzero(block[1:] != block[:-1])
        if len(changes):
            begin = start + int(changes[-1]) + 1
            break
        stop = start + 1
    runs.add(begin, token + 1)
    return begin


def _sentence_end(sides: np.ndarray, token: int, enough: int) -> int:
    """The end of the sentence before ``token``; at ``enough`` it need not go on."""
    stop = min(enough, len(sides))
    if token >= stop:
        return token
    block = sides[token - 1 : stop]
    changes = np.flatnonzero(block[1:] != block[:-1])
    return token + int(changes[0]) if len(changes) else stop


def _fitted(found: Segments, room: int) -> Segments:
    a, b = fitted(found.a_end - found.a_begin, found.b_end - found.b_begin, room)
    return Segments(
        found.a_begin, found.a_begin + a, found.b_begin, found.b_begin + b, found.follows
    )


def fitted(a: int, b: int, room: int) -> tuple[int, int]:
    """The lengths of two segments once tokens were taken from the longer, of equal ones from B."""
    if a + b <= room:
        return a, b
    if min(a, b) <= room // 2:
        return (a, room - a) if a < b else (room - b, b)
    return room - room // 2, room // 2
