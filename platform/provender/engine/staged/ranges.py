"""Cutting the pieces of several splits into no more tasks than an orchestrator bears."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

Span = tuple[str, int, int, int]
"""``(split, first, stop, of)``."""


def ranges(counts: Mapping[str, int], limit: int) -> list[tuple[Span, ...]]:
    """Cuts every split's pieces into ranges of about one length, at most ``limit`` in all.

    A range does not cross splits unless there are more splits than ``limit``.

    Args:
        counts: split -> its number of pieces, in the order wanted.
        limit: most ranges, 1 or more.

    Returns:
        The ranges; joined together they are all pieces in order.
    """
    found = {split: count for split, count in counts.items() if count}
    if not found:
        return []
    if len(found) > limit:
        whole = [(split, 0, count, count) for split, count in found.items()]
        edges = [round(i * len(whole) / limit) for i in range(limit + 1)]
        return [tuple(whole[a:b]) for a, b in pairwise(edges)]
    length = _length(list(found.values()), limit)
    return [
        ((split, first, min(first + length, count), count),)
        for split, count in found.items()
        for first in range(0, count, length)
    ]


def _length(counts: list[int], limit: int) -> int:
    """The shortest length of a range with which there are no more than ``limit``."""
    low, high = 1, max(counts)
    while low < high:
        middle = (low + high) // 2
        if sum(-(-count // middle) for count in counts) <= limit:
            high = middle
        else:
            low = middle + 1
    return low
