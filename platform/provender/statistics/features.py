"""What is known of one feature: a sum of parts that merge exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash

from provender.statistics.columns import BYTES, Column
from provender.statistics.histogram import Numbers
from provender.statistics.pictures import picture
from provender.statistics.schema import BOOL, IMAGE, LABEL, OPAQUE, TEXT, Leaf
from provender.statistics.schema import FLOAT as FLOAT_KIND
from provender.statistics.values import EXACT, Values, mixed, shown

WEIGHED = 64
"""Numbers of one example that enter sums, histogram and values: of more, so many evenly spaced."""

LISTED = 50
"""Frequent values that a summary lists; of values counted one by one it lists all."""

LABELS = 4096
"""Classes that a summary counts one by one."""

_hash = xxhash.xxh3_64_intdigest


@dataclass(slots=True)
class Feature:
    """The statistics of one feature, as far as they have been collected.

    Attributes:
        leaf: which feature.
        present: examples that have a list for it, perhaps an empty one.
        missing: examples of the split without any value (for a sequence: without a list).
        empty: examples whose text or bytes have no length, or whose sequence has none.
        length: values an example, for sequences.
        sizes: bytes of each value, for text, bytes and images.
        characters: code points of each text, see `_code_points`.
        numbers: the numbers, for int and float.
        labels: label -> times, for labels and bools.
        pictures: (format, channels) -> images.
        width, height: of images, in pixels.
        values: different and frequent values.
    """

    leaf: Leaf
    present: int = 0
    missing: int = 0
    empty: int = 0
    length: Numbers | None = None
    sizes: Numbers | None = None
    characters: Numbers | None = None
    numbers: Numbers | None = None
    labels: dict[int, int] = field(default_factory=dict)
    pictures: dict[str, int] = field(default_factory=dict)
    width: Numbers | None = None
    height: Numbers | None = None
    values: Values = field(default_factory=Values)

    def __post_init__(self) -> None:
        kind = self.leaf.kind
        if self.leaf.many and self.length is None:
            self.length = Numbers(whole=True)
        if kind in (TEXT, OPAQUE, IMAGE) and self.sizes is None:
            self.sizes = Numbers(whole=True)
        if kind == TEXT and self.characters is None:
            self.characters = Numbers(whole=True)
        if kind == IMAGE and self.width is None:
            self.width, self.height = Numbers(whole=True), Numbers(whole=True)
        if kind not in (TEXT, OPAQUE, IMAGE, LABEL, BOOL) and self.numbers is None:
            self.numbers = Numbers(whole=kind != FLOAT_KIND)

    def add(self, data: bytes, ids: np.ndarray, column: Column) -> None:
        """Takes in examples.

        Args:
            data: the bytes that the column was read from.
            ids: uint64, one an example.
            column: their values.
        """
        self.present += len(ids)
        none = int(np.count_nonzero(column.counts == 0))
        if self.length is not None:
            self.length.add(column.counts)
            self.empty += none
        else:
            self.missing += none
        if not column.kind:
            return
        if column.kind == BYTES:
            self._add_bytes(data, ids, column)
        else:
            self._add_numbers(ids, column)

    # -- text, bytes, images ----------------------------------------------------------------------

    def _add_bytes(self, data: bytes, ids: np.ndarray, column: Column) -> None:
        if self.sizes is None:  # stored as something else than the schema says
            self.sizes = Numbers(whole=True)
        self.sizes.add(column.sizes)
        if self.length is None:
            self.empty += int(np.count_nonzero(column.sizes == 0))
        begins = column.starts.tolist()
        ends = (column.starts + column.sizes).tolist()
        parts = [data[a:b] for a, b in zip(begins, ends, strict=True)]
        hashes = np.fromiter(map(_hash, parts), np.uint64, len(parts))
        if self.characters is not None:
            self.characters.add(_code_points(data, parts, begins, column.sizes))
        if self.leaf.kind == IMAGE:
            self._add_pictures(parts)
        if self.leaf.kind == TEXT:
            self.values.add(ids, column.counts, hashes, lambda i: shown(parts[i]))
        else:
            self.values.distinct.add(hashes)
            self.values.known = None

    def _add_pictures(self, parts: list[bytes]) -> None:
        found = [picture(part) for part in parts]
        for form, _, _, channels in found:
            name = f"{form}/{channels}"
            self.pictures[name] = self.pictures.get(name, 0) + 1
        sizes = np.array([(w, h) for _, w, h, _ in found if w], np.int64).reshape(-1, 2)
        if self.width is not None and self.height is not None:
            self.width.add(sizes[:, 0])
            self.height.add(sizes[:, 1])

    # -- numbers and labels -------------------------------------------------------------------------

    def _add_numbers(self, ids: np.ndarray, column: Column) -> None:
        values, counts = column.values, column.counts
        if self.leaf.kind in (LABEL, BOOL):
            keys, times = np.unique(values, return_counts=True)
            for key, count in zip(keys.tolist(), times.tolist(), strict=True):
                self.labels[key] = self.labels.get(key, 0) + count
            return
        if self.leaf.unsigned:
            values = values.view(np.uint64)
        if self.numbers is None:
            self.numbers = Numbers(whole=values.dtype.kind != "f")
        weighed, counts = _evenly(values, counts)
        self.numbers.add(values, None if weighed is values else weighed)
        if values.dtype.kind == "f":
            hashes = mixed((weighed + np.float32(0)).view(np.uint32))
        else:
            hashes = mixed(weighed.view(np.uint64))
        form = "{:.7g}" if values.dtype.kind == "f" else "{}"
        self.values.add(ids, counts, hashes, lambda i: form.format(weighed[i].item()))

    # -- together ------------------------------------------------------------------------------------

    def merge(self, other: Feature) -> None:
        """Takes in what was collected elsewhere."""
        for name in ("present", "missing", "empty"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _SUMS:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours is None:
                setattr(self, name, theirs)
            elif theirs is not None:
                ours.merge(theirs)
        for name in ("labels", "pictures"):
            counts = getattr(self, name)
            for key, count in getattr(other, name).items():
                counts[key] = counts.get(key, 0) + count
        self.values.merge(other.values)

    def to_json(self) -> dict[str, Any]:
        """Everything, mergeable."""
        doc: dict[str, Any] = {
            "present": self.present,
            "missing": self.missing,
            "empty": self.empty,
            "labels": sorted(self.labels.items()),
            "pictures": dict(sorted(self.pictures.items())),
            "values": self.values.to_json(),
        }
        for name in _SUMS:
            part = getattr(self, name)
            doc[name] = None if part is None else part.to_json()
        return doc

    @classmethod
    def from_json(cls, leaf: Leaf, doc: Mapping[str, Any]) -> Feature:
        """Reads what `to_json` wrote."""
        sums = {name: None if doc[name] is None else Numbers.from_json(doc[name]) for name in _SUMS}
        return cls(
            leaf,
            doc["present"],
            doc["missing"],
            doc["empty"],
            labels={int(key): count for key, count in doc["labels"]},
            pictures=dict(doc["pictures"]),
            values=Values.from_json(doc["values"]),
            **sums,
        )

    def summary(self, examples: int) -> dict[str, Any]:
        """The figures that people and checks read, JSON-ready.

        Args:
            examples: examples of the split.
        """
        doc: dict[str, Any] = {
            "kind": self.leaf.kind,
            "sequence": self.leaf.many,
            "examples": examples,
            "missing": examples - self.present + self.missing,
            "empty": self.empty,
        }
        names = {"length": "length", "sizes": "bytes", "characters": "characters"}
        names |= {"numbers": "numbers", "width": "width", "height": "height"}
        for name, title in names.items():
            part = getattr(self, name)
            if part is not None and part.count:
                doc[title] = part.summary()
        if self.leaf.kind in (LABEL, BOOL):
            doc["labels"] = self._label_counts()
            doc["distinct"] = {"count": len(self.labels), "exact": True}
            return doc
        if self.pictures:
            doc["pictures"] = dict(sorted(self.pictures.items()))
        if self.present:
            doc["distinct"] = self._distinct()
        if self._has_values and self.present:
            exact = self.values.known is not None and self.leaf.kind == TEXT
            doc["frequent"] = self.values.frequent(EXACT if exact else LISTED)
        return doc

    @property
    def _has_values(self) -> bool:
        return self.leaf.kind not in (OPAQUE, IMAGE)

    def _distinct(self) -> dict[str, Any]:
        """How many different values there are: never more than there are values."""
        found = self.values.count()
        if found["exact"] and self._has_values:
            return found
        every = self.sizes.count if self.sizes is not None else 0
        if self.numbers is not None:
            every = max(every, self.numbers.weighed)
        estimate = found["count"] if self._has_values else self.values.distinct.estimate()
        return {"count": min(estimate, every), "exact": False}

    def _label_counts(self) -> dict[str, Any]:
        """Label -> times, with the declared classes that never come, names where known."""
        declared = 2 if self.leaf.kind == BOOL else self.leaf.classes
        counts = dict.fromkeys(range(min(declared, LABELS)), 0) | self.labels
        names = ("false", "true") if self.leaf.kind == BOOL else self.leaf.labels
        kept = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:LABELS]
        doc: dict[str, Any] = {
            "classes": declared,
            "counts": [[label, count] for label, count in sorted(kept)],
            "names": {str(label): names[label] for label, _ in kept if 0 <= label < len(names)},
        }
        if len(counts) > LABELS or declared > LABELS:
            rest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[LABELS:]
            unused = max(
                0, declared - sum(1 for label, n in self.labels.items() if n and label >= 0)
            )
            doc["others"] = {"examples": sum(n for _, n in rest), "unused_classes": unused}
        return doc


_SUMS = ("length", "sizes", "characters", "numbers", "width", "height")


def _code_points(
    data: bytes, parts: list[bytes], begins: list[int], sizes: np.ndarray
) -> np.ndarray:
    """Code points of each text: its bytes without those that continue one (0x80 to 0xBF).

    Args:
        data: holds the texts.
        parts: the texts.
        begins: where each begins in ``data``.
        sizes: int64, their bytes.
    """
    plain = list(map(bytes.isascii, parts))
    if all(plain):
        return sizes
    continues = np.frombuffer(data, np.int8) < -64
    found = sizes.copy()
    for i, is_plain in enumerate(plain):
        if not is_plain:
            first = begins[i]
            found[i] -= np.count_nonzero(continues[first : first + len(parts[i])])
    return found


def _evenly(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most `WEIGHED` numbers of each example, evenly spaced, and how many those are."""
    if not len(counts) or int(counts.max()) <= WEIGHED:
        return values, counts
    fewer = np.minimum(counts, WEIGHED)
    firsts = np.cumsum(counts) - counts
    place = np.arange(int(fewer.sum())) - np.repeat(np.cumsum(fewer) - fewer, fewer)
    picked = np.repeat(firsts, fewer) + place * np.repeat(counts, fewer) // np.repeat(
        np.maximum(fewer, 1), fewer
    )
    return values[picked], fewer
