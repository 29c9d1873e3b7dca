"""Arrow columns as other features.

Two degrees: a *cast* that a user asks for converts wherever Arrow can without loss (text to
number, number to text); *storing* what a function returned only widens (int32 to int64, null to
anything), so that a column which changes its type half-way is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from provender.data.errors import ColumnError, FeatureTypeError, unknown_column
from provender.data.features.compound import (
    Json,
    Translation,
    TranslationVariableLanguages,
    _Array,
)
from provender.data.features.media import FILE, Image, _File
from provender.data.features.types import (
    ClassLabel,
    FeatureType,
    LargeList,
    List,
    Value,
    type_of,
)

_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def cast_array(array: pa.Array, feature: FeatureType, *, strict: bool = False) -> pa.Array:
    """An array as a feature stores it.

    Args:
        array: the values.
        feature: what they are to be.
        strict: widen only, see the module.

    Raises:
        FeatureTypeError: a value cannot be one of that feature.
        pyarrow.ArrowException: likewise, said by Arrow.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type_of(feature))
    if isinstance(feature, Value):
        return _cast_scalars(array, feature, strict)
    if isinstance(feature, ClassLabel):
        return _cast_labels(array, feature, strict)
    if isinstance(feature, List | LargeList):
        return _cast_lists(array, feature, strict)
    if isinstance(feature, Mapping):
        return _cast_struct(array, feature, strict)
    if isinstance(feature, Translation | TranslationVariableLanguages):
        return _cast_struct(array, feature.flatten(), strict)
    if isinstance(feature, _Array):
        return _cast_tensor(array, feature, strict)
    if isinstance(feature, _File):
        return _cast_file(array, feature)
    if isinstance(feature, Json):
        return _cast_json(array)
    return array.cast(type_of(feature))


def cast_table(
    table: pa.Table, features: Mapping[str, FeatureType], *, strict: bool = False
) -> pa.Table:
    """A table with its columns cast; the schema keeps the features.

    Args:
        table: the table; its columns may lie in another order.
        features: a feature for each column.
        strict: widen only, see the module.

    Raises:
        ColumnError: the columns are not those of the features.
        FeatureTypeError: a value cannot be cast; names column, row and value.
    """
    from provender.data.features.features import Features

    features = features if isinstance(features, Features) else Features(features)
    names = set(table.column_names)
    for name in features:
        if name not in names:
            raise unknown_column(name, table.column_names, "features")
    if extra := [name for name in table.column_names if name not in features]:
        raise ColumnError(
            f"The features do not name the column {extra[0]!r}.",
            hint=f"Features: {', '.join(features)}. Remove the column, or add its feature.",
            facts={"columns": extra},
        )
    columns = [
        cast_column(table.column(name), name, feature, strict=strict)
        for name, feature in features.items()
    ]
    return pa.Table.from_arrays(columns, schema=features.arrow_schema)


def cast_column(
    column: pa.ChunkedArray,
    name: str,
    feature: FeatureType,
    *,
    strict: bool = False,
    first_row: int = 0,
) -> pa.ChunkedArray:
    """A column cast, chunk by chunk.

    Raises:
        FeatureTypeError: names column, row and value.
    """
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    made, row = [], first_row
    for chunk in column.chunks:
        try:
            made.append(cast_array(chunk, feature, strict=strict))
        except _ERRORS as error:
            at = first_bad(chunk, lambda part: cast_array(part, feature, strict=strict))
            value = chunk[at].as_py() if at < len(chunk) else None
            raise refused(name, row + at, value, feature, error) from error
        row += len(chunk)
    return pa.chunked_array(made, type=type_of(feature))


def first_bad(values: Any, convert: Callable[[Any], Any]) -> int:
    """Index of the first value that makes ``convert(values)`` raise, by halving."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(values[low:middle])
        except _ERRORS:
            high = middle
        else:
            low = middle
    return low


_SHOWN = 80


def refused(
    name: str, row: int | None, value: Any, feature: FeatureType, error: BaseException
) -> FeatureTypeError:
    """The error for a value that its column cannot hold.

    Args:
        name: the column.
        row: number of the row, or None where it is not one row's fault.
        value: the value.
        feature: the column's feature.
        error: what was raised; ours says more than Arrow's.
    """
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
    kind = feature.dtype if isinstance(feature, Value) else str(type_of(feature))
    if isinstance(feature, ClassLabel):
        kind = "ClassLabel"
    why = error.message if isinstance(error, FeatureTypeError) else str(error).split("\n")[0]
    at = "" if row is None else f", row {row}"
    return FeatureTypeError(
        f"Column {name!r} holds {kind}{at} holds {shown} ({type(value).__name__}): {why}"
        if row is not None
        else f"Column {name!r} ({kind}): {why}",
        where=f"column {name!r}{at}",
        hint=(error.hint if isinstance(error, FeatureTypeError) else None)
        or "Return one type throughout, or give the features that you want.",
        facts={
            "column": name,
            "row": row,
            "expected": kind,
            "found": type(value).__name__,
            "value": shown,
        },
    )


# --- one kind each ------------------------------------------------------------------------------


def _family(kind: pa.DataType) -> str:
    types = pa.types
    for name, tests in {
        "bool": (types.is_boolean,),
        "number": (types.is_integer, types.is_floating),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "bytes": (
            types.is_binary,
            types.is_large_binary,
            types.is_binary_view,
            types.is_fixed_size_binary,
        ),
        "decimal": (types.is_decimal,),
        "timestamp": (types.is_timestamp,),
        "date": (types.is_date,),
        "time": (types.is_time,),
        "duration": (types.is_duration,),
    }.items():
        if any(test(kind) for test in tests):
            return name
    return str(kind)


_WIDENS = {("text", "bytes"), ("date", "timestamp")}


def _cast_scalars(array: pa.Array, feature: Value, strict: bool) -> pa.Array:
    target = feature.storage()
    if array.type == target:
        return array
    here, there = _family(array.type), _family(target)
    if strict and here != there and (here, there) not in _WIDENS:
        raise FeatureTypeError(f"{array.type} is not {feature.dtype}.")
    if pa.types.is_nested(array.type):
        raise FeatureTypeError(f"{array.type} is not {feature.dtype}.")
    if pa.types.is_null(target) and array.null_count < len(array):
        raise FeatureTypeError(f"{array.type} is not null.")
    return array.cast(target)


def _cast_labels(array: pa.Array, feature: ClassLabel, strict: bool) -> pa.Array:
    family = _family(array.type)
    if family in ("text", "bytes"):
        names = pc.unique(array).to_pylist()
        numbers = {name: None if name is None else feature.encode_example(name) for name in names}
        return pa.array([numbers[name] for name in array.to_pylist()], pa.int64())
    if strict and family != "number":
        raise FeatureTypeError(f"{array.type} is not a class number or name.")
    array = array.cast(pa.int64())
    if len(array) > array.null_count:
        ends = pc.min_max(array).as_py()
        for end in (ends["min"], ends["max"]):
            feature.encode_example(end)
    return array


def _cast_struct(array: pa.Array, feature: Mapping[str, FeatureType], strict: bool) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise FeatureTypeError(f"{array.type} is not a dict of {', '.join(feature)}.")
    here = [each.name for each in array.type]
    if extra := [name for name in here if name not in feature]:
        error = unknown_column(extra[0], feature)
        raise FeatureTypeError(f"There is no field {extra[0]!r} in it.", hint=error.hint)
    # flatten() puts nulls where the whole struct is null, so that no placeholder is converted.
    parts = dict(zip(here, array.flatten(), strict=True))
    arrays = [
        cast_array(parts[name], each, strict=strict)
        if name in parts
        else pa.nulls(len(array), type_of(each))
        for name, each in feature.items()
    ]
    fields = [pa.field(name, type_of(each)) for name, each in feature.items()]
    if not fields:
        return array
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _cast_lists(array: pa.Array, feature: List | LargeList, strict: bool) -> pa.Array:
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(array.type.field(0).type))
    if not _is_list(array.type):
        raise FeatureTypeError(f"{array.type} is not a list.")
    target = type_of(feature)
    if array.type == target and not checks_values(feature.feature):
        return array
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    values = cast_array(array.flatten(), feature.feature, strict=strict)
    mask = array.is_null() if array.null_count else None
    if isinstance(feature, List) and feature.length >= 0:
        wrong = (lengths != feature.length) & ~np.asarray(array.is_null())
        if wrong.any():
            raise FeatureTypeError(
                f"a list of {lengths[wrong][0]} items is not one of {feature.length}."
            )
        if mask is not None:
            values = _with_gaps(values, np.asarray(mask), feature.length)
        return pa.FixedSizeListArray.from_arrays(values, type=target, mask=mask)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if isinstance(feature, LargeList):
        return pa.LargeListArray.from_arrays(pa.array(offsets), values, type=target, mask=mask)
    if offsets[-1] > np.iinfo(np.int32).max:
        raise FeatureTypeError(
            f"{offsets[-1]:,} list items do not fit 32-bit offsets.",
            hint="Use LargeList, or smaller batches.",
        )
    small = pa.array(offsets.astype(np.int32))
    return pa.ListArray.from_arrays(small, values, type=target, mask=mask)


def _with_gaps(values: pa.Array, is_null: np.ndarray, length: int) -> pa.Array:
    """Values with ``length`` nulls wherever a fixed-size list is null."""
    number = np.cumsum(~is_null) - 1
    index = (number[:, None] * length + np.arange(length)[None, :]).reshape(-1)
    gaps = np.repeat(is_null, length)
    return values.take(pa.array(np.where(gaps, 0, index), mask=gaps))


def _cast_tensor(array: pa.Array, feature: _Array, strict: bool) -> pa.Array:
    inner: FeatureType = Value(feature.dtype)
    for _ in feature.shape:
        inner = List(inner)
    made = cast_array(array, inner, strict=strict)
    level = made
    for size in feature.shape:
        lengths = np.asarray(pc.drop_null(pc.list_value_length(level)))
        if size is not None and (lengths != size).any():
            raise FeatureTypeError(
                f"a tensor with a dimension of {lengths[lengths != size][0]} has not the shape "
                f"{tuple(feature.shape)}."
            )
        level = level.flatten()
    return made


def _cast_file(array: pa.Array, feature: _File) -> pa.Array:
    if array.type == FILE:
        return array
    family = _family(array.type)
    mask = array.is_null()
    nothing = {
        "bytes": pa.nulls(len(array), pa.binary()),
        "path": pa.nulls(len(array), pa.string()),
    }
    if family == "text":
        parts = {**nothing, "path": array.cast(pa.string())}
    elif family == "bytes":
        parts = {**nothing, "bytes": array.cast(pa.binary())}
    elif pa.types.is_struct(array.type) and {each.name for each in array.type} & {"bytes", "path"}:
        parts = dict(nothing)
        for name in parts:
            if array.type.get_field_index(name) >= 0:
                parts[name] = array.field(name).cast(parts[name].type)
    elif _is_list(array.type) and isinstance(feature, Image):
        encoded = [
            None if each is None else feature.encode_example(each) for each in array.to_pylist()
        ]
        return pa.array(encoded, FILE)
    elif pa.types.is_struct(array.type):
        return pa.array([feature.encode_example(each) for each in array.to_pylist()], FILE)
    else:
        raise FeatureTypeError(f"{array.type} is not {feature.what.lower()}.")
    return pa.StructArray.from_arrays([parts["bytes"], parts["path"]], fields=list(FILE), mask=mask)


def _cast_json(array: pa.Array) -> pa.Array:
    if _family(array.type) == "text":
        texts = array.cast(pa.string())
        try:
            for text in texts.to_pylist():
                if text is not None:
                    json.loads(text)
        except ValueError:
            pass
        else:
            return texts
    dumped = [None if each is None else json.dumps(each) for each in array.to_pylist()]
    return pa.array(dumped, pa.string())


def checks_values(feature: FeatureType) -> bool:
    """Whether equal Arrow types do not suffice: class numbers and shapes are looked at."""
    if isinstance(feature, Mapping):
        return any(checks_values(each) for each in feature.values())
    if isinstance(feature, List | LargeList):
        return checks_values(feature.feature)
    return isinstance(feature, ClassLabel | _Array)
