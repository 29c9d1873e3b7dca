"""Random numbers by counter: Philox4x32-10, for many counters at once.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) makes four 32-bit words
of a 128-bit counter and a 64-bit key. Here the key is the seed and the counter says what is drawn
for: (purpose and number of the draw, instance, document, pass). Whoever computes an instance, in
whatever order, draws the same numbers for it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_AT_ONCE = 1 << 13
"""Counters computed together: what the rounds touch then fits a core's cache."""

_PURPOSE_BITS = 24

Counts = Any
"""Whole numbers below 2**32: an int, or an array of any integer type."""


class Purpose(IntEnum):
    """What numbers are drawn for; the numbers of different purposes are independent."""

    LENGTH = 0
    SHAPE = 1
    PARTNER = 2
    CUT_FIRST = 3
    CUT_SECOND = 4
    CHOOSE = 5
    DECIDE = 6
    REPLACE = 7


def words(
    seed: int, purpose: Purpose, draw: Counts, instance: Counts, document: Counts, epoch: Counts
) -> np.ndarray:
    """Four random words for each counter.

    Args:
        seed: any integer; counts modulo 2**64.
        purpose: what for.
        draw: number of the draw, below 2**24.
        instance: number of the instance within its document and pass.
        document: number of the document.
        epoch: number of the pass.

    Returns:
        uint32 of shape (4, n), where n is the broadcast length of the counters.
    """
    kind = np.uint64(int(purpose) << _PURPOSE_BITS)
    first = np.asarray(draw, np.uint64) | kind
    parts = [first, *(np.asarray(each, np.uint64) for each in (instance, document, epoch))]
    return philox(np.broadcast_arrays(*map(np.atleast_1d, parts)), seed)


def philox(counter: Any, key: int) -> np.ndarray:
    """Philox4x32-10.

    Args:
        counter: four uint64 arrays of shape (n,), values below 2**32.
        key: counts modulo 2**64.

    Returns:
        uint32 of shape (4, n).
    """
    count = len(counter[0])
    found = np.empty((4, count), np.uint32)
    for start in range(0, count, _AT_ONCE):
        stop = min(start + _AT_ONCE, count)
        _rounds([each[start:stop] for each in counter], key, found[:, start:stop])
    return found


def _rounds(counter: list[np.ndarray], key: int, out: np.ndarray) -> None:
    low_key, high_key = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
    c0, c1, c2, c3 = (each.copy() for each in counter)
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    for _ in range(_ROUNDS):
        np.multiply(c0, _MULTIPLIERS[0], out=p0)
        np.multiply(c2, _MULTIPLIERS[1], out=p1)
        np.right_shift(p1, _32, out=c0)
        c0 ^= c1
        c0 ^= np.uint64(low_key)
        np.right_shift(p0, _32, out=c2)
        c2 ^= c3
        c2 ^= np.uint64(high_key)
        np.bitwise_and(p1, _LOW, out=c1)
        np.bitwise_and(p0, _LOW, out=c3)
        low_key = (low_key + _WEYL[0]) & 0xFFFFFFFF
        high_key = (high_key + _WEYL[1]) & 0xFFFFFFFF
    for row, each in zip(out, (c0, c1, c2, c3), strict=True):
        row[:] = each


def below(random: np.ndarray, bounds: Any) -> np.ndarray:
    """Whole numbers from 0 to ``bounds`` - 1, evenly, from random words.

    Args:
        random: uint32.
        bounds: at least 1, below 2**32; broadcast against ``random``.

    Returns:
        int64 of the broadcast shape.
    """
    scaled = random.astype(np.uint64) * np.asarray(bounds, np.uint64)
    return (scaled >> _32).astype(np.int64)


def threshold(probability: float) -> int:
    """A random word is below it with this probability."""
    return round(probability * (1 << 32))
