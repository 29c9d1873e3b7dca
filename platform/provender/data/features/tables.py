"""Rows and columns of Python objects as Arrow tables.

A column's type is found by Arrow from all of its values; where a feature is given the values
must be of it, or be narrower (see `provender.data.features.casting`). Nothing is rounded, cut or
made a text to fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from provender.data.errors import ColumnLengthError, FeatureTypeError, unknown_column
from provender.data.features.casting import _ERRORS, cast_array, first_bad, refused
from provender.data.features.encoding import (
    as_array,
    encode_nested,
    encodes,
    plain,
    special_feature,
)
from provender.data.features.features import Features
from provender.data.features.types import FeatureType, type_of


def table_from_rows(
    rows: Sequence[Mapping[str, Any]],
    features: Mapping[str, FeatureType] | None = None,
    *,
    first_row: int = 0,
    coerce: bool = False,
) -> pa.Table:
    """A table of rows.

    Args:
        rows: dicts of Python objects, numpy arrays, tensors, images. A key that a row lacks is
            None there.
        features: the columns, in their order; None: as found.
        first_row: number of the first row, for errors.
        coerce: where features are given: convert what can be without loss ("5" for an int, 5 for
            a text), as for features that a user wrote down.

    Returns:
        The table; its schema holds the features.

    Raises:
        ColumnError: a row has a key that is not among the features.
        FeatureTypeError: a row is not a dict, or a value not of its column; names column and row.
    """
    for at, row in enumerate(rows):
        # Asking for the class first: the abstract check costs more than all else here.
        if row.__class__ is not dict and not isinstance(row, Mapping):
            raise FeatureTypeError(
                f"Row {first_row + at} is a {type(row).__name__}, not a dict of columns.",
                where=f"row {first_row + at}",
                hint="Return a dict: {'column': value, ...}.",
                facts={"row": first_row + at, "found": type(row).__name__},
            )
    names = list(features) if features is not None else _names_of(rows)
    if features is not None:
        _refuse_extra(rows, features, first_row)
    columns: dict[str, list[Any]] = {}
    for name in names:
        try:
            columns[name] = [row[name] for row in rows]
        except KeyError:
            columns[name] = [row.get(name) for row in rows]
    return _table(columns, features, first_row, coerce)


def table_from_batch(
    columns: Mapping[str, Any] | pa.Table,
    features: Mapping[str, FeatureType] | None = None,
    *,
    first_row: int = 0,
    coerce: bool = False,
) -> pa.Table:
    """A table of columns.

    Args:
        columns: name -> list, array, tensor, Arrow array, pandas Series; or a table or DataFrame.
        features: as for `table_from_rows`; every feature needs its column.
        first_row: as for `table_from_rows`.
        coerce: as for `table_from_rows`.

    Returns:
        The table; its schema holds the features.

    Raises:
        ColumnLengthError: the columns are not of one length.
        ColumnError: the columns are not those of the features.
        FeatureTypeError: a value is not of its column; names column and row.
    """
    if isinstance(columns, pa.RecordBatch):
        columns = pa.Table.from_batches([columns])
    if isinstance(columns, pa.Table):
        known = Features.from_arrow_schema(columns.schema) if features is None else None
        columns = {name: columns.column(name) for name in columns.column_names}
        features = known or features
    elif _is_pandas(columns):
        frame: Any = columns
        columns = {str(name): frame[name] for name in frame.columns}
    if not isinstance(columns, Mapping):
        raise FeatureTypeError(
            f"A batch is a dict of columns, not {type(columns).__name__}.",
            hint="Return {'column': [value, ...], ...}.",
            facts={"found": type(columns).__name__},
        )
    for name, values in columns.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise FeatureTypeError(
                f"Column {name!r} of a batch is a {type(values).__name__}, not a list of values.",
                where=f"column {name!r}",
                hint=f"Return {{{name!r}: [value, ...]}} with a value for each row.",
                facts={"column": name, "found": type(values).__name__},
            )
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise ColumnLengthError(
            f"The columns of a batch differ in length ({shown}).",
            hint="Return as many values in every column; columns that are kept from the input "
            "have its length (remove_columns leaves them out).",
            facts={"lengths": lengths},
        )
    if features is not None:
        for name in [*columns, *features]:
            if name not in features or name not in columns:
                raise unknown_column(name, features if name in columns else columns, "batch")
        columns = {name: columns[name] for name in features}
    return _table(columns, features, first_row, coerce)


def infer_features(data: pa.Table | Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> Features:
    """The features that a table, rows, or columns have."""
    if isinstance(data, pa.Table):
        return Features.from_arrow_schema(data.schema)
    if isinstance(data, Mapping):
        return Features.from_arrow_schema(table_from_batch(data).schema)
    return Features.from_arrow_schema(table_from_rows(data).schema)


# --- columns -----------------------------------------------------------------------------------


def _names_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    names: dict[str, None] = {}
    seen: tuple[str, ...] | None = None
    for row in rows:
        keys = tuple(row)
        if keys != seen:
            names.update(dict.fromkeys(keys))
            seen = keys
    return list(names)


def _refuse_extra(
    rows: Sequence[Mapping[str, Any]], features: Mapping[str, FeatureType], first_row: int
) -> None:
    known = features.keys()
    for at, row in enumerate(rows):
        if not row.keys() <= known:
            extra = next(name for name in row if name not in known)
            error = unknown_column(extra, features, f"row {first_row + at}")
            error.facts["row"] = first_row + at
            raise error


def _table(
    columns: Mapping[str, Any],
    features: Mapping[str, FeatureType] | None,
    first_row: int,
    coerce: bool,
) -> pa.Table:
    arrays: list[Any] = []
    found: dict[str, FeatureType] = {}
    for name, values in columns.items():
        feature = features[name] if features is not None else _special(values)
        try:
            arrays.append(_column(values, feature, coerce))
        except _ERRORS as error:
            raise _explained(name, values, feature, first_row, coerce, error) from error
        if feature is not None:
            found[name] = feature
    if features is not None:
        made = features if isinstance(features, Features) else Features(features)
        return pa.Table.from_arrays(arrays, schema=made.arrow_schema)
    table = pa.Table.from_arrays(arrays, names=[str(name) for name in columns])
    if found:
        known = Features.from_arrow_schema(table.schema)
        known.update(found)
        table = table.replace_schema_metadata(known.arrow_schema.metadata)
    return table


def _special(values: Any) -> FeatureType | None:
    if not isinstance(values, list | tuple):
        return None
    return special_feature(next((each for each in values if each is not None), None))


def _column(values: Any, feature: FeatureType | None, coerce: bool) -> pa.Array | pa.ChunkedArray:
    """One column as Arrow."""
    if isinstance(values, pa.ChunkedArray):
        if feature is None and not pa.types.is_dictionary(values.type):
            return values
        chunks = [_column(chunk, feature, coerce) for chunk in values.chunks]
        kind = type_of(feature) if feature is not None else values.type.value_type
        return pa.chunked_array(chunks, type=kind)
    if isinstance(values, pa.Array):
        if feature is not None:
            return cast_array(values, feature, strict=not coerce)
        return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if feature is not None and encodes(feature):
        encoded = [encode_nested(feature, plain(each)) for each in values]
        return cast_array(arrow_array(encoded), feature, strict=True)
    if feature is None:
        return arrow_array(values)
    try:
        made = arrow_array(values)
        if isinstance(made, pa.ChunkedArray):
            # Arrow cuts columns whose texts are larger than 2 GiB.
            return _column(made, feature, coerce)
        return cast_array(made, feature, strict=True)
    except _ERRORS:
        # Arrow finds no type for numbers beyond int64 and the like, which one type can hold.
        if not coerce and _is_too_large_to_find(values, type_of(feature)):
            return pa.array(values, type_of(feature))
        if not coerce:
            raise
        return pa.array([encode_nested(feature, plain(each)) for each in values], type_of(feature))


def _is_too_large_to_find(values: Any, kind: pa.DataType) -> bool:
    """Whether the type may hold what Arrow, when it looks for a type, takes for too large."""
    if pa.types.is_uint64(kind):
        return not any(isinstance(each, float | np.floating) for each in values)
    return bool(pa.types.is_decimal(kind))


def arrow_array(values: Any) -> pa.Array | pa.ChunkedArray:
    """Values of any kind as Arrow, the type found from all of them; in chunks beyond 2 GiB.

    Raises:
        pyarrow.ArrowException: they are of several types, or of one that Arrow does not have.
    """
    array = values if isinstance(values, np.ndarray) else None
    if array is None and not isinstance(values, list | tuple):
        if _is_pandas(values):
            return pa.array(values, from_pandas=False)
        array = as_array(values)
    if array is not None:
        if array.dtype == object:
            return arrow_array(list(array))
        return pa.array(array) if array.ndim == 1 else _nested(array)
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    cleaned = [plain(each) for each in values]
    stacked = _stacked(cleaned)
    if stacked is not None:
        return stacked
    return pa.array([_lists(each) for each in cleaned])


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas"


def _nested(array: np.ndarray) -> pa.Array:
    """An array of several dimensions as nested lists, without a Python object per value."""
    made = pa.array(np.ascontiguousarray(array).reshape(-1))
    for axis in range(array.ndim - 1, 0, -1):
        count = int(np.prod(array.shape[:axis], dtype=np.int64))
        offsets = np.arange(count + 1, dtype=np.int64) * array.shape[axis]
        made = pa.ListArray.from_arrays(_offsets(offsets), made)
    return made


def _offsets(offsets: np.ndarray) -> pa.Array:
    if offsets[-1] > np.iinfo(np.int32).max:
        raise FeatureTypeError(
            f"{offsets[-1]:,} values of lists in one batch do not fit 32-bit offsets.",
            hint="Use a smaller batch_size.",
        )
    return pa.array(offsets.astype(np.int32))


def _stacked(values: Sequence[Any]) -> pa.Array | None:
    """Arrays of one dtype and rank as nested lists, or None where they are not that."""
    arrays = [each for each in values if each is not None]
    first = arrays[0] if arrays else None
    if not isinstance(first, np.ndarray) or first.ndim < 2:
        return None
    same = all(
        isinstance(each, np.ndarray) and each.dtype == first.dtype and each.ndim == first.ndim
        for each in arrays
    )
    if not same:
        return None
    if all(each.shape[1:] == first.shape[1:] for each in arrays):
        inner = _nested(np.concatenate(arrays))
    else:
        inner = pa.concat_arrays([_nested(each) for each in arrays])
    lengths = [0 if each is None else len(each) for each in values]
    offsets = _offsets(np.cumsum([0, *lengths]))
    mask = pa.array([each is None for each in values]) if len(arrays) < len(values) else None
    return pa.ListArray.from_arrays(offsets, inner, mask=mask)


def _lists(value: Any) -> Any:
    """Arrays of several dimensions as lists of one-dimensional ones, however deep."""
    if isinstance(value, np.ndarray):
        return value if value.ndim == 1 else [_lists(each) for each in value]
    if isinstance(value, list):
        return [_lists(each) for each in value]
    if isinstance(value, dict):
        return {key: _lists(each) for key, each in value.items()}
    return value


def _explained(
    name: str,
    values: Any,
    feature: FeatureType | None,
    first_row: int,
    coerce: bool,
    error: BaseException,
) -> FeatureTypeError:
    """The error for a column, with the first row that does not go with those before it."""
    values = values if isinstance(values, list | tuple) else list(values)
    if feature is not None:
        at = first_bad(values, lambda part: _column(part, feature, coerce))
        return refused(name, first_row + at, _shown(values[at]), feature, error)
    at = _first_mixed(values)
    value = _shown(values[at])
    before = next((each for each in values[:at] if each is not None), None)
    kind = type(value).__name__
    if before is None:
        return FeatureTypeError(
            f"Column {name!r}, row {first_row + at}: a {kind} cannot be stored: "
            f"{str(error).splitlines()[0]}",
            where=f"column {name!r}, row {first_row + at}",
            hint="Return numbers, texts, bytes, lists and dicts of them, arrays or images.",
            facts={"column": name, "row": first_row + at, "found": kind},
        )
    other = type(_shown(before)).__name__
    return FeatureTypeError(
        f"Column {name!r} holds {other} before, and {kind} in row {first_row + at}: "
        f"{str(error).splitlines()[0]}",
        where=f"column {name!r}, row {first_row + at}",
        hint="Return one type throughout, or give the features that you want.",
        facts={"column": name, "row": first_row + at, "expected": other, "found": kind},
    )


def _first_mixed(values: Sequence[Any]) -> int:
    """Index of the first value that makes the values up to it unstorable."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            arrow_array(values[:middle])
        except _ERRORS:
            high = middle
        else:
            low = middle
    return low


def _shown(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value
