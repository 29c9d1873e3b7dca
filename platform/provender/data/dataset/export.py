"""A dataset as other objects and as files of other formats."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from provender.data.dataset.access import Access
from provender.data.dataset.progress import Progress

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from provender.data.dataset.core import Dataset
    from provender.data.publishing import Published
    from provender.data.stream import IterableDataset

BATCH_ROWS = 10_000


class Export(Access):
    """Conversions, and files for other programs."""

    def to_dict(
        self, batch_size: int | None = None, batched: bool = False
    ) -> dict[str, list[Any]] | Iterator[dict[str, list[Any]]]:
        """The columns as lists of Python objects.

        Args:
            batch_size: rows of each dict, if `batched`.
            batched: give one dict after another instead of a single one.
        """
        if batched:
            return (table.to_pydict() for table in self._tables(batch_size or BATCH_ROWS))
        found: dict[str, list[Any]] = self._whole().to_pydict()
        return found

    def to_list(self) -> list[dict[str, Any]]:
        """The rows as dicts of Python objects."""
        return [row for table in self._tables(BATCH_ROWS) for row in table.to_pylist()]

    def to_pandas(
        self, batch_size: int | None = None, batched: bool = False
    ) -> pd.DataFrame | Iterator[pd.DataFrame]:
        """The dataset as a pandas DataFrame.

        Args:
            batch_size: rows of each frame, if `batched`.
            batched: give one frame after another instead of a single one.
        """
        if batched:
            return (_frame(table) for table in self._tables(batch_size or BATCH_ROWS))
        return _frame(self._whole())

    def to_polars(
        self, batch_size: int | None = None, batched: bool = False
    ) -> pl.DataFrame | Iterator[pl.DataFrame]:
        """The dataset as a polars DataFrame.

        Args:
            batch_size, batched: as for `to_pandas`.

        Raises:
            FormatError: polars is not installed.
        """
        from provender.data.formats import formatter

        make = formatter("polars", features=self._features)
        if batched:
            return (make.batch(table) for table in self._tables(batch_size or BATCH_ROWS))
        frame: pl.DataFrame = make.batch(self._whole())
        return frame

    def to_csv(
        self,
        path_or_buf: Any,
        batch_size: int | None = None,
        num_proc: int | None = None,
        storage_options: dict[str, Any] | None = None,
        **to_csv_kwargs: Any,
    ) -> int:
        """Writes a CSV file.

        Args:
            path_or_buf: a path or URL (``gs://...``), or a binary file.
            batch_size: rows that are converted at a time.
            num_proc: None or 1: one process writes.
            storage_options: for the file system.
            **to_csv_kwargs: for `pandas.DataFrame.to_csv`; ``index`` is False unless given.

        Returns:
            Bytes written.
        """
        _refuse_processes(num_proc, "to_csv")
        options = {"index": False, **to_csv_kwargs}
        header = options.pop("header", True)
        with _target(path_or_buf, storage_options) as out, self._progress("CSV") as bar:
            first = True
            for table in self._tables(batch_size or BATCH_ROWS):
                text = _frame(table).to_csv(header=header if first else False, **options)
                out.write(text.encode(options.get("encoding") or "utf-8"))
                bar.advance(table.num_rows)
                first = False
            if first:
                out.write(_frame(self._slice(0, 0)).to_csv(header=header, **options).encode())
            return out.count

    def to_json(
        self,
        path_or_buf: Any,
        batch_size: int | None = None,
        num_proc: int | None = None,
        storage_options: dict[str, Any] | None = None,
        **to_json_kwargs: Any,
    ) -> int:
        """Writes JSON: by default one object a line, numbers exactly as they are.

        Args:
            path_or_buf: a path or URL (``gs://...``), or a binary file.
            batch_size: rows that are converted at a time.
            num_proc: None or 1: one process writes.
            storage_options: for the file system.
            **to_json_kwargs: for `pandas.DataFrame.to_json`, which then writes; ``orient`` is
                "records" and ``lines`` True unless given. Without ``lines`` all rows are in
                memory at once.

        Returns:
            Bytes written.
        """
        _refuse_processes(num_proc, "to_json")
        orient = to_json_kwargs.pop("orient", "records")
        lines = to_json_kwargs.pop("lines", orient == "records")
        with _target(path_or_buf, storage_options) as out, self._progress("JSON") as bar:
            if orient != "records" or not lines:
                text = _frame(self._whole()).to_json(orient=orient, **to_json_kwargs)
                out.write(str(text).encode())
                return out.count
            for table in self._tables(batch_size or BATCH_ROWS):
                if to_json_kwargs:
                    text = _frame(table).to_json(orient="records", lines=True, **to_json_kwargs)
                    text = text if text.endswith("\n") or not text else text + "\n"
                else:
                    text = "".join(_line(row) for row in table.to_pylist())
                out.write(text.encode())
                bar.advance(table.num_rows)
            return out.count

    def to_parquet(
        self,
        path_or_buf: Any,
        batch_size: int | None = None,
        storage_options: dict[str, Any] | None = None,
        **parquet_writer_kwargs: Any,
    ) -> int:
        """Writes a Parquet file that keeps the features.

        Args:
            path_or_buf: a path or URL (``gs://...``), or a binary file.
            batch_size: rows of a row group.
            storage_options: for the file system.
            **parquet_writer_kwargs: for `pyarrow.parquet.ParquetWriter`.

        Returns:
            Bytes written.
        """
        import pyarrow.parquet as pq

        rows = batch_size or BATCH_ROWS
        with _target(path_or_buf, storage_options) as out, self._progress("Parquet") as bar:
            with pq.ParquetWriter(out, self._data.schema, **parquet_writer_kwargs) as writer:
                for table in self._tables(rows):
                    writer.write_table(table, row_group_size=rows)
                    bar.advance(table.num_rows)
            return out.count

    def to_iterable_dataset(self, num_shards: int = 1) -> IterableDataset:
        """The dataset as a stream.

        Args:
            num_shards: how many even parts it has, for workers to share; at most one a row.

        Raises:
            SettingsError: there are fewer rows than shards.
        """
        from provender.data.sources.tables import DatasetSource
        from provender.data.stream import IterableDataset
        from provender.errors import SettingsError

        if num_shards < 1 or num_shards > max(len(self), 1):
            raise SettingsError(
                f"{len(self)} rows cannot be cut into {num_shards} shards.",
                where="num_shards",
                hint=f"Give 1 to {max(len(self), 1)}.",
            )
        chosen = self._format
        rows: Any = self
        if chosen.columns is not None and not chosen.output_all_columns:
            rows = rows.select_columns([each for each in self._features if each in chosen.columns])
        stream = IterableDataset.from_source(DatasetSource(rows, num_shards))
        if chosen.type is not None:
            stream = stream.with_format(chosen.type, **dict(chosen.kwargs))
        return stream

    def publish(self, name: str, *, version: str, **options: Any) -> Published:
        """Publishes the rows as a version of a dataset, with their lineage.

        Args:
            name: dataset name to publish under.
            version: number, ``x.y.z``.
            **options: ``config``, ``split``, ``description``, ``num_shards``, ``workers``, ...: see
                `provender.data.publishing.publish`, also for what is raised.

        Returns:
            The version, and whether anything had to be done.
        """
        from provender.data.publishing import publish

        return publish(cast("Dataset", self), name, version=version, **options)

    def _progress(self, kind: str) -> Progress:
        return Progress(f"Write {kind}", len(self))


def _refuse_processes(num_proc: int | None, where: str) -> None:
    if num_proc is not None and num_proc > 1:
        from provender.errors import SettingsError

        raise SettingsError(
            f"{where} writes in one process, not in {num_proc}.",
            where="num_proc",
            hint="Leave num_proc out. Parts can be written at the same time: "
            "ds.shard(num_shards, index) gives them.",
        )


def _frame(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _line(row: dict[str, Any]) -> str:
    return json.dumps(_jsonable(row), ensure_ascii=False, separators=(",", ":")) + "\n"


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            from provender.data.errors import FeatureTypeError

            raise FeatureTypeError(
                "Bytes that are no text cannot be written as JSON.",
                hint="Leave the column out (remove_columns), or write Parquet.",
            ) from error
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class _Counted(io.RawIOBase):
    """A binary file that counts what it is given, and stays open for whoever owns it."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._file.write(data)
        self.count += size
        return size

    def tell(self) -> int:
        return self.count


@contextlib.contextmanager
def _target(path_or_buf: Any, storage_options: dict[str, Any] | None) -> Iterator[_Counted]:
    """A file to write to; at a path it appears when it is whole."""
    if hasattr(path_or_buf, "write"):
        yield _Counted(path_or_buf)
        return
    from provender.data.dataset.remote import whole_file

    with whole_file(path_or_buf, storage_options) as file:
        yield _Counted(file)
