"""`Features`: the columns of a dataset, by name."""

from __future__ import annotations

import copy as copying
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from provender.data.errors import FeatureTypeError, unknown_column
from provender.data.features.arrow import feature_of, from_doc, to_doc
from provender.data.features.encoding import decode_nested, decodes, encode_nested, plain
from provender.data.features.types import FeatureType, LargeList, List, Value, lists_of, type_of

_log = logging.getLogger("provender.data")

METADATA = b"huggingface"
"""Schema metadata that holds the features; the key and layout are those of Hugging Face Datasets,
so that Arrow and Parquet files of either are read with class names, images and shapes by the other."""


class Features(dict[str, FeatureType]):
    """The columns of a dataset: name -> feature, in order.

    A feature is a `Value`, `ClassLabel`, `List`, `LargeList`, `Array2D` ... `Array5D`, `Image`,
    `Audio`, `Video`, `Translation`, `TranslationVariableLanguages`, `Json`, or a dict of features.

    Raises:
        FeatureTypeError: something is not a feature.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, feature in self.items():
            super().__setitem__(name, lists_of(feature))

    def __setitem__(self, name: str, feature: FeatureType) -> None:
        super().__setitem__(name, lists_of(feature))

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As `dict.update`; old spellings of lists are understood."""
        for name, feature in dict(*args, **kwargs).items():
            self[name] = feature

    def setdefault(self, name: str, feature: FeatureType = None) -> FeatureType:
        """As `dict.setdefault`; old spellings of lists are understood."""
        if name not in self:
            self[name] = feature
        return self[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Features, (dict(self),)

    # --- Arrow --------------------------------------------------------------------------------

    @property
    def type(self) -> pa.DataType:
        """The Arrow struct type of a row."""
        return pa.struct([pa.field(name, type_of(each)) for name, each in self.items()])

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema, with the features in its metadata."""
        doc = json.dumps({"info": {"features": self.to_dict()}})
        return pa.schema(list(self.type)).with_metadata({METADATA: doc.encode()})

    @classmethod
    def from_arrow_schema(cls, schema: pa.Schema) -> Features:
        """The features of a schema: from its metadata where that fits, else from its types.

        Kinds of features that are not known here, in files of others, are told of in the log.
        """
        known = _in_metadata(schema)
        made = {}
        for field in schema:
            feature = known.get(field.name)
            kind = field.type
            if isinstance(kind, pa.BaseExtensionType):
                kind = kind.storage_type
            fits = feature is not None and type_of(feature) == kind
            made[field.name] = feature if fits else feature_of(field.type)
        return cls(made)

    # --- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready document that `from_dict` reads."""
        return {name: to_doc(each) for name, each in self.items()}

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> Features:
        """Reads what `to_dict` wrote.

        Raises:
            FeatureTypeError: a kind of feature that is not known.
        """
        return cls({name: from_doc(each) for name, each in doc.items()})

    # --- TFDS ---------------------------------------------------------------------------------

    @classmethod
    def from_tfds(
        cls, features_json: Mapping[str, Any], labels: Mapping[str, Sequence[str]]
    ) -> Features:
        """The features of a published version, see `provender.data.features.tfds.from_tfds`."""
        from provender.data.features.tfds import from_tfds

        return from_tfds(features_json, labels)

    def to_tfds(self) -> Any:
        """The TFDS FeaturesDict, see `provender.data.features.tfds.to_tfds`."""
        from provender.data.features.tfds import to_tfds

        return to_tfds(self)

    # --- values -------------------------------------------------------------------------------

    def encode_example(self, example: Mapping[str, Any]) -> dict[str, Any]:
        """A row as it is stored; columns that the row lacks are None.

        Raises:
            FeatureTypeError: a value cannot be stored; names the column.
        """
        if not isinstance(example, Mapping):
            raise FeatureTypeError(f"A row is a dict, not {type(example).__name__}.")
        return {name: self._encode(name, plain(example.get(name))) for name in self}

    def encode_column(self, column: Sequence[Any], column_name: str) -> list[Any]:
        """A column's values as they are stored."""
        return [self._encode(column_name, plain(each)) for each in column]

    def encode_batch(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Columns as they are stored.

        Raises:
            ColumnError: the columns are not those of the features.
            FeatureTypeError: a value cannot be stored.
        """
        for name in [*batch, *self]:
            if name not in self or name not in batch:
                raise unknown_column(name, self if name in batch else batch, "batch")
        return {name: self.encode_column(column, name) for name, column in batch.items()}

    def _encode(self, name: str, value: Any) -> Any:
        try:
            return encode_nested(self[name], value)
        except FeatureTypeError as error:
            if error.where is None:
                error.where = f"column {name!r}"
            raise
        except (TypeError, ValueError, AttributeError) as error:
            from provender.data.features.casting import refused

            raise refused(name, None, value, self[name], error) from error

    def decode_example(self, example: Mapping[str, Any]) -> dict[str, Any]:
        """A stored row as people read it: images decoded, JSON parsed."""
        return {
            name: decode_nested(self[name], value)
            if name in self and decodes(self[name])
            else value
            for name, value in example.items()
        }

    decode_row = decode_example

    def decode_column(self, column: Sequence[Any], column_name: str) -> Sequence[Any]:
        """A column's stored values as people read them."""
        feature = self[column_name]
        return [decode_nested(feature, each) for each in column] if decodes(feature) else column

    def decode_batch(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Columns of stored values as people read them."""
        return {
            name: self.decode_column(column, name) if name in self else column
            for name, column in batch.items()
        }

    # --- other features -----------------------------------------------------------------------

    def copy(self) -> Features:
        """A deep copy."""
        return copying.deepcopy(self)

    def reorder_fields_as(self, other: Mapping[str, FeatureType]) -> Features:
        """The same features in the order of others, however deep.

        Raises:
            FeatureTypeError: the names differ.
        """
        return Features(_reordered(self, other, ""))

    def flatten(self, max_depth: int = 16) -> Features:
        """Dicts taken apart: ``{"a": {"b": x}}`` becomes ``{"a.b": x}``.

        Args:
            max_depth: how many levels.
        """
        flat = self.copy()
        for _ in range(1, max_depth):
            made: dict[str, FeatureType] = {}
            for name, feature in flat.items():
                parts = feature if isinstance(feature, dict) else None
                if parts is None and hasattr(feature, "flatten"):
                    inner = feature.flatten()
                    parts = inner if isinstance(inner, dict) else None
                if parts is None:
                    made[name] = feature
                else:
                    made.update({f"{name}.{key}": each for key, each in parts.items()})
            if list(made) == list(flat):
                break
            flat = Features(made)
        return flat


def _in_metadata(schema: pa.Schema) -> dict[str, FeatureType]:
    if not schema.metadata or METADATA not in schema.metadata:
        return {}
    doc = (json.loads(schema.metadata[METADATA]).get("info") or {}).get("features") or {}
    found = {}
    for name, each in doc.items():
        try:
            found[name] = lists_of(from_doc(each))
        except FeatureTypeError as error:
            _log.warning("Column %r is read by its Arrow type alone: %s", name, error.message)
    return found


def _reordered(source: FeatureType, target: FeatureType, where: str) -> FeatureType:
    if isinstance(source, Mapping):
        if not isinstance(target, Mapping) or set(source) != set(target):
            raise FeatureTypeError(
                f"The fields differ: {_names(source)} and {_names(target)}.", where=where or None
            )
        return {name: _reordered(source[name], target[name], f"{where}/{name}") for name in target}
    if isinstance(source, List | LargeList):
        if type(source) is not type(target):
            raise FeatureTypeError(f"{source!r} and {target!r} differ.", where=where or None)
        made = copying.copy(source)
        made.feature = _reordered(source.feature, target.feature, f"{where}[]")
        return made
    return source


def _names(feature: FeatureType) -> str:
    return ", ".join(feature) if isinstance(feature, Mapping) else repr(feature)


def unify(first: Features, second: Features) -> Features:
    """Features that hold what either holds: a column that was null throughout takes the other's.

    Raises:
        FeatureTypeError: a column has two kinds that do not go together.
    """
    made = dict(first)
    for name, feature in second.items():
        made[name] = feature if name not in made else _unified(made[name], feature, name)
    return Features(made)


def _unified(first: FeatureType, second: FeatureType, where: str) -> FeatureType:
    if first == second or _is_null(second):
        return first
    if _is_null(first):
        return second
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        made = dict(first)
        for name, each in second.items():
            made[name] = _unified(made[name], each, f"{where}/{name}") if name in made else each
        return made
    wider = _wider(first, second)
    if wider is not None:
        return wider
    if isinstance(first, List | LargeList) and isinstance(second, List | LargeList):
        made_list = copying.copy(first if isinstance(first, LargeList) else second)
        made_list.feature = _unified(first.feature, second.feature, f"{where}[]")
        return made_list
    raise FeatureTypeError(
        f"Column {where!r} is {first!r} here and {second!r} there.",
        where=f"column {where!r}",
        hint="Cast one of them with ds.cast_column.",
        facts={"column": where, "expected": repr(first), "found": repr(second)},
    )


_WIDER = {frozenset(("string", "large_string")): "large_string",
          frozenset(("binary", "large_binary")): "large_binary"}  # fmt: skip
"""Types that differ in how long a column may be, not in what it holds."""


def _wider(first: FeatureType, second: FeatureType) -> FeatureType | None:
    if not (isinstance(first, Value) and isinstance(second, Value)):
        return None
    found = _WIDER.get(frozenset((first.dtype, second.dtype)))
    return Value(found) if found else None


def _is_null(feature: FeatureType) -> bool:
    return getattr(feature, "dtype", None) == "null"
