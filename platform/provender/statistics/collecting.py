"""Statistics of a split, collected from its records in any number of pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from provender.statistics.columns import PADDING, read_columns
from provender.statistics.features import Feature
from provender.statistics.histogram import Numbers
from provender.statistics.schema import Leaf, Schema, leaf_as_stored
from provender.statistics.values import mixed

FORMAT = 1
"""Revision of what is collected; collections of another revision are made anew."""

_RECORDS = 1 << 13
_BYTES = 1 << 22
_PADDING = bytes(PADDING)


class Collection:
    """The statistics of some examples of one split.

    Collecting pieces apart and merging them, in any order, gives the same as collecting
    everything at once.

    Args:
        schema: the features.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.examples = 0
        self.records = Numbers(whole=True)
        self.features: dict[str, Feature] = {
            name: Feature(leaf) for name, leaf in schema.leaves.items()
        }

    def add(
        self, buffer: np.ndarray, starts: np.ndarray, sizes: np.ndarray, ids: np.ndarray
    ) -> None:
        """Takes in records.

        Args:
            buffer: uint8, holds the records.
            starts: int64, where each begins.
            sizes: int64, its bytes.
            ids: uint64, one a record, unlike any other record's of the split, as if drawn at
                random; see `record_ids`. They choose the sample.
        """
        for first, last in _pieces(sizes):
            self._add(buffer, starts[first:last], sizes[first:last], ids[first:last])

    def _add(
        self, buffer: np.ndarray, starts: np.ndarray, sizes: np.ndarray, ids: np.ndarray
    ) -> None:
        ends = starts + sizes
        low, high = int(starts.min()), int(ends.max())
        # Slices of bytes are cheaper than views, and can tell at once whether they are ASCII.
        data = b"".join((buffer[low:high].data, _PADDING))
        part = np.frombuffer(data, np.uint8)
        self.examples += len(sizes)
        self.records.add(sizes)
        for group in read_columns(part, starts - low, ends - low):
            of_group = ids if len(group.rows) == len(ids) else ids[group.rows]
            for key, column in group.columns.items():
                name, has_values = self.schema.place(key)
                if not has_values:
                    continue
                feature = self.features.get(name)
                if feature is None:
                    if not column.kind:
                        continue
                    feature = self.features[name] = Feature(leaf_as_stored(name, column.kind))
                feature.add(data, of_group, column)

    def merge(self, other: Collection) -> None:
        """Takes in what was collected elsewhere."""
        self.examples += other.examples
        self.records.merge(other.records)
        for name, feature in other.features.items():
            if name in self.features:
                self.features[name].merge(feature)
            else:
                self.features[name] = feature

    def to_bytes(self) -> bytes:
        """Everything, mergeable, as JSON that is the same for the same examples."""
        doc = {
            "format": FORMAT,
            "examples": self.examples,
            "records": self.records.to_json(),
            "features": [
                [feature.leaf.to_json(), feature.to_json()]
                for _, feature in sorted(self.features.items())
            ],
        }
        return json.dumps(doc, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Collection:
        """Reads what `to_bytes` wrote.

        Raises:
            ValueError: it is of another revision, or no such thing.
        """
        doc = json.loads(data)
        if not isinstance(doc, dict) or doc.get("format") != FORMAT:
            raise ValueError("statistics of another revision")
        features = [(Leaf.from_json(leaf), each) for leaf, each in doc["features"]]
        found = cls(Schema.of_leaves(leaf for leaf, _ in features))
        found.examples = doc["examples"]
        found.records = Numbers.from_json(doc["records"])
        found.features = {leaf.name: Feature.from_json(leaf, each) for leaf, each in features}
        return found

    def summary(self) -> dict[str, Any]:
        """The figures that people and checks read, JSON-ready: the document that is kept."""
        return {
            "format": FORMAT,
            "examples": self.examples,
            "bytes": self.records.summary() | {"sum": self.records.total},
            "features": {
                name: feature.summary(self.examples)
                for name, feature in sorted(self.features.items())
            },
        }


def _pieces(sizes: np.ndarray) -> Iterable[tuple[int, int]]:
    """Cuts records into pieces small enough for the caches."""
    if not len(sizes):
        return
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + _BYTES, "right"))
        last = min(max(last, first + 1), first + _RECORDS, len(sizes))
        yield first, last
        first = last


def record_ids(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Ids of records from two uint64 that together are unlike any other record's.

    Args:
        high: e.g. half of the key's digest, or the number of the shard.
        low: e.g. its other half, or the place in the shard.
    """
    return mixed(mixed(high) ^ low.astype(np.uint64))


def merged(parts: Iterable[Collection]) -> Collection | None:
    """All that was collected in pieces, together; None where there is no piece."""
    whole: Collection | None = None
    for part in parts:
        if whole is None:
            whole = part
        else:
            whole.merge(part)
    return whole
