"""Random numbers that are a pure function of a key and a place in the sequence.

Philox with 4 x 64 bits (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
3", SC 2011), of which numpy gives the raw output: it is the same on every machine and in every
release, and the millionth number costs as much as the first.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def key_of(*parts: Any) -> int:
    """A 128-bit key from numbers and texts: seed, epoch, what it is for."""
    text = "\0".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")


class Draws:
    """The sequence of a key: 64-bit words, from any place on."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._bits: np.random.Philox | None = None
        self._at = -1

    def words(self, start: int, count: int) -> np.ndarray:
        """Words ``start`` to ``start + count - 1``, uint64, shape ``[count]``."""
        if self._bits is None or start != self._at:
            # The counter is raised before each block of four words.
            self._bits = np.random.Philox(key=self._key, counter=start // 4)
            if start % 4:
                self._bits.random_raw(start % 4)
        self._at = start + count
        return np.asarray(self._bits.random_raw(count), np.uint64)

    def below(self, bound: int, start: int, count: int) -> np.ndarray:
        """Whole numbers below `bound` (at most 2**31), int64, shape ``[count]``."""
        high = self.words(start, count) >> np.uint64(32)
        return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)

    def fractions(self, start: int, count: int) -> np.ndarray:
        """Numbers from 0 to below 1, float64, shape ``[count]``."""
        return (self.words(start, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def order_of(key: int, count: int) -> np.ndarray:
    """A permutation of ``range(count)``, int64: the order of as many random words."""
    return np.argsort(Draws(key).words(0, count), kind="stable")
