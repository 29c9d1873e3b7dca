"""How many different values there are, and which are frequent.

Up to `EXACT` different values all are counted. Beyond that the number of different values is
estimated from HyperLogLog registers (Flajolet et al. 2007, with the estimator of Ertl 2017,
"New cardinality estimation algorithms for HyperLogLog sketches", algorithm 6), and frequent values
from a sample of examples: those with the smallest random ids, which depend on the examples alone.
Neither depends on how the examples were divided among workers.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

EXACT = 256
"""Different values that are counted one by one."""

SAMPLE = 1024
"""Examples in a sample, at most; at least half of it once there are so many."""

MOST_VALUES = 16
"""Values of one example that enter the sample."""

SHOWN = 48
"""Characters of a value that are kept."""

_GLANCE = 4 * EXACT
_BITS = 11
_REGISTERS = 1 << _BITS
_REST = 64 - _BITS

Show = Callable[[int], str]
"""From the position of a value to its text."""


def mixed(values: np.ndarray) -> np.ndarray:
    """64-bit hashes of 64-bit numbers (the finalizer of SplitMix64, Steele et al. 2014)."""
    x = values.astype(np.uint64, copy=True)
    x += np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


@dataclass(slots=True)
class Distinct:
    """HyperLogLog: 2,048 registers, standard error 2.3 %."""

    registers: np.ndarray = field(default_factory=lambda: np.zeros(_REGISTERS, np.uint8))

    def add(self, hashes: np.ndarray) -> None:
        """Takes in 64-bit hashes."""
        place = (hashes >> np.uint64(_REST)).astype(np.int64)
        rest = hashes & np.uint64((1 << _REST) - 1)
        # 53 bits fit a float64, whose exponent is the number of bits.
        rank = _REST + 1 - np.frexp(rest.astype(np.float64))[1]
        np.maximum.at(self.registers, place, rank.astype(np.uint8))

    def merge(self, other: Distinct) -> None:
        """Takes in what was found elsewhere."""
        np.maximum(self.registers, other.registers, out=self.registers)

    def estimate(self) -> int:
        """The number of different hashes."""
        counts = np.bincount(self.registers, minlength=_REST + 2).tolist()
        m = _REGISTERS
        z = m * _tau((m - counts[_REST + 1]) / m)
        for rank in range(_REST, 0, -1):
            z = 0.5 * (z + counts[rank])
        z += m * _sigma(counts[0] / m)
        return round(m * m / (2 * math.log(2) * z)) if math.isfinite(z) else 0

    def to_json(self) -> str:
        """The registers, base64."""
        return base64.b64encode(self.registers.tobytes()).decode()

    @classmethod
    def from_json(cls, text: str) -> Distinct:
        """Reads what `to_json` wrote."""
        return cls(np.frombuffer(base64.b64decode(text), np.uint8).copy())


def _sigma(x: float) -> float:
    if x == 1:
        return math.inf
    y, z = 1.0, x
    while True:
        x *= x
        before = z
        z += x * y
        y += y
        if z == before:
            return z


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z = 1.0, 1 - x
    while True:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
        if z == before:
            return z / 3


@dataclass(slots=True)
class Sample:
    """The values of some examples, chosen by their ids.

    An example is in the sample if the first ``level`` bits of its id are zero; the level is the
    lowest at which no more than `SAMPLE` examples are.

    Attributes:
        level: number of leading zero bits asked for.
        members: id -> texts of the example's values.
    """

    level: int = 0
    members: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def add(self, ids: np.ndarray, firsts: np.ndarray, counts: np.ndarray, show: Show) -> None:
        """Takes in examples.

        Args:
            ids: uint64, one an example; unlike any other example's.
            firsts: int64, position of the first value of each example.
            counts: int64, its values.
            show: gives the text of a value.
        """
        wanted = counts > 0
        if self.level:
            wanted &= ids < np.uint64(1 << (64 - self.level))
        chosen = np.flatnonzero(wanted)
        if len(chosen) + len(self.members) > SAMPLE:
            every = np.concatenate(
                [ids[chosen], np.fromiter(self.members, np.uint64, len(self.members))]
            )
            self._raise(every)
            chosen = (
                chosen[ids[chosen] < np.uint64(1 << (64 - self.level))] if self.level else chosen
            )
        for i in chosen.tolist():
            first = int(firsts[i])
            last = first + min(int(counts[i]), MOST_VALUES)
            self.members[int(ids[i])] = tuple(map(show, range(first, last)))

    def _raise(self, ids: np.ndarray) -> None:
        """Raises the level until few enough of the ids are left, and drops the others."""
        level = self.level
        while len(ids) > SAMPLE:
            level += 1
            ids = ids[ids < np.uint64(1 << (64 - level))]
        self.level = level
        if level:
            bound = 1 << (64 - level)
            self.members = {id: texts for id, texts in self.members.items() if id < bound}

    def merge(self, other: Sample) -> None:
        """Takes in what was found elsewhere."""
        self.level = max(self.level, other.level)
        self.members.update(other.members)
        bound = 1 << (64 - self.level)
        self.members = {id: texts for id, texts in self.members.items() if id < bound}
        self._raise(np.fromiter(self.members, np.uint64, len(self.members)))

    def shares(self) -> dict[str, float]:
        """Value -> its share of the sample's values."""
        counts: dict[str, int] = {}
        for texts in self.members.values():
            for text in texts:
                counts[text] = counts.get(text, 0) + 1
        total = sum(counts.values())
        return {text: count / total for text, count in counts.items()} if total else {}

    def to_json(self) -> dict[str, Any]:
        """Everything, mergeable."""
        members = {f"{id:x}": list(texts) for id, texts in sorted(self.members.items())}
        return {"level": self.level, "members": members}

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Sample:
        """Reads what `to_json` wrote."""
        members = {int(id, 16): tuple(texts) for id, texts in doc["members"].items()}
        return cls(doc["level"], members)


@dataclass(slots=True)
class Values:
    """The values of one feature.

    Attributes:
        known: hash -> (count, text) while there are at most `EXACT` of them, else None.
        distinct: estimates their number.
        sample: estimates which are frequent.
    """

    known: dict[int, tuple[int, str]] | None = field(default_factory=dict)
    distinct: Distinct = field(default_factory=Distinct)
    sample: Sample = field(default_factory=Sample)

    def add(self, ids: np.ndarray, counts: np.ndarray, hashes: np.ndarray, show: Show) -> None:
        """Takes in the values of examples.

        Args:
            ids: uint64, one an example.
            counts: int64, values of each example.
            hashes: uint64, one a value.
            show: gives the text of a value.
        """
        if not len(hashes):
            return
        self.distinct.add(hashes)
        self.sample.add(ids, np.cumsum(counts) - counts, counts, show)
        if self.known is None:
            return
        if len(hashes) > _GLANCE and len(np.unique(hashes[:_GLANCE])) > EXACT:
            self.known = None  # no need to sort them all
            return
        unique, first, times = np.unique(hashes, return_index=True, return_counts=True)
        if len(unique) > EXACT:
            self.known = None
            return
        for key, at, count in zip(unique.tolist(), first.tolist(), times.tolist(), strict=True):
            before = self.known.get(key)
            self.known[key] = (
                (count, show(at)) if before is None else (before[0] + count, before[1])
            )
        if len(self.known) > EXACT:
            self.known = None

    def merge(self, other: Values) -> None:
        """Takes in what was found elsewhere."""
        self.distinct.merge(other.distinct)
        self.sample.merge(other.sample)
        if self.known is None or other.known is None:
            self.known = None
            return
        for key, (count, text) in other.known.items():
            before = self.known.get(key)
            self.known[key] = (count, text) if before is None else (before[0] + count, before[1])
        if len(self.known) > EXACT:
            self.known = None

    def to_json(self) -> dict[str, Any]:
        """Everything, mergeable."""
        known = None
        if self.known is not None:
            known = {f"{key:x}": [*each] for key, each in sorted(self.known.items())}
        return {
            "known": known,
            "distinct": self.distinct.to_json(),
            "sample": self.sample.to_json(),
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Values:
        """Reads what `to_json` wrote."""
        known = None
        if doc["known"] is not None:
            known = {int(key, 16): (each[0], each[1]) for key, each in doc["known"].items()}
        return cls(known, Distinct.from_json(doc["distinct"]), Sample.from_json(doc["sample"]))

    def count(self) -> dict[str, Any]:
        """``count`` of different values, and whether it is ``exact``."""
        if self.known is not None:
            return {"count": len(self.known), "exact": True}
        return {"count": max(self.distinct.estimate(), EXACT + 1), "exact": False}

    def frequent(self, most: int) -> dict[str, Any]:
        """The most frequent values with their shares, and whether they are ``exact``."""
        if self.known is not None:
            total = sum(count for count, _ in self.known.values())
            found = sorted(self.known.items(), key=lambda each: (-each[1][0], each[1][1], each[0]))
            values = [
                {"value": text, "count": count, "share": count / total}
                for _, (count, text) in found[:most]
            ]
            return {"exact": True, "values": values}
        # One member alone says nothing about how often its value comes.
        least = 2 / max(1, sum(map(len, self.sample.members.values())))
        ranked = sorted(self.sample.shares().items(), key=lambda each: (-each[1], each[0]))
        values = [{"value": text, "share": s} for text, s in ranked[:most] if s >= least]
        return {"exact": False, "sample": len(self.sample.members), "values": values}


def shown(data: bytes | Sequence[int]) -> str:
    """The beginning of a text as it is kept."""
    raw = bytes(data[: 4 * SHOWN + 4])
    text = raw.decode("utf-8", "replace")
    return text if len(text) <= SHOWN and len(raw) == len(data) else text[: SHOWN - 1] + "…"
