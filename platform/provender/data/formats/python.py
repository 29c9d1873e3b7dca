"""Plain Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from provender.data.features import Features, FeatureType, decode_nested, decodes
from provender.data.formats.base import ROWS_AT_ONCE, Formatter, keyed


class PythonFormatter(Formatter):
    """Rows as dicts, columns as lists."""

    name: ClassVar[str] = "python"

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        features: Features | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(columns, features, **kwargs)
        self._no_options()
        # Position, name, and feature where it decodes, of the columns of the last table's schema.
        self._reads: tuple[Features, list[tuple[int, str, FeatureType]]] | None = None

    def convert(self, column: pa.ChunkedArray, feature: FeatureType) -> list[Any]:
        values = column_values(column)
        if decodes(feature):
            return [decode_nested(feature, each) for each in values]
        return values

    def row(self, table: pa.Table, index: int = 0) -> dict[str, Any]:
        features = self.features_of(table)
        if self._reads is None or self._reads[0] is not features:
            names = table.column_names if self.output_all_columns else self.chosen(table)
            self._reads = (
                features,
                [
                    (
                        table.column_names.index(name),
                        name,
                        features[name] if decodes(features[name]) else None,
                    )
                    for name in names
                ],
            )
        made = {}
        for position, name, feature in self._reads[1]:
            value = table.column(position)[index].as_py()
            made[name] = value if feature is None else decode_nested(feature, value)
        return made

    def rows(self, table: pa.Table) -> Iterator[Mapping[str, Any]]:
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            batch = self.batch(table.slice(start, ROWS_AT_ONCE))
            yield from keyed(list(batch), list(batch.values()))


def column_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """What ``to_pylist`` gives, several times faster for common types."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return array_values(column.chunk(0))
        values: list[Any] = []
        for chunk in column.chunks:
            values += array_values(chunk)
        return values
    return array_values(column)


_FEW = 4
"""Below so many values a plain ``to_pylist`` is quicker."""


def array_values(array: pa.Array) -> list[Any]:
    """As `column_values`, for one array."""
    kind, types = array.type, pa.types
    if len(array) < _FEW:
        return list(array.to_pylist())
    if isinstance(kind, pa.BaseExtensionType):
        return array_values(array.storage)
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind):
        return list(array.to_numpy(zero_copy_only=False).tolist())
    if types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        return _numbers(array)
    if types.is_boolean(kind):
        return list(array.to_numpy(zero_copy_only=False).tolist())
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _lists(array)
    if types.is_struct(kind) and kind.num_fields:
        return _structs(array)
    return list(array.to_pylist())


def _numbers(array: pa.Array) -> list[Any]:
    if not array.null_count:
        return list(array.to_numpy().tolist())
    values = array.fill_null(0).to_numpy().tolist()
    for at in np.flatnonzero(np.asarray(array.is_null())).tolist():
        values[at] = None
    return list(values)


def _lists(array: pa.Array) -> list[Any]:
    ends = list_ends(array)
    values = array_values(array.flatten())
    rows = [values[start:stop] for start, stop in pairwise(ends)]
    if array.null_count:
        made: list[Any] = rows
        for at in np.flatnonzero(np.asarray(array.is_null())).tolist():
            made[at] = None
        return made
    return rows


def list_ends(array: pa.Array) -> list[int]:
    """Offsets of lists within ``array.flatten()``, one more than there are lists."""
    return list_offsets(array).tolist()


def list_offsets(array: pa.Array) -> np.ndarray:
    """As `list_ends`, as int64."""
    import pyarrow.compute as pc

    if not array.null_count and not pa.types.is_fixed_size_list(array.type):
        offsets = np.asarray(array.offsets).astype(np.int64)
        return offsets - offsets[0] if len(offsets) else np.zeros(1, np.int64)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    made = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=made[1:])
    return made


def _structs(array: pa.Array) -> list[Any]:
    names = [each.name for each in array.type]
    if len(set(names)) < len(names):
        return list(array.to_pylist())
    rows: list[Any] = list(keyed(names, [array_values(each) for each in array.flatten()]))
    if array.null_count:
        for at in np.flatnonzero(np.asarray(array.is_null())).tolist():
            rows[at] = None
    return rows
