"""Numbers summed up exactly and a histogram of them that merges exactly.

Every part is a sum of whole numbers, a smallest or a largest, so merging parts in any order gives
bit for bit what looking at everything at once would have given.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from provender.statistics.edges import SHIFT, edges

# A float32 is a 24-bit whole number times a power of two, at least 2**-149.
_FLOAT_SCALE = 149


@dataclass(slots=True)
class Histogram:
    """How many numbers lie in each bucket.

    Attributes:
        counts: bucket code -> numbers.
    """

    counts: dict[int, int] = field(default_factory=dict)

    def add(self, values: np.ndarray) -> None:
        """Counts finite numbers, given as any real dtype."""
        if not len(values):
            return
        # Adding zero makes one zero of two.
        codes = (values.astype(np.float64) + 0.0).view(np.int64) >> SHIFT
        low, high = int(codes.min()), int(codes.max())
        if high - low <= 4 * len(codes) + 1024:
            found = np.bincount(codes - low)
            keys = np.flatnonzero(found)
            found, keys = found[keys], keys + low
        else:
            keys, found = np.unique(codes, return_counts=True)
        known = self.counts
        for key, count in zip(keys.tolist(), found.tolist(), strict=True):
            known[key] = known.get(key, 0) + count

    def merge(self, other: Histogram) -> None:
        """Takes in another histogram."""
        for key, count in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count

    @property
    def total(self) -> int:
        """Numbers counted."""
        return sum(self.counts.values())

    def ordered(self) -> list[tuple[float, float, int]]:
        """Lower edge, upper edge and count of every bucket, ascending."""
        return sorted((*edges(code), count) for code, count in self.counts.items())

    def to_json(self) -> list[list[int]]:
        """Codes in ascending order, and their counts."""
        codes = sorted(self.counts)
        return [codes, [self.counts[code] for code in codes]]

    @classmethod
    def from_json(cls, doc: list[list[int]]) -> Histogram:
        """Reads what `to_json` wrote."""
        return cls(dict(zip(*doc, strict=True)))


QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(slots=True)
class Numbers:
    """What is known of the numbers of one feature.

    Attributes:
        whole: whether they are whole numbers.
        count: numbers, with those that are not finite.
        nan: those that are not a number.
        infinite: those that are infinite.
        zeros: those that are zero.
        low: the smallest finite one, None before there is one.
        high: the largest finite one.
        weighed: finite numbers in the sums and the histogram; fewer than there are where of large
            arrays only a part is looked at.
        total: their sum, exact: for floats in units of 2**-149.
        squares: the sum of their squares, exact: for floats in units of 2**-298.
        histogram: their distribution.
    """

    whole: bool
    count: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    low: float | None = None
    high: float | None = None
    weighed: int = 0
    total: int = 0
    squares: int = 0
    histogram: Histogram = field(default_factory=Histogram)

    def add(self, values: np.ndarray, weighed: np.ndarray | None = None) -> None:
        """Takes in numbers.

        Args:
            values: int64, uint64 or float32.
            weighed: the ones for the sums and the histogram; by default all.
        """
        self.count += len(values)
        values, nan, infinite = _finite(values)
        self.nan += nan
        self.infinite += infinite
        if len(values):
            self.zeros += len(values) - int(np.count_nonzero(values))
            low, high = values.min().item(), values.max().item()
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)
        if weighed is not None:
            values = _finite(weighed)[0]
        if not len(values):
            return
        self.weighed += len(values)
        total, squares = _whole_sums(values) if self.whole else _float_sums(values)
        self.total += total
        self.squares += squares
        self.histogram.add(values)

    def merge(self, other: Numbers) -> None:
        """Takes in what was found elsewhere."""
        for name in ("count", "nan", "infinite", "zeros", "weighed", "total", "squares"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.low is not None and other.high is not None:
            self.low = other.low if self.low is None else min(self.low, other.low)
            self.high = other.high if self.high is None else max(self.high, other.high)
        self.histogram.merge(other.histogram)

    @property
    def mean(self) -> float | None:
        """The mean, correctly rounded; None without numbers."""
        return _divided(self.total, self.weighed << (0 if self.whole else _FLOAT_SCALE))

    @property
    def std(self) -> float | None:
        """The standard deviation of what was seen (not of a population it was drawn from)."""
        if not self.weighed:
            return None
        above = self.squares * self.weighed - self.total**2
        scale = 0 if self.whole else 2 * _FLOAT_SCALE
        variance = _divided(above, self.weighed**2 << scale)
        return None if variance is None else math.sqrt(variance)

    def quantiles(self, wanted: Iterable[float] = QUANTILES) -> dict[str, float]:
        """Quantiles from the histogram: within 0.8 % of the true one; whole below 128 exact."""
        buckets = self.histogram.ordered()
        ends = list(accumulate(count for _, _, count in buckets))
        if not ends or self.low is None or self.high is None:
            return {}
        found: dict[str, float] = {}
        for share in wanted:
            low, high, _ = buckets[bisect_right(ends, share * (ends[-1] - 1))]
            found[f"{share:g}"] = min(max(self._inside(low, high), self.low), self.high)
        return found

    def _inside(self, low: float, high: float) -> float:
        if low == 0 or high == 0:
            return 0.0
        if not self.whole:
            return (low + high) / 2
        if low >= 0:
            return low if high - low <= 1 else float(math.floor((low + high) / 2))
        return high if high - low <= 1 else float(math.ceil((low + high) / 2))

    def to_json(self) -> dict[str, Any]:
        """Everything, mergeable."""
        return {
            "whole": self.whole,
            "count": self.count,
            "nan": self.nan,
            "infinite": self.infinite,
            "zeros": self.zeros,
            "low": self.low,
            "high": self.high,
            "weighed": self.weighed,
            "total": hex(self.total),
            "squares": hex(self.squares),
            "histogram": self.histogram.to_json(),
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Numbers:
        """Reads what `to_json` wrote."""
        sums = {name: int(doc[name], 16) for name in ("total", "squares")}
        return cls(**{**doc, **sums, "histogram": Histogram.from_json(doc["histogram"])})

    def summary(self) -> dict[str, Any]:
        """The figures that people and checks read, JSON-ready."""
        doc: dict[str, Any] = {
            "count": self.count,
            "min": self.low,
            "max": self.high,
            "mean": self.mean,
            "std": self.std,
            "zeros": self.zeros,
            "quantiles": self.quantiles(),
            "histogram": self.histogram.to_json(),
        }
        if self.nan or self.infinite:
            doc |= {"nan": self.nan, "infinite": self.infinite}
        if self.weighed != self.count - self.nan - self.infinite:
            doc["looked_at"] = self.weighed
        return doc


def _finite(values: np.ndarray) -> tuple[np.ndarray, int, int]:
    """The finite numbers; how many are not a number; how many are infinite."""
    if values.dtype.kind != "f":
        return values, 0, 0
    fine = np.isfinite(values)
    if fine.all():
        return values, 0, 0
    nan = int(np.isnan(values).sum())
    return values[fine], nan, len(values) - int(fine.sum()) - nan


def _divided(above: int, below: int) -> float | None:
    if not below:
        return None
    try:
        return above / below
    except OverflowError:  # beyond float64
        return None


def _whole_sums(values: np.ndarray) -> tuple[int, int]:
    """Exact sum and sum of squares of 64-bit whole numbers."""
    most = max(abs(int(values.min())), abs(int(values.max())))
    if most * most * len(values) < (1 << 63):
        small = values.astype(np.int64)
        return int(small.sum()), int(np.dot(small, small))
    numbers = values.tolist()
    return sum(numbers), sum(x * x for x in numbers)


def _float_sums(values: np.ndarray) -> tuple[int, int]:
    """Exact sum and sum of squares of float32, in units of 2**-149 and 2**-298.

    Numbers of one exponent are whole multiples of one power of two, so their sums stay exact in
    float64 as long as fewer than 2**28 are added at a time.
    """
    bits = values.astype("<f4").view(np.uint32)
    exponent = ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int64)
    fraction = (bits & np.uint32(0x7FFFFF)).astype(np.int64)
    fraction += (exponent > 0).astype(np.int64) << 23
    np.maximum(exponent, 1, out=exponent)
    signed = np.where(bits >> np.uint32(31), -fraction, fraction)
    first = int(exponent.min())
    place = exponent - first
    high, low = fraction >> 12, fraction & 0xFFF
    sums = [
        np.bincount(place, weights=each).astype(np.int64).tolist()
        for each in (signed, high * high, high * low, low * low)
    ]
    total = squares = 0
    for i, (s, hh, hl, ll) in enumerate(zip(*sums, strict=True)):
        shift = first + i - 1
        total += s << shift
        squares += ((hh << 24) + (hl << 13) + ll) << (2 * shift)
    return total, squares
