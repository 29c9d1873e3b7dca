"""Which source the element at any place of a mixture comes from, by integer arithmetic alone.

Shares are whole numbers; every ``sum(shares)`` elements are one cycle, in which each source comes
exactly as often as its share. In a cycle the elements stand by earliest deadline: the j-th of a
source with share ``w`` of ``T`` not before place ``floor(j T / w)`` and not after the one before
``ceil((j + 1) T / w)``. For one processor that schedule always exists (Baruah, Cohen, Plaxton and
Varvel, "Proportionate progress", Algorithmica 15, 1996), so that at every place each source is
less than one element away from its share.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm

import numpy as np

from provender.errors import SettingsError

MOST = 1 << 16
"""Longest cycle. Weights that need a longer one are rounded to this many parts."""


def shares_of(weights: Sequence[float], names: Sequence[str]) -> tuple[int, ...]:
    """Whole numbers in the proportion of weights.

    Args:
        weights: one a source, 0 or more; they need not sum to 1. Their decimal notation counts:
            0.1 is one tenth.
        names: of the sources, for errors.

    Returns:
        Shares without a common factor, their sum at most `MOST`. A source with a weight above 0
        has a share of 1 or more.

    Raises:
        SettingsError: a weight is negative or no number, all are 0, or there are too many sources.
    """
    parts = [_fraction(weight, name) for weight, name in zip(weights, names, strict=True)]
    total = sum(parts)
    if not total:
        raise SettingsError(
            "A mixture needs a source with a weight above 0.",
            where="weights",
            hint=f"The sources are {', '.join(names)}.",
        )
    common = lcm(*(each.denominator for each in parts))
    whole = [int(each * common) for each in parts]
    factor = gcd(*whole)
    whole = [each // factor for each in whole]
    return tuple(whole) if sum(whole) <= MOST else _rounded(whole)


def _fraction(weight: float, name: str) -> Fraction:
    try:
        found = Fraction(repr(weight) if isinstance(weight, float) else weight)
    except (ValueError, TypeError, OverflowError):
        found = Fraction(-1)
    if isinstance(weight, bool) or found < 0:
        raise SettingsError(
            f"The weight of {name!r} must be a number of 0 or more, got {weight!r}.",
            where="weights",
        )
    return found


def _rounded(whole: Sequence[int]) -> tuple[int, ...]:
    """Shares that sum to `MOST`, by largest remainders."""
    total = sum(whole)
    if sum(1 for each in whole if each) > MOST:
        raise SettingsError(f"A mixture can have {MOST:,} sources.", where="weights")
    found = [max(each * MOST // total, 1 if each else 0) for each in whole]
    left = MOST - sum(found)
    order = sorted(range(len(whole)), key=lambda at: (-(whole[at] * MOST % total), at))
    if left < 0:
        # Tiny sources were given one each; the largest can spare it.
        found[found.index(max(found))] += left
    for at in order[: max(left, 0)]:
        found[at] += 1
    factor = gcd(*found)
    return tuple(each // factor for each in found)


class Proportions:
    """The sources of an endless sequence that keeps to shares.

    Args:
        shares: whole numbers, one a source, at least one of them above 0.
    """

    def __init__(self, shares: Sequence[int]) -> None:
        self.shares = tuple(shares)
        self.cycle = sum(shares)

    @cached_property
    def _sources(self) -> np.ndarray:
        """Source at each place of a cycle."""
        total, shares = self.cycle, self.shares
        arriving: list[list[tuple[int, int, int]]] = [[] for _ in range(total)]
        for source, share in enumerate(shares):
            if share:
                arriving[0].append((-(-total // share), source, 0))
        ready: list[tuple[int, int, int]] = []
        order = np.empty(total, np.int64)
        for place in range(total):
            for each in arriving[place]:
                heapq.heappush(ready, each)
            _, source, number = heapq.heappop(ready)
            order[place] = source
            number += 1
            share = shares[source]
            if number < share:
                deadline = -(-(number + 1) * total // share)
                arrival = max(number * total // share, place + 1)
                arriving[arrival].append((deadline, source, number))
        return order

    @cached_property
    def _places(self) -> list[np.ndarray]:
        """For each source, its places in a cycle, ascending."""
        return [np.flatnonzero(self._sources == source) for source in range(len(self.shares))]

    @cached_property
    def _within(self) -> np.ndarray:
        """At each place of a cycle, how many of the same source stand before it there."""
        found = np.empty(self.cycle, np.int64)
        for places in self._places:
            found[places] = np.arange(len(places))
        return found

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What stands at places of the sequence.

        Args:
            places: int64, shape ``[count]``.

        Returns:
            The number of the source, and the number of the element within that source, both int64
            of the same shape.
        """
        if self.cycle == 1:
            return np.full(len(places), self.shares.index(1), np.int64), places
        rounds, rest = np.divmod(places, self.cycle)
        sources = self._sources[rest]
        shares = np.array(self.shares, np.int64)
        return sources, rounds * shares[sources] + self._within[rest]

    def counts(self, place: int) -> list[int]:
        """How many elements of each source stand before a place."""
        rounds, rest = divmod(place, self.cycle)
        return [
            rounds * share + (int(np.searchsorted(places, rest)) if rest else 0)
            for share, places in zip(self.shares, self._places, strict=True)
        ]

    def place_of(self, source: int, number: int) -> int:
        """Where an element of a source stands in the sequence."""
        rounds, rest = divmod(number, self.shares[source])
        return rounds * self.cycle + int(self._places[source][rest])
