"""Streams read into something else: lists, frames, files, tf.data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from provender.data.stream.formats import PLAIN, columns_of
from provender.data.stream.making import Making

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1000


class Column:
    """One column of a stream: its values, one after another."""

    def __init__(self, stream: Any, path: tuple[str, ...]) -> None:
        self._stream = stream
        self._path = path

    def __iter__(self) -> Iterator[Any]:
        for row in self._stream:
            value = row
            for name in self._path:
                value = value[name]
            yield value

    def __getitem__(self, name: str) -> Column:
        return Column(self._stream, (*self._path, name))

    def __repr__(self) -> str:
        return f"Column({'.'.join(self._path)!r})"


class Outputs(Making):
    """What ends a stream, and what is told of where it comes from."""

    def _told(self, name: str) -> Any:
        return getattr(self.info, name, None)

    @property
    def builder_name(self) -> str | None:
        """Name of the builder that made the dataset; None where that is not known, as below."""
        return self._told("builder_name")  # type: ignore[no-any-return]

    @property
    def config_name(self) -> str | None:
        """Name of the builder's configuration."""
        return self._told("config_name")  # type: ignore[no-any-return]

    @property
    def supervised_keys(self) -> Any:
        """What the builder calls input and target."""
        return self._told("supervised_keys")

    @property
    def download_checksums(self) -> dict[str, Any] | None:
        """URL -> checksum of what the dataset was built from."""
        return self._told("download_checksums")  # type: ignore[no-any-return]

    @property
    def download_size(self) -> int | None:
        """Bytes of what the dataset was built from."""
        return self._told("download_size")  # type: ignore[no-any-return]

    @property
    def dataset_size(self) -> int | None:
        """Bytes of the dataset where it was published."""
        return self._told("dataset_size")  # type: ignore[no-any-return]

    @property
    def size_in_bytes(self) -> int | None:
        """Bytes of both."""
        return self._told("size_in_bytes")  # type: ignore[no-any-return]

    def __getitem__(self, column_name: str) -> Column:
        """The values of one column, in order.

        Raises:
            TypeError: a number was given: a stream has no random access.
            ColumnError: there is no such column.
        """
        if not isinstance(column_name, str):
            raise TypeError(
                "A stream has no random access; ds.skip(n) goes to a row, "
                "ds['name'] gives a column."
            )
        self._check_known([column_name], "ds[...]")
        return Column(self, (column_name,))

    def _head(self, n: int = 5) -> dict[str, list[Any]]:
        return columns_of(list(self.take(n)))

    def to_list(self) -> list[Any]:
        """All rows."""
        return list(self)

    def to_dict(self, batch_size: int | None = None, batched: bool = False) -> Any:
        """All columns as lists; with `batched` an iterator of such dicts."""
        plain = self._plain()
        if batched:
            return plain.iter(batch_size or _ROWS)
        return columns_of(list(plain))

    def to_pandas(self, batch_size: int | None = None, batched: bool = False) -> Any:
        """All rows as a data frame; with `batched` an iterator of frames."""
        if batched:
            return (table.to_pandas() for table in self._tables(batch_size or _ROWS))
        return self.to_arrow().to_pandas()

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        from provender.data.stream.block import join_tables

        tables = list(self._tables(_ROWS))
        if tables:
            return join_tables(tables)
        import pyarrow as pa

        features = self._plan.features()
        return pa.table({}) if features is None else features.arrow_schema.empty_table()

    def to_polars(self, batch_size: int | None = None, batched: bool = False) -> Any:
        """All rows as a polars frame; with `batched` an iterator of frames. Needs polars."""
        import polars as pl

        if batched:
            return (pl.from_arrow(table) for table in self._tables(batch_size or _ROWS))
        return pl.from_arrow(self.to_arrow())

    def to_parquet(self, path_or_buf: Any, batch_size: int | None = None, **kwargs: Any) -> int:
        """Writes a parquet file, or into an open binary file; returns how many rows."""
        import pyarrow.parquet as pq

        rows, writer = 0, None
        try:
            for table in self._tables(batch_size or 10_000):
                if writer is None:
                    writer = pq.ParquetWriter(path_or_buf, table.schema, **kwargs)
                writer.write_table(table.cast(writer.schema))
                rows += table.num_rows
            if writer is None:
                writer = pq.ParquetWriter(path_or_buf, self.to_arrow().schema, **kwargs)
        finally:
            if writer is not None:
                writer.close()
        return rows

    def to_json(self, path_or_buf: Any, batch_size: int | None = None) -> int:
        """Writes JSON lines, also into an open text or binary file; returns how many rows."""
        import contextlib
        import io
        import json

        rows = 0
        with contextlib.ExitStack() as stack:
            out = path_or_buf
            if not hasattr(path_or_buf, "write"):
                out = stack.enter_context(open(path_or_buf, "wb"))
            text = isinstance(out, io.TextIOBase)
            for table in self._tables(batch_size or _ROWS):
                lines = [json.dumps(row, default=str) + "\n" for row in table.to_pylist()]
                out.writelines(lines if text else [line.encode() for line in lines])
                rows += table.num_rows
        return rows

    def to_csv(self, path_or_buf: Any, batch_size: int | None = None) -> int:
        """Writes CSV with a line of names, also into an open binary file; returns how many rows."""
        import pyarrow.csv as pc

        rows, writer = 0, None
        try:
            for table in self._tables(batch_size or _ROWS):
                if writer is None:
                    schema = table.schema
                    writer = pc.CSVWriter(path_or_buf, schema)
                writer.write_table(table.cast(schema))
                rows += table.num_rows
            if writer is None:
                writer = pc.CSVWriter(path_or_buf, self.to_arrow().schema)
        finally:
            if writer is not None:
                writer.close()
        return rows

    def _plain(self) -> Any:
        new = self._derived(self._node)
        new._format = PLAIN
        return new

    def _tables(self, size: int) -> Iterator[pa.Table]:
        return iter(self.with_format("arrow").iter(size))

    def to_tf_dataset(
        self,
        batch_size: int | None = None,
        columns: str | list[str] | None = None,
        label_cols: str | list[str] | None = None,
        drop_remainder: bool = False,
        prefetch: bool = True,
        position: str | None = None,
    ) -> Any:
        """A ``tf.data.Dataset`` of the rows, or of batches.

        Args:
            batch_size: rows of a batch; None: single rows.
            columns: those that are given; by default all.
            label_cols: columns given as the second element of a pair.
            drop_remainder: leave out a last batch that is smaller; shapes are then static.
            prefetch: let tf.data make some ahead.
            position: name of one more element: the position after the row or batch, as JSON text.
                It travels with the data, so it is right however much was prefetched:
                ``ds.load_state_dict(json.loads(batch[position].numpy()))``.

        Raises:
            ColumnError: there is no such column.
        """
        from provender.data.stream.tensorflow_bridge import tf_dataset

        return tf_dataset(self, batch_size, columns, label_cols, drop_remainder, prefetch, position)
