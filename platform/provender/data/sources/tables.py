"""Rows that lie in an Arrow table, in memory or memory-mapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from provender.data.sources.base import Chunk, Position, Source, check_columns, check_shards
from provender.data.sources.combined import check_ordinals, shares
from provender.data.sources.identity import identity_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features

CHUNK_ROWS = 8192


class TableSource(Source):
    """An Arrow table, its shards being ranges of rows.

    Args:
        table: the rows.
        features: their types, by default those of the table's schema.
        identity: stands for the content; by default a digest of the values.
        num_shards: how many even ranges to cut the table into.
    """

    def __init__(
        self,
        table: pa.Table,
        features: Features | None = None,
        *,
        identity: str | None = None,
        num_shards: int = 1,
    ) -> None:
        self._table = table
        self._features = features
        self._identity = identity
        self._ranges = even_ranges(table.num_rows, num_shards)

    @property
    def features(self) -> Features:
        if self._features is None:
            from provender.data.features import Features

            self._features = Features.from_arrow_schema(self._table.schema)
        return self._features

    @property
    def identity(self) -> str:
        if self._identity is None:
            from provender.fingerprint import Hasher

            self._identity = Hasher.hash(self._table)
        return identity_of("table 1", self._identity, self._ranges)

    @property
    def num_shards(self) -> int:
        return len(self._ranges)

    def shard_rows(self, shard: int) -> int:
        start, stop = self._ranges[shard]
        return stop - start

    def _slice(self, start: int, stop: int) -> pa.Table:
        return self._table.slice(start, stop - start)

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self.num_shards)
        start, stop = self._ranges[shard]
        at = start + (int(position["row"]) if position is not None else row)
        while at < stop:
            upto = min(at + CHUNK_ROWS, stop)
            table = self._slice(at, upto)
            yield Chunk(at - start, upto - at, {"row": upto - start}, table=table)
            at = upto

    def _derived(self, ranges: list[tuple[int, int]]) -> TableSource:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._ranges = ranges
        return new

    def select_shards(self, shards: Sequence[int]) -> TableSource:
        return self._derived([self._ranges[each] for each in check_shards(shards, self.num_shards)])

    def reshard(self, num_shards: int | None = None) -> TableSource:
        """Cuts each range into even parts; by default into parts of 8,192 rows."""
        counts = [stop - start for start, stop in self._ranges]
        if num_shards is None:
            parts = [max(1, -(-count // CHUNK_ROWS)) for count in counts]
        elif num_shards <= self.num_shards:
            return self
        else:
            parts = shares(counts, num_shards)
        return self._derived(
            [
                (start + low, start + high)
                for (start, stop), number in zip(self._ranges, parts, strict=True)
                for low, high in even_ranges(stop - start, number)
            ]
        )

    def columns(self, names: Sequence[str]) -> Source:
        features = self.features
        check_columns(names, list(features))
        new = self._derived(self._ranges)
        new._table = self._table.select(list(names))
        new._features = type(features)({name: features[name] for name in names})
        if self._identity is not None:
            new._identity = identity_of("columns", self._identity, list(names))
        return new

    @property
    def random_access(self) -> bool:
        return True

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        import numpy as np

        counts = [stop - start for start, stop in self._ranges]
        ends = np.cumsum(counts, dtype=np.int64)
        wanted = check_ordinals(ordinals, int(ends[-1]) if len(ends) else 0)
        if len(self._ranges) > 1 or (self._ranges and self._ranges[0][0]):
            which = np.searchsorted(ends, wanted, "right")
            starts = np.array([start for start, _ in self._ranges], np.int64)
            wanted = wanted - (ends - counts)[which] + starts[which]
        return self._take(wanted)

    def _take(self, ordinals: np.ndarray) -> pa.Table:
        import pyarrow as pa

        return self._table.take(pa.array(ordinals))

    def __repr__(self) -> str:
        rows = sum(stop - start for start, stop in self._ranges)
        return f"{type(self).__name__}({rows} rows, num_shards={self.num_shards})"


class DatasetSource(TableSource):
    """A `provender.data.Dataset` as a source, for ``to_iterable_dataset``.

    Args:
        dataset: the rows; whatever order it selects is kept.
        num_shards: how many even ranges to cut it into.
    """

    def __init__(self, dataset: Any, num_shards: int = 1) -> None:
        self._table = dataset.with_format("arrow")
        self._features = dataset.features
        self._identity = dataset._fingerprint
        self.unhashable = dataset._print.passing
        self._ranges = even_ranges(len(dataset), num_shards)

    def _slice(self, start: int, stop: int) -> pa.Table:
        return self._table[start:stop]

    def _take(self, ordinals: np.ndarray) -> pa.Table:
        return self._table[ordinals]

    def columns(self, names: Sequence[str]) -> Source:
        check_columns(names, list(self.features))
        new = self._derived(self._ranges)
        new._table = self._table.select_columns(list(names)).with_format("arrow")
        new._features = new._table.features
        new._identity = new._table._fingerprint
        return new


def even_ranges(total: int, parts: int) -> list[tuple[int, int]]:
    """``[0, total)`` in `parts` ranges that differ by at most one row."""
    bounds = [total * part // max(parts, 1) for part in range(max(parts, 1) + 1)]
    return list(pairwise(bounds))
