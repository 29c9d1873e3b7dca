"""Arrow IPC files, of the stream or the file format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.sources.access import DataFile
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
from provender.data.sources.tables import CHUNK_ROWS
from provender.errors import DamageError
from provender.store.paths import split_scheme

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features


class ArrowSource(DerivedSource):
    """Arrow files, each a shard: local ones are mapped into memory, remote ones read whole.

    Args:
        files: the files, in order.
        features: the columns and their types; by default those of the first file.
        options: how files are read.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        *,
        features: Features | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._files = list(files)
        self._given = features
        self._options = options or ReadOptions()
        self._names: tuple[str, ...] | None = None
        self._tables: dict[str, pa.Table] = {}

    def _table(self, file: DataFile) -> pa.Table:
        if file.url not in self._tables:
            table = _read(file, self._options)
            if self._given is not None:
                from provender.data.features import cast_table

                table = cast_table(table, self._given)
            self._tables[file.url] = table
        table = self._tables[file.url]
        return table if self._names is None else table.select(list(self._names))

    @property
    def features(self) -> Features | None:
        from provender.data.features import Features

        features = self._given
        if features is None and self._files:
            features = Features.from_arrow_schema(self._table(self._files[0]).schema)
        if features is None or self._names is None:
            return features
        return type(features)({name: features[name] for name in self._names})

    def _identify(self) -> str:
        contents = [self._options.content(file) for file in self._files]
        given = self._given.to_dict() if self._given is not None else None
        return identity_of("arrow 1", contents, given, self._names)

    @property
    def num_shards(self) -> int:
        return len(self._files)

    def shard_rows(self, shard: int) -> int:
        return int(self._table(self._files[shard]).num_rows)

    def shard_name(self, shard: int) -> str:
        return self._files[shard].name

    @property
    def skipped(self) -> Mapping[str, int]:
        return dict(self._options.skipped.counts)

    def select_shards(self, shards: Sequence[int]) -> Source:
        chosen = [self._files[each] for each in check_shards(shards, self.num_shards)]
        return self._derived(_files=chosen, _given=self._given)

    def columns(self, names: Sequence[str]) -> Source:
        features = self.features
        if features is not None:
            check_columns(names, list(features))
        return self._derived(_names=tuple(names))

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self.num_shards)
        try:
            table = self._table(self._files[shard])
        except Exception as error:
            if not self._options.forgives(error, "shards"):
                raise
            return
        at = int(position["row"]) if position is not None else row
        while at < table.num_rows:
            piece = table.slice(at, CHUNK_ROWS)
            yield Chunk(at, piece.num_rows, {"row": at + piece.num_rows}, piece)
            at += piece.num_rows

    @property
    def random_access(self) -> bool:
        return True

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        import pyarrow as pa

        table = pa.concat_tables([self._table(file) for file in self._files])
        return table.take(pa.array(check_ordinals(ordinals, table.num_rows)))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_tables": {}}

    def __repr__(self) -> str:
        return f"ArrowSource(num_shards={self.num_shards})"


def _read(file: DataFile, options: ReadOptions) -> pa.Table:
    import pyarrow as pa

    with options.open(file) as reader:
        if split_scheme(file.url)[0] == "file":
            buffer: Any = pa.memory_map(file.url) if file.size else pa.BufferReader(b"")
        else:
            buffer = pa.BufferReader(reader.read(0, reader.size))
    try:
        if file.size >= 6 and buffer.read(6) == b"ARROW1":
            return pa.ipc.open_file(buffer).read_all()
        buffer.seek(0)
        return pa.ipc.open_stream(buffer).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise DamageError(
            f"The file is no whole Arrow file: {error}",
            where=file.name,
            hint='Write it again, or pass on_error="skip" to go on behind it.',
            facts={"file": file.name},
        ) from error
