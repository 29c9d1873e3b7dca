"""What all formats have in common."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from provender.data.errors import FormatError, unknown_column
from provender.data.features import Features, FeatureType

ROWS_AT_ONCE = 2048
"""Rows that `Formatter.rows` makes at a time: enough to spread the cost of a slice, little memory."""


class Formatter(abc.ABC):
    """Rows, columns and batches of tables in one format.

    Args:
        columns: columns that are formatted; None: all.
        features: what the columns are, where they say more than a table's schema.
        output_all_columns: give the other columns too, as Python objects.
        **kwargs: options of the format.

    Attributes:
        name: the format's name.
        is_table: rows and batches are frames or tables, not dicts.
        first_batch: rows of the first slice that `rows` converts.
    """

    name: ClassVar[str] = ""
    is_table: ClassVar[bool] = False

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        features: Features | None = None,
        *,
        output_all_columns: bool = False,
        **kwargs: Any,
    ) -> None:
        self.columns = None if columns is None else list(columns)
        self.features = features
        self.output_all_columns = output_all_columns
        self.kwargs = kwargs
        self._known: tuple[Any, Features] | None = None

    # --- what formats say --------------------------------------------------------------------

    @abc.abstractmethod
    def convert(self, column: pa.ChunkedArray, feature: FeatureType) -> Any:
        """A whole column in the format."""

    def pick(self, converted: Any, index: int) -> Any:
        """One value of a converted column."""
        return converted[index]

    # --- what everybody calls ----------------------------------------------------------------

    def row(self, table: pa.Table, index: int = 0) -> Any:
        """One row.

        Args:
            table: the table.
            index: number of the row in it.
        """
        batch = self.batch(table.slice(index, 1))
        return {name: self.pick(values, 0) for name, values in batch.items()}

    def column(self, table: pa.Table, name: str) -> Any:
        """One column.

        Raises:
            ColumnError: there is no such column.
        """
        if name not in table.column_names:
            raise unknown_column(name, table.column_names)
        feature = self.features_of(table)[name]
        if self.columns is not None and name not in self.columns:
            return self._others().convert(table.column(name), feature)
        return self.convert(table.column(name), feature)

    def batch(self, table: pa.Table) -> Any:
        """All rows as columns."""
        features = self.features_of(table)
        made = {
            name: self.convert(table.column(name), features[name]) for name in self.chosen(table)
        }
        if self.output_all_columns:
            python = self._others()
            for name in table.column_names:
                if name not in made:
                    made[name] = python.convert(table.column(name), features[name])
        return made

    def rows(self, table: pa.Table) -> Iterator[Any]:
        """All rows, one after another."""
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            part = table.slice(start, ROWS_AT_ONCE)
            batch = self.batch(part)
            names = list(batch)
            for index in range(part.num_rows):
                yield {name: self.pick(batch[name], index) for name in names}

    # --- columns ------------------------------------------------------------------------------

    def chosen(self, table: pa.Table) -> list[str]:
        """Names of the columns that are formatted.

        Raises:
            ColumnError: one of them is not in the table.
        """
        if self.columns is None:
            return list(table.column_names)
        known = set(table.column_names)
        for name in self.columns:
            if name not in known:
                raise unknown_column(name, table.column_names, "columns")
        return self.columns

    def features_of(self, table: pa.Table) -> Features:
        """What a table's columns are."""
        schema = table.schema
        if self._known is not None and (
            self._known[0] is schema or self._known[0].equals(schema, check_metadata=True)
        ):
            return self._known[1]
        features = Features.from_arrow_schema(schema)
        for name, feature in (self.features or {}).items():
            if name in features:
                features[name] = feature
        self._known = (schema, features)
        return features

    def _others(self) -> Formatter:
        from provender.data.formats.python import PythonFormatter

        return PythonFormatter(None, self.features)

    def _no_options(self) -> None:
        """For formats without options.

        Raises:
            FormatError: there are some.
        """
        if self.kwargs:
            raise FormatError(
                f"The format {self.name!r} has no option {next(iter(self.kwargs))!r}.",
                facts={"options": sorted(map(str, self.kwargs))},
            )


def single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array; not copied where it is one already."""
    if isinstance(column, pa.Array):
        array = column
    elif column.num_chunks == 1:
        array = column.chunk(0)
    else:
        array = column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def keyed(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> Iterator[Mapping[str, Any]]:
    """Dicts of columns' values, row by row."""
    if not names:
        return iter(())
    return _maker(tuple(names))(columns)


_makers: dict[tuple[str, ...], Any] = {}


def _maker(names: tuple[str, ...]) -> Any:
    """A generated function: a dict display costs a third of ``dict(zip(...))``."""
    made = _makers.get(names)
    if made is None:
        if len(_makers) > 256:
            _makers.clear()
        slots = [f"v{each}" for each in range(len(names))]
        items = ", ".join(f"{name!r}: {slot}" for name, slot in zip(names, slots, strict=True))
        # Only repr()s of column names go into the text.
        source = f"lambda columns: ({{{items}}} for {', '.join(slots)}, in zip(*columns))"
        made = _makers[names] = eval(source)  # noqa: S307
    return made
