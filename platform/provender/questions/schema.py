"""A version's features as a short table of fields, read from features.json alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEEPEST = 32


def fields_of(features: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Features as fields: ``name``, ``type``, and ``fields`` where there are some inside.

    Args:
        features: TFDS's features.json as a document; of any other form only the keys are known.

    Returns:
        The fields in the document's order, JSON-ready. Nesting is followed 32 levels deep.
    """
    if "featuresDict" not in features and "pythonClassName" not in features:
        return [{"name": str(name), "type": "unknown"} for name in features]
    inner = _inside(features)
    if inner is None:
        return [{"name": "", "type": type_of(features)}]
    return _fields(inner, 1)


def type_of(about: Mapping[str, Any]) -> str:
    """A feature's type in short: ``Image(28, 28, 1) uint8``, ``ClassLabel 10 classes``."""
    name = str(about.get("pythonClassName", "")).rpartition(".")[2] or "unknown"
    parts = [name + _shape(about)]
    for value in about.values():
        if not isinstance(value, Mapping):
            continue
        if value.get("dtype"):
            parts.append(str(value["dtype"]))
        if value.get("numClasses"):
            parts.append(f"{value['numClasses']} classes")
    element = _element(about)
    if element is not None and _inside(element) is None:
        parts.append(f"of {type_of(element)}")
    return " ".join(parts)


def _shape(about: Mapping[str, Any]) -> str:
    for value in about.values():
        shape = value.get("shape") if isinstance(value, Mapping) else None
        dimensions = shape.get("dimensions") if isinstance(shape, Mapping) else None
        if dimensions:
            sizes = ["?" if size in ("-1", -1) else str(size) for size in dimensions]
            return f"({', '.join(sizes)})"
    return ""


def _inside(about: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The named features inside a dictionary of features; None where it is none."""
    known = about.get("featuresDict")
    named = known.get("features") if isinstance(known, Mapping) else None
    return named if isinstance(named, Mapping) else None


def _element(about: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a sequence is a sequence of; None where it is none."""
    inner = about.get("sequence")
    element = inner.get("feature") if isinstance(inner, Mapping) else None
    return element if isinstance(element, Mapping) else None


def _fields(named: Mapping[str, Any], depth: int) -> list[dict[str, Any]]:
    found = []
    for name, about in named.items():
        if not isinstance(about, Mapping):
            continue
        field: dict[str, Any] = {"name": str(name), "type": type_of(about)}
        inner = _inside(about)
        element = _element(about)
        # A sequence of sequences of features is walked down to the features.
        for _ in range(_DEEPEST):
            if inner is not None or element is None:
                break
            inner, element = _inside(element), _element(element)
        if inner and depth < _DEEPEST:
            field["fields"] = _fields(inner, depth + 1)
        found.append(field)
    return found
