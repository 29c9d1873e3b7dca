"""Distributions in a few characters: small histograms and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_LEVELS = "▁▂▃▄▅▆▇█"
_BAR = "█"


def spark(numbers: Mapping[str, Any], width: int = 16) -> str:
    """A histogram of one line, from the 1 % to the 99 % quantile; what lies outside is at its ends.

    Args:
        numbers: the figures of numbers, as `provender.statistics` gives them.
        width: number of bins.
    """
    return levels(bins(numbers, width))


def bins(numbers: Mapping[str, Any], width: int) -> list[float]:
    """Counts of equal bins between two quantiles.

    A bucket of the histogram is divided evenly among the bins that it covers.
    """
    from provender.statistics.edges import edges

    quantiles = numbers.get("quantiles") or {}
    low, high = quantiles.get("0.01"), quantiles.get("0.99")
    codes, counts = numbers.get("histogram") or ([], [])
    if low is None or high is None or not codes:
        return []
    found = [0.0] * width
    step = (high - low) / width or 1.0
    for code, count in zip(codes, counts, strict=True):
        first, last = (min(max((edge - low) / step, 0), width - 1e-9) for edge in edges(code))
        if last - first <= 1e-9:
            found[int(first)] += count
            continue
        for i in range(int(first), int(last) + 1):
            share = (min(last, i + 1) - max(first, i)) / (last - first)
            found[i] += count * share
    return found


def levels(counts: Sequence[float]) -> str:
    """One character a count, as high as the count is large; empty ones are blank."""
    most = max(counts, default=0)
    if not most:
        return ""
    return "".join(
        _LEVELS[min(len(_LEVELS) - 1, int(count / most * len(_LEVELS)))] if count > 0 else " "
        for count in counts
    )


def bar(share: float, width: int = 24) -> str:
    """A bar as long as a share of 1."""
    return _BAR * round(max(0.0, min(1.0, share)) * width) or ("▏" if share > 0 else "")


def figure(value: float | None) -> str:
    """A number with as many digits as tell something: ``12,345``, ``0.0125``, ``3.14``."""
    if value is None:
        return ""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e9 else f"{value:.4g}"
