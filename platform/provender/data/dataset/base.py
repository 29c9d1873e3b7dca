"""What every part of `Dataset` builds on: the table, the order, the format, the fingerprint."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from provender.data.dataset.chain import Print
from provender.data.dataset.formatting import Format, make_formatter
from provender.data.dataset.info import DatasetInfo
from provender.data.dataset.tables import Rows

if TYPE_CHECKING:
    from provender.data.features import Features

_SAME: Any = object()


class Base:
    """State shared by the parts of `Dataset`.

    Attributes:
        _data: all columns; rows may lie in another order than the dataset has them.
        _indices: row numbers of `_data` in the dataset's order, or None where it is the table's.
        _features: types of the columns of `_data`, in its order.
        _print: the fingerprint, computed when asked for.
        _keep: cache entries that must not be evicted while the dataset lives.
        _lineage: fingerprints of the recorded results and versions that the rows come from.
    """

    _data: pa.Table
    _indices: np.ndarray | None
    _features: Features
    _info: DatasetInfo
    _split: str | None
    _format: Format
    _print: Print
    _keep: tuple[Any, ...]
    _lineage: tuple[str, ...]
    _rows: Rows
    _formatter_made: Any

    @classmethod
    def _make(
        cls,
        table: pa.Table,
        features: Features,
        fingerprint: Print,
        *,
        info: DatasetInfo | None = None,
        split: Any = None,
        indices: np.ndarray | None = None,
        keep: tuple[Any, ...] = (),
        lineage: tuple[str, ...] = (),
    ) -> Self:
        new = cls.__new__(cls)
        new._data = with_metadata(table, features)
        new._rows = Rows(new._data)
        new._features = features
        new._print = fingerprint
        new._info = info.copy() if info is not None else DatasetInfo()
        new._split = None if split is None else str(split)
        new._indices = indices
        new._format = Format()
        new._formatter_made = None
        new._keep = keep
        new._lineage = lineage
        return new

    def _derive(
        self,
        fingerprint: Print,
        *,
        table: pa.Table | None = None,
        features: Features | None = None,
        indices: np.ndarray | None = _SAME,
        keep: tuple[Any, ...] | None = None,
        lineage: tuple[str, ...] | None = None,
    ) -> Self:
        """A dataset with something changed; its format goes along.

        Columns that are new are formatted if the format named columns, as those before were.
        """
        new = copy.copy(self)
        new._print = fingerprint
        new._info = self._info.copy()
        if features is not None:
            new._features = features
            new._format = self._format_for(features)
            new._formatter_made = None
        if table is not None:
            new._data = with_metadata(table, new._features)
            new._rows = Rows(new._data)
        if indices is not _SAME:
            new._indices = indices
        if keep is not None:
            new._keep = keep
        if lineage is not None:
            new._lineage = lineage
        return new

    def _format_for(self, features: Features) -> Format:
        chosen = self._format
        if chosen.columns is None:
            return chosen
        hidden = set(self._features) - set(chosen.columns)
        kept = tuple(name for name in features if name not in hidden)
        return Format(chosen.type, kept, chosen.output_all_columns, chosen.kwargs)

    def _formatter(self) -> Any:
        if self._formatter_made is None:
            self._formatter_made = make_formatter(self._format, self._features)
        return self._formatter_made

    def __len__(self) -> int:
        return self._data.num_rows if self._indices is None else len(self._indices)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._features)

    @property
    def _fingerprint(self) -> str:
        return self._print.get()

    @_fingerprint.setter
    def _fingerprint(self, value: str) -> None:
        self._print = Print(value)

    @property
    def fingerprint(self) -> str:
        """What the rows are: content and the transforms applied to it, never where it lies."""
        return self._print.get()

    def _take(self, rows: np.ndarray) -> pa.Table:
        """Rows by number in the dataset's order; all columns."""
        return self._rows.take(rows if self._indices is None else self._indices[rows])

    def _slice(self, start: int, stop: int) -> pa.Table:
        """The rows [start, stop) in the dataset's order; all columns."""
        if self._indices is None:
            return self._data.slice(start, stop - start)
        return self._rows.take(self._indices[start:stop])

    def _tables(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[pa.Table]:
        """Runs of rows in the dataset's order."""
        stop = len(self) if stop is None else stop
        for first in range(start, stop, size):
            yield self._slice(first, min(first + size, stop))

    def _whole(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows in the dataset's order, of some columns."""
        if columns is None:
            return self._slice(0, len(self))
        if self._indices is None:
            return self._data.select(list(columns))
        return Rows(self._data.select(list(columns))).take(self._indices)

    def __getstate__(self) -> dict[str, Any]:
        from provender.data.dataset.storing import in_memory

        state = dict(self.__dict__)
        # Copied, since a slice would be pickled with all of the buffers that it looks into.
        state["_data"] = in_memory(self._whole())
        state["_indices"] = None
        for name in ("_keep", "_rows", "_formatter_made"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _keep=(), _formatter_made=None)
        self._rows = Rows(self._data)


def with_metadata(table: pa.Table, features: Features) -> pa.Table:
    """The table with the features in its schema, where others expect them."""
    schema = features.arrow_schema
    if table.schema.equals(schema, check_metadata=True):
        return table
    if table.schema.equals(schema):
        return table.replace_schema_metadata(schema.metadata)
    return table.cast(schema)
