"""A source whose columns are made to be of given types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from provender.data.sources.base import Chunk, Position, Source, check_columns, close
from provender.data.sources.identity import identity_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features


class CastSource(Source):
    """A source read as other features.

    Args:
        source: the rows.
        features: the columns and their types.

    Raises:
        ColumnError: a column that the source does not have.
    """

    def __init__(self, source: Source, features: Features) -> None:
        if source.features is not None:
            check_columns(list(features), list(source.features))
        self._source = source.columns(list(features))
        self._features = features

    @property
    def features(self) -> Features:
        return self._features

    @property
    def identity(self) -> str:
        made = identity_of("cast 1", self._source.identity, self._features.to_dict())
        self.unhashable = self._source.unhashable
        return made

    @property
    def num_shards(self) -> int:
        return self._source.num_shards

    def shard_rows(self, shard: int) -> int | None:
        return self._source.shard_rows(shard)

    def count_rows(self, shard: int) -> int:
        return self._source.count_rows(shard)

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        chunks = self._source.read(shard, position, row=row)
        try:
            for chunk in chunks:
                yield replace(chunk, table=self._cast(chunk), rows=None)
        finally:
            close(chunks)

    def _cast(self, chunk: Chunk) -> pa.Table:
        from provender.data.features import cast_table, table_from_rows

        if chunk.table is None:
            return table_from_rows(chunk.rows or [], self._features, first_row=chunk.row)
        return cast_table(chunk.table, self._features)

    def _over(self, source: Source, features: Features) -> CastSource:
        new = CastSource.__new__(CastSource)
        new._source, new._features = source, features
        return new

    def select_shards(self, shards: Sequence[int]) -> Source:
        return self._over(self._source.select_shards(shards), self._features)

    def reshard(self, num_shards: int | None = None) -> Source:
        return self._over(self._source.reshard(num_shards), self._features)

    def columns(self, names: Sequence[str]) -> Source:
        check_columns(names, list(self._features))
        features = type(self._features)({name: self._features[name] for name in names})
        return self._over(self._source.columns(names), features)

    @property
    def random_access(self) -> bool:
        return self._source.random_access

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        from provender.data.features import cast_table

        return cast_table(self._source.rows_at(ordinals), self._features)

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._source.skipped

    def shard_name(self, shard: int) -> str:
        return self._source.shard_name(shard)
