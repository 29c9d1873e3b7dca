"""How far two sets of figures lie apart, feature by feature.

The measure is the Jensen-Shannon distance with base-2 logarithms (Lin 1991; Endres and Schindelin
2003): 0 for equal distributions, 1 for distributions that share nothing. What is compared:

- labels and bools: the shares of the classes;
- numbers, bytes, characters, lengths, widths and heights: the shares of ten or fewer bins, cut
  at the deciles of the first of the two, with one more bin on either side of what it had;
- text with at most 256 different values on both sides: the shares of the values;
- always: the share of missing and of empty values.

The drift of a feature is the largest of these.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from provender.statistics.edges import edges

Document = Mapping[str, Any]
_NUMBERS = ("numbers", "bytes", "characters", "length", "width", "height")
_BINS = 10


@dataclass(frozen=True, slots=True)
class Drift:
    """How far one feature of a split moved.

    Attributes:
        split: split name.
        feature: feature name.
        distance: the largest of ``parts``.
        parts: what was compared -> its distance.
        before, after: a few figures of either side, by name.
    """

    split: str
    feature: str
    distance: float
    parts: Mapping[str, float]
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def main(self) -> str:
        """The part that moved most."""
        return max(self.parts, key=lambda name: self.parts[name], default="")

    def to_json(self) -> dict[str, Any]:
        """The drift, JSON-ready."""
        return asdict(self)


def distance(p: Mapping[Any, float], q: Mapping[Any, float]) -> float:
    """The Jensen-Shannon distance (base 2) of two sets of counts or shares."""
    all_p, all_q = math.fsum(p.values()), math.fsum(q.values())
    if not all_p or not all_q:
        return 0.0 if all_p == all_q else 1.0
    terms = []
    for key in p.keys() | q.keys():
        a, b = p.get(key, 0) / all_p, q.get(key, 0) / all_q
        middle = (a + b) / 2
        terms += [x * math.log2(x / middle) for x in (a, b) if x > 0]
    return math.sqrt(min(1.0, max(0.0, math.fsum(terms) / 2)))


def drift(before: Document, after: Document, split: str = "") -> list[Drift]:
    """Compares the figures of one split of two versions.

    Args:
        before: figures of the first, as `Collection.summary` gives them.
        after: figures of the second.
        split: its name, for the result.

    Returns:
        One for each feature that both have with one kind, in their order.
    """
    found = []
    ours, theirs = before.get("features") or {}, after.get("features") or {}
    for name, one in ours.items():
        other = theirs.get(name)
        if other is None or other["kind"] != one["kind"]:
            continue
        parts = _parts(one, other)
        most = max(parts.values(), default=0.0)
        found.append(Drift(split, name, most, parts, _figures(one), _figures(other)))
    return found


def _parts(one: Document, other: Document) -> dict[str, float]:
    parts: dict[str, float] = {}
    if "labels" in one and "labels" in other:
        parts["labels"] = distance(*_classes(one["labels"], other["labels"]))
    for name in _NUMBERS:
        if name in one and name in other:
            parts[name] = numbers_distance(one[name]["histogram"], other[name]["histogram"])
        elif name in one or name in other:
            parts[name] = 1.0
    if one["kind"] == "text" and all(_is_whole(each) for each in (one, other)):
        parts["values"] = distance(_shares(one), _shares(other))
    for name in ("missing", "empty"):
        parts[name] = distance(_part_of(one, name), _part_of(other, name))
    return parts


def _classes(one: Document, other: Document) -> tuple[dict[Any, int], dict[Any, int]]:
    """Counts by class; by the classes' names where both sides have them."""
    named = bool(one["names"]) and bool(other["names"])
    sides = []
    for each in (one, other):
        counts: dict[Any, int] = {}
        for label, count in each["counts"]:
            key = each["names"].get(str(label), label) if named else label
            counts[key] = counts.get(key, 0) + count
        if rest := each.get("others", {}).get("examples"):
            counts["others"] = rest
        sides.append(counts)
    return sides[0], sides[1]


def numbers_distance(one: list[list[int]], other: list[list[int]]) -> float:
    """The distance of two histograms, in bins cut at the deciles of the first."""
    cuts = _cuts(one)
    sides = []
    for codes, counts in (one, other):
        bins: dict[int, float] = {}
        for code, count in zip(codes, counts, strict=True):
            place = bisect_right(cuts, edges(code)[0])
            bins[place] = bins.get(place, 0) + count
        sides.append(bins)
    return distance(*sides)


def _cuts(histogram: list[list[int]]) -> list[float]:
    """Lower edges of the buckets that hold the deciles, the first edge and the last one."""
    buckets = sorted((*edges(code), n) for code, n in zip(*histogram, strict=True))
    total, seen, wanted = sum(n for _, _, n in buckets), 0, 1
    cuts = {buckets[0][0], buckets[-1][1]} if buckets else set()
    for low, _, count in buckets:
        seen += count
        while wanted < _BINS and seen * _BINS > wanted * total:
            cuts.add(low)
            wanted += 1
    return sorted(cuts)


def _is_whole(doc: Document) -> bool:
    return bool(doc.get("frequent", {}).get("exact"))


def _shares(doc: Document) -> dict[str, float]:
    shares: dict[str, float] = {}
    for each in doc["frequent"]["values"]:
        shares[each["value"]] = shares.get(each["value"], 0) + each["count"]
    return shares


def _part_of(doc: Document, name: str) -> dict[bool, float]:
    return {True: doc[name], False: doc["examples"] - doc[name]}


def _figures(doc: Document) -> dict[str, Any]:
    found = {name: doc[name] for name in ("examples", "missing", "empty")}
    for name in _NUMBERS:
        if name in doc:
            found |= {f"{name} {each}": doc[name][each] for each in ("min", "mean", "max")}
    if "distinct" in doc:
        found["distinct"] = doc["distinct"]["count"]
    return found
