"""The buckets of histograms: which numbers a code stands for. Needs no numpy.

A bucket keeps the sign, the exponent and 6 bits of the fraction of a float64: 64 buckets an octave,
each at most 1/64 wide relative to its lower edge.
"""

from __future__ import annotations

import struct

SHIFT = 52 - 6
"""Bits of a float64 that a code leaves out."""

SIGN = 1 << (63 - SHIFT)
"""Added to a magnitude's code, with a negative sign, for a negative number."""

WIDTH = 1 / 64
"""Largest width of a bucket, relative to its lower edge. Quantiles are off by half of that."""


def edges(code: int) -> tuple[float, float]:
    """The numbers that a bucket covers: from the first on, up to but without the second.

    (For negative numbers the other way round: without the first, up to the second.)
    """
    if code >= 0:
        return _number(code), _number(code + 1)
    magnitude = code + SIGN
    return -_number(magnitude + 1), -_number(magnitude)


def _number(code: int) -> float:
    found: float = struct.unpack("<d", struct.pack("<q", code << SHIFT))[0]
    return found
