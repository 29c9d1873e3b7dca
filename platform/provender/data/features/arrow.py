"""Features from Arrow types, and features as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from provender.data.errors import FeatureTypeError
from provender.data.features.compound import (
    Json,
)
from provender.data.features.dtypes import dtype_name
from provender.data.features.types import (
    KINDS,
    FeatureType,
    LargeList,
    List,
    Sequence,
    Value,
    lists_of,
)


def feature_of(kind: pa.DataType) -> FeatureType:
    """The feature that an Arrow type has when nothing more is known of it."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.json":
            return Json()
        return feature_of(kind.storage_type)
    if types.is_struct(kind):
        return {each.name: feature_of(each.type) for each in kind}
    if types.is_fixed_size_list(kind):
        return List(feature_of(kind.value_type), length=kind.list_size)
    if types.is_list(kind) or types.is_list_view(kind):
        return List(feature_of(kind.value_type))
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return LargeList(feature_of(kind.value_type))
    if types.is_map(kind):
        return List({"key": feature_of(kind.key_type), "value": feature_of(kind.item_type)})
    return Value(dtype_name(kind))


def to_doc(feature: FeatureType) -> Any:
    """A feature as a JSON-ready document; fields with their default are left out."""
    if isinstance(feature, Mapping):
        return {name: to_doc(each) for name, each in feature.items()}
    doc: dict[str, Any] = {}
    for each in dataclasses.fields(feature):
        value = getattr(feature, each.name)
        if each.name == "feature":
            value = to_doc(value)
        elif value == each.default:
            continue
        doc[each.name] = list(value) if isinstance(value, tuple) else value
    return {**doc, "_type": type(feature).__name__}


def from_doc(doc: Any) -> FeatureType:
    """Reads what `to_doc` wrote.

    Raises:
        FeatureTypeError: a kind of feature that is not known.
    """
    if isinstance(doc, list):
        return lists_of([from_doc(each) for each in doc])
    if "_type" not in doc or isinstance(doc["_type"], Mapping):
        return {name: from_doc(each) for name, each in doc.items()}
    values = dict(doc)
    name = values.pop("_type")
    kind = KINDS.get(name)
    if kind is None:
        raise FeatureTypeError(
            f"There is no feature kind {name!r}.", hint=f"Kinds: {', '.join(sorted(KINDS))}."
        )
    if "feature" in values:
        values["feature"] = from_doc(values["feature"])
    if kind is Sequence:
        return Sequence(**values)
    known = {each.name for each in dataclasses.fields(cast(Any, kind))} | {"num_classes"}
    return kind(**{key: each for key, each in values.items() if key in known})
