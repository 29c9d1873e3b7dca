"""Statistics of a version's splits, prepared to be drawn.

The documents are those that `provender.statistics` keeps with each split. What is missing in one
is not drawn; nothing in it is trusted to be there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from provender.ui import plots
from provender.ui.units import count, number, size

SPLITS = 4
"""Splits whose statistics one page draws."""
FEATURES = 40
"""Features of a split that one page draws."""
_BARS = 12
_COLUMNS = 40
# Buckets are numbered by the upper 18 bits of a float64, one of which is its sign.
_LAST_CODE = (1 << 17) - 2
_GROUPS = (
    ("numbers", "values"),
    ("characters", "characters"),
    ("bytes", "bytes"),
    ("length", "values an example"),
    ("width", "width, pixels"),
    ("height", "height, pixels"),
)


@dataclass(frozen=True)
class Plot:
    """A histogram with its scale.

    Attributes:
        title: what is counted.
        drawing: the histogram, and a box plot below it.
        low: the number at its left end, as text.
        high: at its right end.
        facts: mean, median and the like, as (name, text).
        note: what the drawing leaves out.
    """

    title: str
    drawing: Markup
    low: str
    high: str
    facts: Sequence[tuple[str, str]]
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """A value and how often it comes."""

    label: str
    share: float
    text: str


@dataclass(frozen=True)
class Card:
    """One feature of one split.

    Attributes:
        kind: ``text``, ``image``, ``label`` ...
        facts: what is said in words, as (name, text).
        bars: labels or frequent values.
        bars_title: what the bars are.
        note: what the bars leave out.
    """

    feature: str
    kind: str
    facts: Sequence[tuple[str, str]]
    plots: Sequence[Plot]
    bars: Sequence[Bar] = ()
    bars_title: str = ""
    note: str = ""


@dataclass(frozen=True)
class SplitCards:
    """The features of one split."""

    split: str
    examples: int
    cards: Sequence[Card] = field(default_factory=list)
    left_out: int = 0


def split_cards(statistics: Mapping[str, Mapping[str, Any]]) -> list[SplitCards]:
    """What to draw, split by split.

    Args:
        statistics: split -> document.
    """
    found = []
    for split, document in list(statistics.items())[:SPLITS]:
        features = _mapping(document.get("features"))
        cards = [_card(name, _mapping(each)) for name, each in list(features.items())[:FEATURES]]
        left_out = max(0, len(features) - FEATURES)
        found.append(SplitCards(split, _int(document.get("examples")), cards, left_out))
    return found


def _card(feature: str, doc: Mapping[str, Any]) -> Card:
    absent = [name for name in ("missing", "empty") if doc.get(name)]
    facts = [(name, _of(_int(doc[name]), _int(doc.get("examples")))) for name in absent]
    distinct = _mapping(doc.get("distinct"))
    if distinct.get("count") is not None:
        about = "" if distinct.get("exact") else "about "
        facts.append(("different", f"{about}{count(_int(distinct['count']))}"))
    for form, times in list(_mapping(doc.get("pictures")).items())[:4]:
        name, _, channels = str(form).partition("/")
        facts.append(
            (name, f"{count(times)} with {channels} channel{'' if channels == '1' else 's'}")
        )
    drawn = []
    for key, title in _GROUPS:
        numbers = _mapping(doc.get(key))
        constant = _constant(title, numbers)
        if constant:
            facts.append((title, constant))
        elif (plot := _plot(title, numbers)) is not None:
            drawn.append(plot)
    if doc.get("labels"):
        bars, note = _label_bars(_mapping(doc["labels"]))
        title = "labels"
    else:
        bars, note = _frequent_bars(_mapping(doc.get("frequent")))
        title = "most frequent"
    kind = str(doc.get("kind") or "")
    return Card(
        feature=feature,
        kind=f"{kind}, many an example" if doc.get("sequence") else kind,
        facts=facts,
        plots=drawn,
        bars=bars,
        bars_title=title,
        note=note,
    )


def _constant(title: str, doc: Mapping[str, Any]) -> str:
    """The one number that all are; empty where they differ."""
    low = _float(doc.get("min"))
    if low is None or low != _float(doc.get("max")):
        return ""
    return f"always {_as_text(title)(low)}"


def _as_text(title: str) -> Callable[[float | None], str]:
    return size if title == "bytes" else number


def _plot(title: str, doc: Mapping[str, Any]) -> Plot | None:
    low, high = _float(doc.get("min")), _float(doc.get("max"))
    if low is None or high is None:
        return None
    as_text = _as_text(title)
    quantiles = {name: _float(value) for name, value in _mapping(doc.get("quantiles")).items()}
    facts = [
        (name, as_text(value)) for name, value in _figures(doc, quantiles) if value is not None
    ]
    left, right, note = _window(low, high, quantiles)
    columns = _columns(doc.get("histogram"), left, right)
    points = {"min": left, "max": right, **_quartiles(quantiles)}
    drawing = Markup("")
    if columns:
        drawing = plots.histogram(columns, plots.summary(columns, left, right))
    drawing += plots.box(points, f"median {as_text(quantiles.get('0.5'))}")
    return Plot(title, drawing, as_text(left), as_text(right), facts, note)


def _figures(
    doc: Mapping[str, Any], quantiles: Mapping[str, float | None]
) -> list[tuple[str, float | None]]:
    return [
        ("least", _float(doc.get("min"))),
        ("median", quantiles.get("0.5")),
        ("mean", _float(doc.get("mean"))),
        ("most", _float(doc.get("max"))),
        ("deviation", _float(doc.get("std"))),
        ("not a number", _float(doc.get("nan"))),
        ("infinite", _float(doc.get("infinite"))),
    ]


def _quartiles(quantiles: Mapping[str, float | None]) -> dict[str, float]:
    names = {"p25": "0.25", "p50": "0.5", "p75": "0.75"}
    return {to: value for to, name in names.items() if (value := quantiles.get(name)) is not None}


def _window(
    low: float, high: float, quantiles: Mapping[str, float | None]
) -> tuple[float, float, str]:
    """The part of the range that is drawn: without a tail that would flatten all the rest."""
    first, last = quantiles.get("0.01"), quantiles.get("0.99")
    if first is None or last is None or last <= first or last - first > 0.15 * (high - low):
        return low, high, ""
    return first, last, "drawn without the lowest and the highest hundredth"


def _columns(document: Any, low: float, high: float) -> list[float]:
    """The kept histogram, whose buckets are as fine as its numbers, in columns of equal width."""
    from provender.statistics.histogram import edges

    lists = _list(document)
    if len(lists) != 2 or high <= low:
        return []
    steps = min(_COLUMNS, int(high - low) + 1) if _whole(low, high) else _COLUMNS
    # Whole numbers sit in the middle of their columns.
    half = 0.5 if steps < _COLUMNS else 0.0
    low, high = low - half, high + half
    columns = [0.0] * steps
    width = (high - low) / steps
    for code, times in zip(_list(lists[0]), _list(lists[1]), strict=False):
        if not isinstance(code, int) or abs(code) > _LAST_CODE:
            continue
        a, b = edges(code)
        if b < low or a > high:
            continue
        middle = a if half else (a + min(b, high)) / 2
        at = int((middle - low) / width)
        columns[min(max(at, 0), steps - 1)] += max(0, _int(times))
    return columns


def _whole(low: float, high: float) -> bool:
    return float(low).is_integer() and float(high).is_integer() and high - low < _COLUMNS - 1


def _label_bars(doc: Mapping[str, Any]) -> tuple[list[Bar], str]:
    names = _mapping(doc.get("names"))
    pairs = [each for each in map(_list, _list(doc.get("counts"))) if len(each) == 2]
    counts = [(label, max(0, _int(times))) for label, times in pairs]
    total = sum(times for _, times in counts) or 1
    shown = counts
    note = ""
    if len(counts) > 2 * _BARS:
        shown = sorted(counts, key=lambda each: -each[1])[:_BARS]
        never = sum(times == 0 for _, times in counts)
        note = f"the most frequent {_BARS} of {len(counts):,} labels"
        note += f"; {never:,} never come" if never else ""
    bars = [
        Bar(str(names.get(str(label), label)), times / total, f"{count(times)}")
        for label, times in shown
    ]
    return bars, note


def _frequent_bars(doc: Mapping[str, Any]) -> tuple[list[Bar], str]:
    values = [_mapping(each) for each in _list(doc.get("values"))][:_BARS]
    # Where nothing comes twice there is nothing to rank.
    if doc.get("exact") and all(_int(each.get("count")) < 2 for each in values):
        return [], ""
    bars = []
    for each in values:
        share = _float(each.get("share")) or 0.0
        text = f"≈ {100 * share:.2g} %"
        if each.get("count") is not None:
            text = count(_int(each["count"]))
        bars.append(Bar(str(each.get("value")), share, text))
    note = "" if doc.get("exact", True) or not bars else "estimated from a sample"
    return bars, note


def _of(part: int, whole: int) -> str:
    share = f" ({100 * part / whole:.2g} %)" if whole else ""
    return f"{count(part)}{share}"


_NO_COUNT = 2.0**63


def _int(value: Any) -> int:
    """The count; 0 for what is none, or larger than any count."""
    found = _float(value)
    return 0 if found is None or abs(found) >= _NO_COUNT else int(found)


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _float(value: Any) -> float | None:
    """The number; None for what is none, or is not finite."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
