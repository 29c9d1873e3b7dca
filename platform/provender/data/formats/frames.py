"""Arrow tables, and frames of pandas and polars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

from provender.data.features import FeatureType, decode_nested, decodes
from provender.data.formats.base import Formatter, unknown_column


class ArrowFormatter(Formatter):
    """Arrow tables and arrays, as they are stored."""

    name: ClassVar[str] = "arrow"
    is_table: ClassVar[bool] = True

    def convert(self, column: pa.ChunkedArray, feature: FeatureType) -> pa.ChunkedArray:
        return column

    def batch(self, table: pa.Table) -> Any:
        return self._framed(self._picked(table))

    def row(self, table: pa.Table, index: int = 0) -> Any:
        return self.batch(table.slice(index, 1))

    def rows(self, table: pa.Table) -> Iterator[Any]:
        for index in range(table.num_rows):
            yield self.batch(table.slice(index, 1))

    def _picked(self, table: pa.Table) -> pa.Table:
        names = self.chosen(table)
        if self.output_all_columns:
            names = [*names, *(each for each in table.column_names if each not in names)]
        return table if names == table.column_names else table.select(names)

    def _framed(self, table: pa.Table) -> Any:
        return table


class PandasFormatter(ArrowFormatter):
    """DataFrames and Series; a row is a DataFrame of one row."""

    name: ClassVar[str] = "pandas"

    def convert(self, column: pa.ChunkedArray, feature: FeatureType) -> Any:
        import pandas as pd

        if decodes(feature):
            values = [decode_nested(feature, each) for each in column.to_pylist()]
            return pd.Series(values, dtype=object)
        return column.to_pandas(**self.kwargs)

    def column(self, table: pa.Table, name: str) -> Any:
        if name not in table.column_names:
            raise unknown_column(name, table.column_names)
        made = self.convert(table.column(name), self.features_of(table)[name])
        made.name = name
        return made

    def _framed(self, table: pa.Table) -> Any:
        features = self.features_of(table)
        frame = table.to_pandas(**self.kwargs)
        for name in table.column_names:
            if decodes(features[name]):
                frame[name] = self.convert(table.column(name), features[name])
        return frame


class PolarsFormatter(ArrowFormatter):
    """Polars frames and series."""

    name: ClassVar[str] = "polars"

    def convert(self, column: pa.ChunkedArray, feature: FeatureType) -> Any:
        import polars as pl

        if decodes(feature):
            values = [decode_nested(feature, each) for each in column.to_pylist()]
            return pl.Series(values=values, dtype=pl.Object)
        return pl.from_arrow(column)

    def _framed(self, table: pa.Table) -> Any:
        import polars as pl

        features = self.features_of(table)
        made = [
            self.convert(table.column(name), features[name]).alias(name)
            for name in table.column_names
        ]
        return pl.DataFrame(made)
