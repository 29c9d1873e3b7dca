"""Small pictures made on the server: bars, histograms, box plots, the bars of a time chart.

All are inline SVG that takes its colours from the style sheet and its width from the page. Places
are percentages, so that nothing but the page's own text is ever stretched. Each either has a text
alternative or stands beside the number that it shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from provender.ui.units import number

_LEAST = 0.35
"""Per cent: what is there at all is drawn at least so wide."""


def bar(value: float | None, most: float | None, kind: str = "") -> Markup:
    """A bar beside a number: ``value`` of ``most``. Hidden from screen readers, who have the number.

    Args:
        value: what it shows.
        most: what a full bar means.
        kind: a class of the style sheet.
    """
    part = _share(value, most)
    fill = Markup("")
    if part > 0:
        fill = Markup('<rect class="fill" width="{}%" height="8" y="1" rx="1"/>').format(_p(part))
    return Markup(
        '<svg class="bar {}" aria-hidden="true" height="10"><rect class="track" width="100%"'
        ' height="8" y="1" rx="1"/>{}</svg>'
    ).format(kind, fill)


def histogram(counts: Sequence[float], label: str) -> Markup:
    """Columns of equal width.

    Args:
        counts: their heights.
        label: says in words what is shown.
    """
    most = max(counts, default=0)
    step = 100 / max(len(counts), 1)
    columns = []
    for at, each in enumerate(counts):
        tall = _share(each, most)
        if tall > 0:
            tall = max(tall, 1.2)
            columns.append(
                Markup('<rect x="{}%" y="{}%" width="{}%" height="{}%"/>').format(
                    _p(at * step), _p(100 - tall), _p(step * 0.92), _p(tall)
                )
            )
    return _figure("histogram", label, 64, columns)


def box(points: Mapping[str, float], label: str) -> Markup:
    """Minimum, quartiles and maximum on one line.

    Args:
        points: ``min``, ``p25``, ``p50``, ``p75``, ``max``; those that are missing are not drawn.
        label: says in words what is shown.
    """
    low, high = points.get("min"), points.get("max")
    if low is None or high is None or not _finite(low, high):
        return Markup("")

    def at(name: str) -> float | None:
        value = points.get(name)
        if value is None or not _finite(value):
            return None
        return 50.0 if high == low else 100 * (value - low) / (high - low)

    parts = [Markup('<line class="axis" x1="0" x2="100%" y1="50%" y2="50%"/>')]
    left, middle, right = at("p25"), at("p50"), at("p75")
    if left is not None and right is not None:
        parts.append(
            Markup('<rect class="middle" x="{}%" width="{}%" y="20%" height="60%"/>').format(
                _p(left), _p(max(right - left, _LEAST))
            )
        )
    if middle is not None:
        parts.append(
            Markup('<line class="median" x1="{0}%" x2="{0}%" y1="8%" y2="92%"/>').format(_p(middle))
        )
    return _figure("box", label, 22, parts)


def span(start: float, end: float, total: float, kind: str) -> Markup:
    """One row of a time chart.

    Args:
        start: seconds after the chart's beginning.
        end: the same; not before ``start``.
        total: seconds that the chart is wide.
        kind: state, a class of the style sheet.
    """
    left = min(_share(start, total), 100 - _LEAST)
    wide = min(max(_share(end - start, total), _LEAST), 100 - left)
    return Markup(
        '<svg class="span" aria-hidden="true" height="16">{}<rect class="{}" x="{}%" width="{}%"'
        ' y="3" height="10" rx="1.5"/></svg>'
    ).format(_grid(), kind, _p(left), _p(wide))


def no_span() -> Markup:
    """A row of a time chart for what took no time because it was there already."""
    return Markup(
        '<svg class="span" aria-hidden="true" height="16">{}<circle class="hit" cx="6" cy="8"'
        ' r="3.5"/></svg>'
    ).format(_grid())


def ticks(total: float) -> list[float]:
    """Where a time chart of so many seconds has its four marks, in seconds."""
    return [total * part / 4 for part in range(5)]


def summary(counts: Sequence[float], low: float, high: float) -> str:
    """A histogram in words."""
    total = sum(counts)
    if not counts or not total:
        return "no values"
    most = max(range(len(counts)), key=counts.__getitem__)
    step = (high - low) / len(counts)
    where = f"{number(low + most * step)} to {number(low + (most + 1) * step)}"
    return (
        f"{total:,.0f} values from {number(low)} to {number(high)} in {len(counts)} columns; "
        f"the fullest holds {100 * counts[most] / total:.0f} per cent, {where}"
    )


def _grid() -> Markup:
    lines = "".join(
        f'<line class="grid" x1="{x}%" x2="{x}%" y1="0" y2="100%"/>' for x in (25, 50, 75)
    )
    return Markup(lines)  # noqa: S704 - no text of others in it


def _figure(kind: str, label: str, height: int, parts: Sequence[Markup]) -> Markup:
    return Markup('<svg class="{}" role="img" aria-label="{}" height="{}">{}</svg>').format(
        kind, label, height, Markup("").join(parts)
    )


def _share(value: float | None, most: float | None) -> float:
    """Per cent, between 0 and 100."""
    if value is None or not most or not _finite(value, most) or most <= 0 or value <= 0:
        return 0.0
    return min(100.0, 100 * value / most)


def _finite(*values: float) -> bool:
    return all(isinstance(each, (int, float)) and math.isfinite(each) for each in values)


def _p(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
