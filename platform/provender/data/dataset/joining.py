"""Map-style datasets put under or beside one another. No row is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from provender.data.dataset.bounds import check_distinct
from provender.data.dataset.chain import Print, passing_of
from provender.data.dataset.info import DatasetInfo
from provender.data.dataset.shaping import common
from provender.data.errors import ColumnLengthError

if TYPE_CHECKING:
    from provender.data.dataset.core import Dataset
    from provender.data.features import Features


def under(dsets: Sequence[Dataset], info: DatasetInfo | None, split: Any) -> Dataset:
    """Rows of datasets one after another.

    Raises:
        FeatureTypeError: a column has types that do not go together.
    """
    from provender.data.features import Features

    full = [each for each in dsets if len(each)] or list(dsets[:1])
    features = common([each.features for each in full])
    features = Features(features)
    tables = [_aligned(each._data, each.features, features) for each in full]
    indices: np.ndarray | None = None
    if any(each._indices is not None for each in full):
        parts, start = [], 0
        for each in full:
            own = each._indices
            parts.append((np.arange(len(each)) if own is None else own.astype(np.int64)) + start)
            start += each._data.num_rows
        indices = np.concatenate(parts)
    return _joined(full, pa.concat_tables(tables), features, indices, info, split, "concatenate 1")


def beside(dsets: Sequence[Dataset], info: DatasetInfo | None, split: Any) -> Dataset:
    """Columns of datasets side by side.

    Raises:
        ColumnLengthError: the datasets differ in length.
        ColumnError: a name comes twice.
    """
    from provender.data.features import Features

    lengths = [len(each) for each in dsets]
    if len(set(lengths)) > 1:
        raise ColumnLengthError(
            f"Datasets beside one another need as many rows each, not {lengths}.",
            where="concatenate_datasets",
            facts={"lengths": lengths},
        )
    check_distinct([name for each in dsets for name in each.column_names], "The result")
    features = Features({name: value for each in dsets for name, value in each.features.items()})
    tables = [each._whole() if each._indices is not None else each._data for each in dsets]
    columns = [column for table in tables for column in table.columns]
    table = pa.Table.from_arrays(columns, schema=features.arrow_schema)
    return _joined(list(dsets), table, features, None, info, split, "beside 1")


def _joined(
    dsets: Sequence[Dataset],
    table: pa.Table,
    features: Features,
    indices: np.ndarray | None,
    info: DatasetInfo | None,
    split: Any,
    name: str,
) -> Dataset:
    first = dsets[0]
    prints = [each._print for each in dsets]

    def made() -> str:
        from provender.fingerprint import Hasher

        return Hasher.hash((f"provender {name}", [each.get() for each in prints]))

    new = type(first)._make(
        table,
        features,
        # One dataset put together with none is itself.
        prints[0] if len(dsets) == 1 else Print(made, passing_of(prints)),
        info=info if info is not None else DatasetInfo.merged([each._info for each in dsets]),
        split=split,
        indices=indices,
        keep=tuple(entry for each in dsets for entry in each._keep),
        lineage=tuple(dict.fromkeys(part for each in dsets for part in each._lineage)),
    )
    if all(_same_format(each, first) for each in dsets):
        new._format = first._format_for(features)
    return new


def _same_format(one: Dataset, other: Dataset) -> bool:
    return one._format == other._format


def _aligned(table: pa.Table, own: Features, features: Features) -> pa.Table:
    """The table with the columns of all, None where it has none."""
    from provender.data.features import cast_column, type_of

    arrays = []
    for name, feature in features.items():
        if name not in own:
            arrays.append(pa.nulls(table.num_rows, type_of(feature)))
        elif type_of(own[name]) == type_of(feature):
            arrays.append(table.column(name))
        else:
            arrays.append(cast_column(table.column(name), name, feature))
    return pa.Table.from_arrays(arrays, schema=features.arrow_schema)
