"""Parquet files: entered at any row group, read column by column."""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provender.data.sources.access import DataFile, RangeReader
from provender.data.sources.base import (
    Chunk,
    DerivedSource,
    Position,
    Source,
    check_columns,
    check_shards,
)
from provender.data.sources.combined import check_ordinals
from provender.data.sources.identity import identity_of
from provender.data.sources.options import ReadOptions
from provender.data.sources.parquet_io import (
    ColumnsFile,
    column_numbers,
    fetch_footers,
    footer,
    spans_of,
)
from provender.errors import DamageError, InputError, ProvenderError
from provender.store.paths import split_scheme

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from provender.data.features import Features

CHUNK_ROWS = 16_384
_KEPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Groups:
    """A shard: the row groups ``[start, stop)`` of a file; `stop` None is its end."""

    file: DataFile
    start: int = 0
    stop: int | None = None


class ParquetSource(DerivedSource):
    """Parquet files, each a shard, or some row groups of it.

    Counts come from the footers. A place is a row group and a row in it.

    Args:
        files: the files, in order.
        features: the columns and their types; by default those of the first file.
        options: how files are read.
    """

    _forgotten = ("_known_identity", "_groups", "_looked")

    def __init__(
        self,
        files: Sequence[DataFile],
        *,
        features: Features | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._parts = [Groups(file) for file in files]
        self._given = features
        self._found: Features | None = None
        self._options = options or ReadOptions()
        self._names: tuple[str, ...] | None = None

    # ------------------------------------------------------------------ what it is

    @property
    def _all(self) -> Features | None:
        if self._given is not None:
            return self._given
        if self._found is None and self._parts:
            from provender.data.features import Features

            metadata = self._footer(self._parts[0].file)
            self._found = Features.from_arrow_schema(metadata.schema.to_arrow_schema())
        return self._found

    @property
    def features(self) -> Features | None:
        features = self._all
        if features is None or self._names is None:
            return features
        return type(features)({name: features[name] for name in self._names})

    def _identify(self) -> str:
        contents: dict[str, str] = {}
        for part in self._parts:
            if part.file.url not in contents:
                contents[part.file.url] = self._options.content(part.file)
        parts = [(contents[part.file.url], part.start, part.stop) for part in self._parts]
        given = self._given.to_dict() if self._given is not None else None
        return identity_of("parquet 1", parts, given, self._names)

    @property
    def num_shards(self) -> int:
        return len(self._parts)

    def _footer(self, file: DataFile, reader: RangeReader | None = None) -> pq.FileMetaData:
        if reader is not None:
            return footer(file, reader)
        with self._options.open(file) as opened:
            return footer(file, opened)

    def _look_at_all(self) -> None:
        """Fetches the footers of remote files side by side when the first of them is asked for."""
        if self.__dict__.get("_looked") != os.getpid():
            self.__dict__["_looked"] = os.getpid()
            remote = [p.file for p in self._parts if split_scheme(p.file.url)[0] != "file"]
            if len(remote) > 1:
                fetch_footers(list(dict.fromkeys(remote)), self._options.open)

    def shard_rows(self, shard: int) -> int | None:
        part = self._parts[shard]
        self._look_at_all()
        try:
            metadata = self._footer(part.file)
        except (DamageError, ProvenderError):
            if self._options.on_error == "skip":
                return None
            raise
        if part.start == 0 and part.stop is None:
            return int(metadata.num_rows)
        stop = metadata.num_row_groups if part.stop is None else part.stop
        return sum(metadata.row_group(group).num_rows for group in range(part.start, stop))

    def shard_name(self, shard: int) -> str:
        return self._parts[shard].file.name

    @property
    def skipped(self) -> Mapping[str, int]:
        return dict(self._options.skipped.counts)

    # ------------------------------------------------------------------ what is made of it

    def select_shards(self, shards: Sequence[int]) -> Source:
        found = self._all
        chosen = [self._parts[each] for each in check_shards(shards, self.num_shards)]
        return self._derived(_parts=chosen, _found=found)

    def columns(self, names: Sequence[str]) -> Source:
        features = self.features
        if features is not None:
            check_columns(names, list(features))
        return self._derived(_names=tuple(names))

    def reshard(self, num_shards: int | None = None) -> Source:
        """Cuts files at row groups; by default each becomes a shard."""
        if num_shards is not None and num_shards <= self.num_shards:
            return self
        bounds = []
        for part in self._parts:
            metadata = self._footer(part.file)
            stop = metadata.num_row_groups if part.stop is None else part.stop
            bounds.append((part, part.start, stop))
        if num_shards is None:
            shares = [max(stop - start, 1) for _, start, stop in bounds]
        else:
            from provender.data.sources.combined import shares as share_out

            shares = share_out([stop - start for _, start, stop in bounds], num_shards)
        cut = []
        for (part, start, stop), share in zip(bounds, shares, strict=True):
            pieces = max(1, min(share, stop - start))
            edges = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
            cut += [Groups(part.file, low, high) for low, high in itertools.pairwise(edges)]
        return self._derived(_parts=cut, _found=self._all)

    # ------------------------------------------------------------------ reading in order

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self.num_shards)
        try:
            yield from self._read(self._parts[shard], position, row)
        except Exception as error:
            if not self._options.forgives(error, "shards"):
                raise

    def _read(self, part: Groups, position: Position | None, row: int) -> Iterator[Chunk]:
        with self._options.open(part.file) as reader:
            metadata = self._footer(part.file, reader)
            stop = metadata.num_row_groups if part.stop is None else part.stop
            group, at, offset = part.start, 0, 0
            if position is not None:
                group, at, offset = (int(position[key]) for key in ("group", "row", "offset"))
            else:
                while group < stop and at + metadata.row_group(group).num_rows <= row:
                    at += metadata.row_group(group).num_rows
                    group += 1
                offset = row - at if group < stop else 0
                at += offset
            files = _GroupFiles(reader, metadata, column_numbers(metadata, self._names), stop)
            try:
                for number in range(group, stop):
                    count = metadata.row_group(number).num_rows
                    for table in self._tables(part, files, number, offset):
                        offset += table.num_rows
                        at += table.num_rows
                        place = {"group": number, "offset": offset, "row": at}
                        if offset >= count:
                            place = {"group": number + 1, "offset": 0, "row": at}
                        yield Chunk(at - table.num_rows, table.num_rows, place, table)
                    offset = 0
            finally:
                files.close()

    def _tables(
        self, part: Groups, files: _GroupFiles, group: int, offset: int
    ) -> Iterator[pa.Table]:
        """The rows of a group from `offset` on, some thousands at once."""
        import pyarrow as pa

        file, source = files.open(group)
        batches = file.iter_batches(
            batch_size=CHUNK_ROWS, row_groups=[group], columns=self._read_names(), use_threads=False
        )
        left = offset
        first = True
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                raise _broken(part.file, group, source, error) from error
            if batch is None:
                return
            if not first:
                files.prime(group + 1)
            first = False
            if left >= batch.num_rows:
                left -= batch.num_rows
                continue
            yield self._shaped(pa.Table.from_batches([batch.slice(left)]), part, group)
            left = 0

    def _read_names(self) -> list[str] | None:
        if self._names is not None:
            return list(self._names)
        return list(self._given) if self._given is not None else None

    def _shaped(self, table: pa.Table, part: Groups, group: int) -> pa.Table:
        features = self.features
        assert features is not None
        schema = features.arrow_schema
        if table.schema.equals(schema):
            return table.replace_schema_metadata(schema.metadata)
        from provender.data.features import cast_table

        missing = [name for name in schema.names if name not in table.column_names]
        extra = [name for name in table.column_names if name not in schema.names]
        if missing or extra:
            what = f"no column {missing[0]!r}" if missing else f"a column {extra[0]!r} more"
            raise InputError(
                f"The file has {what}.",
                where=part.file.name,
                hint="All files of a split need the same columns; columns=[...] chooses some.",
                facts={"file": part.file.name, "columns": table.column_names},
            )
        return cast_table(table.select(schema.names), features)

    # ------------------------------------------------------------------ random access

    @property
    def random_access(self) -> bool:
        return True

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        places, starts = self._all_groups()
        wanted = check_ordinals(ordinals, int(starts[-1]))
        which = np.searchsorted(starts, wanted, "right") - 1
        tables, order = [], np.empty(len(wanted), np.int64)
        done = 0
        for number in np.unique(which):
            at = np.flatnonzero(which == number)
            rows = wanted[at] - starts[number]
            shard, group = places[number]
            tables.append(self._group(self._parts[shard], group).take(pa.array(rows)))
            order[at] = np.arange(done, done + len(at))
            done += len(at)
        if not tables:
            features = self.features
            assert features is not None
            return features.arrow_schema.empty_table()
        table = pa.concat_tables(tables)
        if len(tables) == 1 or np.array_equal(order, np.arange(len(order))):
            return table
        return table.take(pa.array(order))

    def _all_groups(self) -> tuple[list[tuple[int, int]], np.ndarray]:
        """Shard and number of every row group, and the ordinal of its first row (and the total)."""
        import numpy as np

        known = self.__dict__.get("_groups")
        if known is None:
            places, counts = [], [0]
            for shard, part in enumerate(self._parts):
                metadata = self._footer(part.file)
                stop = metadata.num_row_groups if part.stop is None else part.stop
                for group in range(part.start, stop):
                    places.append((shard, group))
                    counts.append(metadata.row_group(group).num_rows)
            known = self.__dict__["_groups"] = (places, np.cumsum(counts))
        return known

    def _group(self, part: Groups, group: int) -> pa.Table:
        """A whole row group; the last ones are kept."""
        key = (part.file.url, part.file.token, group, self._names, repr(self._given))
        kept = _kept.get(key)
        if kept is not None:
            return kept
        import pyarrow as pa

        with self._options.open(part.file) as reader:
            metadata = self._footer(part.file, reader)
            files = _GroupFiles(reader, metadata, column_numbers(metadata, self._names), group + 1)
            file, source = files.open(group)
            try:
                table = file.read_row_group(group, columns=self._read_names(), use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise _broken(part.file, group, source, error) from error
            finally:
                files.close()
        table = self._shaped(table, part, group)
        _kept.put(key, table)
        return table

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_groups"}

    def __repr__(self) -> str:
        return f"ParquetSource(num_shards={self.num_shards})"


class _GroupFiles:
    """Opens row groups one after another, the next one being fetched meanwhile."""

    def __init__(
        self, reader: RangeReader, metadata: Any, columns: list[int] | None, stop: int
    ) -> None:
        self._reader, self._metadata, self._columns, self._stop = reader, metadata, columns, stop
        self._ready: dict[int, ColumnsFile] = {}
        self._current: ColumnsFile | None = None
        self._local: Any = None

    def open(self, group: int) -> tuple[Any, ColumnsFile | None]:
        """pyarrow's reader for a group, and the file it reads where that one is remote."""
        import pyarrow.parquet as pq

        if not self._reader.is_remote:
            if self._local is None:
                file = ColumnsFile(self._reader, [])
                self._local = pq.ParquetFile(file, metadata=self._metadata, pre_buffer=False)
            return self._local, None
        self.prime(group)
        if self._current is not None:
            self._current.close()
        self._current = self._ready.pop(group)
        file = pq.ParquetFile(
            self._current, metadata=self._metadata, buffer_size=64 << 10, pre_buffer=False
        )
        return file, self._current

    def prime(self, group: int) -> None:
        """Begins to fetch a group."""
        if self._reader.is_remote and group < self._stop and group not in self._ready:
            spans = spans_of(self._metadata, group, self._columns)
            file = self._ready[group] = ColumnsFile(self._reader, spans)
            file.prime()

    def close(self) -> None:
        for file in (self._current, *self._ready.values()):
            if file is not None:
                file.close()


class _Kept:
    """Row groups read lately, up to 64 MiB; shared in the process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tables: OrderedDict[Any, pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        # A thread that does not exist in the child may have held the lock.
        self._lock = threading.Lock()

    def get(self, key: Any) -> pa.Table | None:
        with self._lock:
            if key in self._tables:
                self._tables.move_to_end(key)
                return self._tables[key]
            return None

    def put(self, key: Any, table: pa.Table) -> None:
        size = table.nbytes
        if size > self._limit:
            return
        with self._lock:
            old = self._tables.pop(key, None)
            self._bytes += size - (old.nbytes if old is not None else 0)
            self._tables[key] = table
            while self._bytes > self._limit:
                self._bytes -= self._tables.popitem(last=False)[1].nbytes


_kept = _Kept(_KEPT_BYTES)


def _broken(
    file: DataFile, group: int, source: ColumnsFile | None, error: Exception
) -> ProvenderError:
    if source is not None and source.error is not None:
        return source.error
    return DamageError(
        f"Row group {group} cannot be read: {error}",
        where=file.name,
        hint='Write the file again, or pass on_error="skip" to go on behind it.',
        facts={"file": file.name, "group": group},
    )
