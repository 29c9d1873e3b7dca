"""Documents of a version turned into rows: features, dataset_info, statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provender.ui.text import web_address

_DEEPEST = 12
_MOST_ROWS = 2_000


@dataclass(frozen=True)
class FeatureRow:
    """One feature of a version, as a row of a table.

    Attributes:
        name: its own name.
        depth: how deep it is nested, from 0.
        kind: class of the feature, e.g. ``ClassLabel``.
        dtype: type of its values, where it has one.
        shape: e.g. ``8 × 8 × 1``; empty for single values.
        about: number of classes, encoding and the like.
    """

    name: str
    depth: int
    kind: str
    dtype: str
    shape: str
    about: str


def feature_rows(features: Mapping[str, Any]) -> list[FeatureRow]:
    """The features of features.json, nested ones below their parents."""
    rows: list[FeatureRow] = []
    for row in _walk(features, 0):
        rows.append(row)
        if len(rows) >= _MOST_ROWS:
            break
    return rows


def _walk(doc: Mapping[str, Any], depth: int) -> Iterator[FeatureRow]:
    inner = _mapping(_mapping(doc.get("featuresDict")).get("features"))
    for name, about in inner.items():
        about = _mapping(about)
        dtype, shape, rest = _details(about)
        yield FeatureRow(str(name), depth, _kind(about), dtype, shape, rest)
        if depth < _DEEPEST:
            nested = (
                _mapping(about.get("sequence")).get("feature") if "sequence" in about else about
            )
            yield from _walk(_mapping(nested), depth + 1)


def _kind(about: Mapping[str, Any]) -> str:
    return str(about.get("pythonClassName", "")).rpartition(".")[2]


def _details(about: Mapping[str, Any]) -> tuple[str, str, str]:
    """Type, shape, and what else is told."""
    dtype, shape, rest = "", "", []
    for name, value in about.items():
        if not isinstance(value, Mapping) or name in ("featuresDict", "sequence"):
            continue
        sizes = _mapping(value.get("shape")).get("dimensions") or ()
        shape = shape or " × ".join("?" if str(each) == "-1" else str(each) for each in sizes)
        dtype = dtype or str(value.get("dtype") or "")
        if value.get("numClasses"):
            rest.append(f"{value['numClasses']} classes")
        if value.get("encodingFormat"):
            rest.append(str(value["encodingFormat"]))
        if value.get("languages"):
            rest.append(", ".join(map(str, value["languages"])))
    inner = _mapping(_mapping(about.get("sequence")).get("feature"))
    if inner and "featuresDict" not in inner:
        inner_dtype, inner_shape, inner_rest = _details(inner)
        dtype, shape = dtype or inner_dtype, f"? × {inner_shape}" if inner_shape else "?"
        rest += [f"of {_kind(inner)}", *([inner_rest] if inner_rest else [])]
    return dtype, shape, ", ".join(rest)


@dataclass(frozen=True)
class About:
    """What the builder says of its dataset.

    Attributes:
        homepage: an ``http(s)`` address, or None.
        homepage_text: what stands there where it is no such address.
    """

    description: str
    citation: str
    licence: str
    notes: str
    homepage: str | None
    homepage_text: str


def about(info: Mapping[str, Any], version: str) -> About:
    """What ``dataset_info`` in a version's record says."""
    doc = _mapping(info.get("dataset_info"))
    urls = _mapping(doc.get("location")).get("urls") or ()
    first = str(next(iter(urls), "")) if isinstance(urls, (list, tuple)) else ""
    licence = _mapping(doc.get("redistributionInfo")).get("license") or ""
    return About(
        description=str(doc.get("description") or ""),
        citation=str(doc.get("citation") or ""),
        licence=str(licence),
        notes=str(_mapping(doc.get("releaseNotes")).get(version) or ""),
        homepage=web_address(first),
        homepage_text=first,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
