"""Reading rows, batches and columns, and choosing the format they come in."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

from provender.data.dataset.base import Base
from provender.data.dataset.bounds import check_row, check_rows, names_of
from provender.data.dataset.columnview import Column
from provender.data.dataset.formatting import WHOLE, Format, format_type, make_formatter
from provender.data.dataset.tables import as_rows
from provender.data.errors import FormatError, unknown_column

if TYPE_CHECKING:
    from provender.data.dataset.core import Dataset

ROWS_AT_ONCE = 1000
"""Rows that iteration converts at a time."""


class Access(Base):
    """Indexing, iteration and formats."""

    def __getitem__(self, key: Any) -> Any:
        """A row, rows as a batch, or a column.

        Args:
            key: a row number (negative from the end); a slice, range, list or array of row
                numbers; or the name of a column.

        Returns:
            For a number a dict of values, for several rows a dict of columns, in the dataset's
            format. For a name a `Column`, which reads rows on demand (with the formats arrow,
            pandas and polars the column itself).

        Raises:
            RowError: there is no such row; it is an IndexError.
            ColumnError: there is no such column; it is a KeyError.
            TypeError: the key is something else.
        """
        if isinstance(key, str):
            if self._format.type in WHOLE:
                return self._whole_column(key)
            return Column(cast("Dataset", self), key)
        if isinstance(key, bool):
            raise TypeError("A dataset is indexed by row numbers or a column name, not by bool.")
        if hasattr(key, "__index__") and not getattr(key, "ndim", 0):
            row = check_row(operator.index(key), len(self))
            if self._indices is not None:
                row = int(self._indices[row])
            piece, at = self._rows.locate(row)
            return self._formatter().row(piece, at)
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._formatter().batch(self._slice(start, max(start, stop)))
            key = range(start, stop, step)
        elif not isinstance(key, Iterable):
            message = f"A dataset is indexed by row numbers or a column name, not {key!r}."
            raise TypeError(message)
        return self._formatter().batch(self._take(check_rows(as_rows(key), len(self))))

    def __getitems__(self, keys: list[int]) -> list[Any]:
        """The rows of the numbers given, as a list; torch's DataLoader asks for it."""
        return list(self._formatter().rows(self._take(check_rows(as_rows(keys), len(self)))))

    def _whole_column(self, name: str) -> Any:
        if name not in self._features:
            raise unknown_column(name, self._features)
        return self._formatter().column(self._whole([name]), name)

    def _only(self, name: str) -> Any:
        """The dataset with one column, in the same format."""
        new = self._derive(
            self._print,
            table=self._data.select([name]),
            features=type(self._features)({name: self._features[name]}),
        )
        chosen = self._format
        if chosen.columns is not None:
            kind = chosen.type if name in chosen.columns else None
            new._format = Format(kind, None, False, chosen.kwargs if kind else {})
            new._formatter_made = None
        return new

    def __iter__(self) -> Iterator[Any]:
        """The rows in order, in the dataset's format."""
        formatter = self._formatter()
        for table in self._tables(ROWS_AT_ONCE):
            yield from formatter.rows(table)

    def iter(self, batch_size: int, drop_last_batch: bool = False) -> Iterator[Any]:
        """The rows in order, in batches.

        Args:
            batch_size: rows of a batch.
            drop_last_batch: leave out a last batch that is smaller.

        Raises:
            ValueError: the batch size is not positive.
        """
        if batch_size is None or batch_size < 1:
            message = f"batch_size must be at least 1, not {batch_size}."
            raise ValueError(message)
        count = len(self)
        if drop_last_batch:
            count -= count % batch_size
        formatter = self._formatter()
        for table in self._tables(batch_size, 0, count):
            yield formatter.batch(table)

    @property
    def format(self) -> dict[str, Any]:
        """The format: ``type``, ``format_kwargs``, ``columns``, ``output_all_columns``."""
        chosen = self._format
        columns = self.column_names if chosen.columns is None else list(chosen.columns)
        return {
            "type": chosen.type,
            "format_kwargs": dict(chosen.kwargs),
            "columns": columns,
            "output_all_columns": chosen.output_all_columns,
        }

    def set_format(
        self,
        type: str | None = None,
        columns: Any = None,
        output_all_columns: bool = False,
        **format_kwargs: Any,
    ) -> None:
        """Sets the format in place; see `with_format`."""
        format_kwargs.update(format_kwargs.pop("format_kwargs", {}))
        kind = format_type(type)
        if kind == "custom" and "transform" not in format_kwargs:
            raise FormatError("The format 'custom' needs transform=.", hint="Use with_transform.")
        names = None
        if columns is not None:
            names = tuple(names_of(columns, self._features, "columns"))
        chosen = Format(kind, names, output_all_columns, format_kwargs)
        self._formatter_made = make_formatter(chosen, self._features)
        self._format = chosen

    def with_format(
        self,
        type: str | None = None,
        columns: Any = None,
        output_all_columns: bool = False,
        **format_kwargs: Any,
    ) -> Self:
        """The dataset in another format. Rows stay as they are stored; reading converts them.

        Args:
            type: None or "python", "numpy", "torch", "tensorflow" ("tf"), "jax", "pandas",
                "arrow", "polars".
            columns: those to give; all by default.
            output_all_columns: give the other columns too, as Python objects.
            **format_kwargs: for the conversion, e.g. ``dtype``.

        Raises:
            FormatError: there is no such format, or its library is not installed.
            ColumnError: there is no such column.
        """
        new = copy.copy(self)
        new.set_format(type, columns, output_all_columns, **format_kwargs)
        return new

    def reset_format(self) -> None:
        """Back to all columns as Python objects, in place."""
        self.set_format()

    @contextmanager
    def formatted_as(
        self,
        type: str | None = None,
        columns: Any = None,
        output_all_columns: bool = False,
        **format_kwargs: Any,
    ) -> Iterator[None]:
        """Another format within a ``with`` statement; see `with_format`."""
        before, formatter = self._format, self._formatter_made
        try:
            self.set_format(type, columns, output_all_columns, **format_kwargs)
            yield
        finally:
            self._format, self._formatter_made = before, formatter

    def set_transform(
        self,
        transform: Callable[[dict[str, Any]], Mapping[str, Any]] | None,
        columns: Any = None,
        output_all_columns: bool = False,
    ) -> None:
        """Sets a function that is applied on reading, in place; see `with_transform`."""
        if transform is None:
            self.set_format(None, columns, output_all_columns)
        else:
            self.set_format("custom", columns, output_all_columns, transform=transform)

    def with_transform(
        self,
        transform: Callable[[dict[str, Any]], Mapping[str, Any]] | None,
        columns: Any = None,
        output_all_columns: bool = False,
    ) -> Self:
        """The dataset with a function that is applied whenever rows are read, never cached.

        Args:
            transform: takes a dict of columns (Python objects), returns one.
            columns: those it is given; all by default.
            output_all_columns: give the other columns too.
        """
        new = copy.copy(self)
        new.set_transform(transform, columns, output_all_columns)
        return new
