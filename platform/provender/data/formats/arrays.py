"""Numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from provender.data.features import FeatureType, LargeList, List, Value, decode_nested, decodes
from provender.data.features.compound import _Array
from provender.data.formats.base import ROWS_AT_ONCE, Formatter, keyed, single
from provender.data.formats.python import array_values, column_values, list_offsets


class NumpyFormatter(Formatter):
    """Columns as arrays; rows as dicts of scalars and arrays.

    Whole numbers in arrays become int64 and fractions float32, unless ``dtype`` is given. A column
    of texts is an array of fixed width (``<U5``), and one text a ``numpy.str_``; where a fixed width
    cannot hold them (some are null, one ends in a zero character, or all rows at the longest one's
    width would take more than 1 GiB) it is an array of objects. Bytes and ragged lists always are.
    """

    name: ClassVar[str] = "numpy"

    def convert(self, column: pa.ChunkedArray, feature: FeatureType) -> np.ndarray:
        raw = raw_array(column, feature)
        if _is_text(column.type, feature):
            return fixed_width(column, raw)
        # Images keep their uint8: widening them would take eight times the memory.
        return raw if decodes(feature) and not self.kwargs else self.shaped(raw)

    def row(self, table: pa.Table, index: int = 0) -> dict[str, Any]:
        """One row: its own scalars keep their type, as numpy scalars."""
        part = table.slice(index, 1)
        features = self.features_of(part)
        made = {}
        for name in self.chosen(part):
            made[name] = self._values(part.column(name), features[name])[0]
        if self.output_all_columns:
            others = self._others().row(part, 0)
            made.update({name: each for name, each in others.items() if name not in made})
        return made

    def rows(self, table: pa.Table) -> Iterator[Mapping[str, Any]]:
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            part = table.slice(start, ROWS_AT_ONCE)
            features = self.features_of(part)
            names = list(self.chosen(part))
            columns = [self._values(part.column(name), features[name]) for name in names]
            if self.output_all_columns:
                rest = self._others().batch(part)
                for name in part.column_names:
                    if name not in names:
                        names.append(name)
                        columns.append(rest[name])
            yield from keyed(names, columns)

    def _values(self, column: pa.ChunkedArray, feature: FeatureType) -> list[Any]:
        """A column's values one by one; what one is does not depend on its neighbours."""
        raw = raw_array(column, feature)
        if _is_text(column.type, feature):
            if column.null_count:
                return [None if each is None else np.str_(each) for each in raw]
            return list(map(np.str_, raw))
        if raw.ndim > 1 or (raw.dtype == object and not pa.types.is_boolean(column.type)):
            return list(raw if decodes(feature) and not self.kwargs else self.shaped(raw))
        if self.kwargs and raw.dtype.kind in "biuf":
            return list(np.asarray(raw, **self.kwargs))
        return separate(column, raw)

    def shaped(self, raw: np.ndarray) -> np.ndarray:
        """Raw values with the format's types."""
        if raw.dtype != object:
            return self._typed(raw)
        made = np.empty(raw.size, object)
        made[:] = [self._nested(each) for each in raw.reshape(-1)]
        return made.reshape(raw.shape)

    def _typed(self, raw: np.ndarray) -> np.ndarray:
        if self.kwargs:
            return np.asarray(raw, **self.kwargs) if raw.dtype.kind in "biuf" else raw
        if raw.dtype.kind in "iu":
            return raw.astype(np.int64, copy=False)
        if raw.dtype.kind == "f":
            return raw.astype(np.float32, copy=False)
        return raw

    def _nested(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self.shaped(value)
        if isinstance(value, dict):
            return {name: self._nested(each) for name, each in value.items()}
        if isinstance(value, list):
            return self.shaped(stacked([self._nested(each) for each in value]))
        return value


MOST_TEXT_BYTES = 1 << 30
"""What a column of texts may take as an array of fixed width."""


def _is_text(kind: pa.DataType, feature: FeatureType) -> bool:
    return isinstance(feature, Value) and bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def fixed_width(column: pa.ChunkedArray | pa.Array, raw: np.ndarray) -> np.ndarray:
    """Texts as an array of fixed width, where that holds them; else as objects.

    Args:
        column: the texts.
        raw: the column as `raw_array` gives it, an array of objects.
    """
    import pyarrow.compute as pc

    if column.null_count or pc.any(pc.ends_with(column, "\0")).as_py():
        return raw
    longest = pc.max(pc.utf8_length(column)).as_py() or 1
    if longest * 4 * len(column) > MOST_TEXT_BYTES:
        return raw
    return raw.astype(f"U{longest}")


def raw_array(column: pa.ChunkedArray | pa.Array, feature: FeatureType) -> np.ndarray:
    """A column as numpy, in its own types.

    Numbers, tensors and lists of one length become one array; everything else an array of objects
    (arrays, dicts, texts). Nulls among numbers are NaN.
    """
    if decodes(feature):
        return _decoded(column, feature)
    array = single(column)
    if isinstance(feature, _Array):
        return _tensors(array, feature)
    if isinstance(feature, List | LargeList):
        return _list_array(array, feature)
    if isinstance(feature, Mapping) or pa.types.is_struct(array.type):
        return _objects(_struct_rows(array, feature))
    if isinstance(feature, Value) and pa.types.is_decimal(array.type):
        return _objects(array.to_pylist())
    if pa.types.is_uint64(array.type) and array.null_count:
        return array.to_numpy(zero_copy_only=False)
    made = array.to_numpy(zero_copy_only=False)
    return made if isinstance(made, np.ndarray) else np.asarray(made)


def _decoded(column: pa.ChunkedArray | pa.Array, feature: FeatureType) -> np.ndarray:
    values = [decode_nested(feature, each) for each in column_values(column)]
    return stacked([_image_array(each) for each in values])


def _image_array(value: Any) -> Any:
    """Images as arrays, however deep."""
    if isinstance(value, list):
        return [_image_array(each) for each in value]
    if isinstance(value, dict):
        return {name: _image_array(each) for name, each in value.items()}
    return np.asarray(value) if hasattr(value, "__array_interface__") else value


def _tensors(array: pa.Array, feature: _Array) -> np.ndarray:
    if array.null_count or feature.shape[0] is None:
        return _list_array(array, None)
    flat = array
    for _ in feature.shape:
        flat = flat.flatten()
    return flat.to_numpy(zero_copy_only=False).reshape(len(array), *feature.shape)


def _list_array(array: pa.Array, feature: FeatureType) -> np.ndarray:
    inner = feature.feature if isinstance(feature, List | LargeList) else None
    offsets = list_offsets(array)
    flat = array.flatten()
    if flat.null_count and _changes_with_nulls(flat.type):
        # One row's nulls must not make another row's whole numbers floats.
        return _one_by_one(flat, offsets, array)
    values = raw_array(flat, inner) if inner is not None else raw_of_type(flat)
    return _cut(values, offsets, array, deep=_is_list(flat.type))


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _cut(values: np.ndarray, offsets: np.ndarray, array: pa.Array, *, deep: bool) -> np.ndarray:
    """Values cut into lists: one array where all are alike, else an array of arrays.

    Args:
        values: the items of all lists.
        offsets: where each list begins.
        array: the lists.
        deep: items are lists themselves. Then each list is stacked by itself, so that its shape
            does not depend on its neighbours; an empty one has no shape to go by.
    """
    lengths = np.diff(offsets)
    alike = not array.null_count and len(lengths) and (lengths == lengths[0]).all()
    if alike and not (deep and (values.dtype == object or lengths[0] == 0)):
        return values.reshape(len(array), int(lengths[0]), *values.shape[1:])
    parts: list[Any] = [values[a:b] for a, b in pairwise(offsets.tolist())]
    if deep:
        parts = [stacked(list(each)) if len(each) else np.empty(0, object) for each in parts]
    for at in np.flatnonzero(np.asarray(array.is_null())).tolist():
        parts[at] = None
    return stacked(parts) if alike else _objects(parts)


def _one_by_one(flat: pa.Array, offsets: np.ndarray, array: pa.Array) -> np.ndarray:
    parts: list[Any] = [
        flat.slice(a, b - a).to_numpy(zero_copy_only=False) for a, b in pairwise(offsets.tolist())
    ]
    for at in np.flatnonzero(np.asarray(array.is_null())).tolist():
        parts[at] = None
    return stacked(parts)


def _changes_with_nulls(kind: pa.DataType) -> bool:
    """Whether numpy has to take another type for all values where one is null."""
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def separate(column: pa.ChunkedArray | pa.Array, raw: np.ndarray) -> list[Any]:
    """Values one by one; what one is does not depend on whether a neighbour is null.

    Args:
        column: scalars.
        raw: the column as `raw_array` gives it.
    """
    if not column.null_count or not _changes_with_nulls(column.type):
        return list(raw)
    is_bool = pa.types.is_boolean(column.type)
    filled = single(column).fill_null(False if is_bool else 0)
    made: list[Any] = list(filled.to_numpy(zero_copy_only=False))
    nothing = None if is_bool else np.float64("nan")
    for at in np.flatnonzero(np.asarray(column.is_null())).tolist():
        made[at] = nothing
    return made


def raw_of_type(array: pa.Array) -> np.ndarray:
    """As `raw_array`, by the Arrow type alone."""
    from provender.data.features import feature_of

    return raw_array(array, feature_of(array.type))


def _struct_rows(array: pa.Array, feature: FeatureType) -> list[Any]:
    names = [each.name for each in array.type]
    features = feature if isinstance(feature, Mapping) else {}
    columns = []
    for name, part in zip(names, array.flatten(), strict=True):
        inner = features.get(name)
        raw = raw_array(part, inner) if inner is not None else raw_of_type(part)
        columns.append(separate(part, raw))
    rows: list[Any] = list(keyed(names, columns)) if names else array_values(array)
    for at in np.flatnonzero(np.asarray(array.is_null())).tolist():
        rows[at] = None
    return rows


def _objects(values: list[Any]) -> np.ndarray:
    made = np.empty(len(values), object)
    for at, each in enumerate(values):
        made[at] = each
    return made


def stacked(values: list[Any]) -> np.ndarray:
    """Arrays of one shape and type stacked, all else as objects."""
    first = values[0] if values else None
    if isinstance(first, list):
        values = [stacked(each) if isinstance(each, list) else each for each in values]
        first = values[0]
    if isinstance(first, np.ndarray | np.generic) and all(
        isinstance(each, np.ndarray | np.generic)
        and each.shape == first.shape
        and each.dtype == first.dtype
        for each in values
    ):
        return np.stack(values)
    return _objects(values)
