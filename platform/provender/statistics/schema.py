"""Which features there are and of which kind, from the document ``features.json``.

Only the document is used, not the TFDS feature classes. How a feature's values lie in a
``tf.train.Example`` is TFDS's ``core/example_serializer.py``: nested names are joined by ``/``;
sequences of sequences are ``NAME/ragged_flat_values`` and ``NAME/ragged_row_lengths_0``, 1, ...; a
tensor of several unknown dimensions is ``NAME/shape`` and ``NAME/value``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TEXT, OPAQUE, IMAGE, LABEL, WHOLE, FLOAT, BOOL = (
    "text",
    "bytes",
    "image",
    "label",
    "int",
    "float",
    "bool",
)
"""Kinds of features."""

_RAGGED = re.compile(r"(.*)/(ragged_flat_values|ragged_row_lengths_\d+|shape|value)", re.DOTALL)
_VALUES = ("ragged_flat_values", "value")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A feature that holds values.

    Attributes:
        name: names from the root, joined by ``/``.
        kind: one of the kinds above.
        many: whether an example may have any number of values.
        unsigned: whether its numbers are stored as the bits of signed ones.
        classes: number of classes of a label, 0 where unknown.
        labels: names of the classes, where known.
    """

    name: str
    kind: str
    many: bool = False
    unsigned: bool = False
    classes: int = 0
    labels: tuple[str, ...] = ()

    def to_json(self) -> list[Any]:
        """The leaf as a list."""
        return [self.name, self.kind, self.many, self.unsigned, self.classes, list(self.labels)]

    @classmethod
    def from_json(cls, doc: list[Any]) -> Leaf:
        """Reads what `to_json` wrote."""
        name, kind, many, unsigned, classes, labels = doc
        return cls(name, kind, many, unsigned, classes, tuple(labels))


Labels = Mapping[str, tuple[str, ...]]


class Schema:
    """The features of a dataset.

    Args:
        features: features.json as a document; an empty one will do, for every feature then is
            what it is stored as.
        labels: feature name -> names of its classes.
    """

    def __init__(self, features: Mapping[str, Any], labels: Labels | None = None) -> None:
        self._labels = labels or {}
        if "proto_cls" in features:  # as `FeatureConnector.to_json` has it, features.json has not
            features = {"featuresDict": features.get("content") or {}}
        # TFDS writes them in no order to rely on.
        found = sorted(self._walk(features, (), False), key=lambda leaf: leaf.name)
        self.leaves = {leaf.name: leaf for leaf in found}

    @classmethod
    def of_leaves(cls, leaves: Iterable[Leaf]) -> Schema:
        """A schema whose leaves are known."""
        found = cls({})
        found.leaves = {leaf.name: leaf for leaf in leaves}
        return found

    def place(self, key: str) -> tuple[str, bool]:
        """Which feature a key of a ``tf.train.Example`` belongs to, and whether it has its values."""
        if key in self.leaves:
            return key, True
        found = _RAGGED.fullmatch(key)
        if found and found[1] in self.leaves:
            return found[1], found[2] in _VALUES
        return key, True

    def _walk(self, doc: Mapping[str, Any], path: tuple[str, ...], many: bool) -> Iterator[Leaf]:
        if "featuresDict" in doc:
            for name, inner in (doc["featuresDict"].get("features") or {}).items():
                yield from self._walk(inner, (*path, name), many)
        elif "sequence" in doc:
            yield from self._walk(doc["sequence"].get("feature") or {}, path, True)
        elif "translation" in doc:
            about = doc["translation"]
            varies = about.get("variableLanguagesPerExample")
            parts = ("language", "translation") if varies else about.get("languages", ())
            for name in parts:
                yield Leaf("/".join((*path, name)), TEXT, many or bool(varies))
        elif path and (leaf := self._leaf(doc, "/".join(path), many)) is not None:
            yield leaf

    def _leaf(self, doc: Mapping[str, Any], name: str, many: bool) -> Leaf | None:
        if "text" in doc:
            return Leaf(name, TEXT, many)
        if "classLabel" in doc:
            names = self._labels.get(name, ())
            classes = int(doc["classLabel"].get("numClasses") or len(names))
            return Leaf(name, LABEL, many, classes=classes, labels=names)
        if "video" in doc:
            return Leaf(name, IMAGE, True)
        if "image" in doc:
            return Leaf(name, IMAGE, many)
        for kind in ("tensor", "boundingBox", "audio"):
            if kind in doc:
                return self._tensor(doc[kind], name, many)
        return None

    @staticmethod
    def _tensor(doc: Mapping[str, Any], name: str, many: bool) -> Leaf:
        dtype = str(doc.get("dtype", ""))
        sizes = [int(each) for each in (doc.get("shape") or {}).get("dimensions", ())]
        many = many or any(size < 0 for size in sizes)
        if str(doc.get("encoding") or "none").lower() != "none":
            return Leaf(name, OPAQUE, many)
        if dtype in ("string", "object"):
            return Leaf(name, TEXT, many)
        if dtype == "bool":
            return Leaf(name, BOOL, many)
        if dtype.startswith(("float", "bfloat")):
            return Leaf(name, FLOAT, many)
        return Leaf(name, WHOLE, many, unsigned=dtype == "uint64")


def leaf_as_stored(name: str, kind: int) -> Leaf:
    """A feature that the document does not know, by the kind of its list."""
    return Leaf(name, {1: OPAQUE, 2: FLOAT, 3: WHOLE}[kind], many=True)
