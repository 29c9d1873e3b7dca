"""Sources made of other sources: ranges of their rows, and several behind one another."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from provender.data.sources.base import Chunk, Position, Source, check_shards, close
from provender.data.sources.identity import identity_of
from provender.errors import InputError, UnknownReference

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features

Piece = tuple[int, int, int | None]
"""Shard, first row in it, and the row after the last; None for all that follow."""


class PiecesSource(Source):
    """Ranges of rows of a source's shards, each range a shard.

    Args:
        source: where the rows come from.
        pieces: which, in order.
    """

    def __init__(self, source: Source, pieces: Sequence[Piece]) -> None:
        check_shards([piece[0] for piece in pieces], source.num_shards)
        self._source = source
        self._pieces = [
            (shard, start, None if stop is None else max(start, stop))
            for shard, start, stop in pieces
        ]

    @property
    def features(self) -> Features | None:
        return self._source.features

    @property
    def identity(self) -> str:
        made = identity_of("pieces 1", self._source.identity, self._pieces)
        self.unhashable = self._source.unhashable
        return made

    @property
    def num_shards(self) -> int:
        return len(self._pieces)

    def shard_rows(self, shard: int) -> int | None:
        inner, start, stop = self._pieces[shard]
        count = self._source.shard_rows(inner)
        if count is None:
            return 0 if stop is not None and stop <= start else None
        return max((count if stop is None else min(stop, count)) - start, 0)

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        inner, start, stop = self._pieces[shard]
        if stop is not None and start + row >= stop:
            return
        chunks = self._source.read(inner, position, row=start + row)
        try:
            for chunk in chunks:
                kept = chunk.count if stop is None else max(min(chunk.count, stop - chunk.row), 0)
                if kept == 0 < chunk.count:
                    return
                yield replace(_head(chunk, kept), row=chunk.row - start)
                if stop is not None and chunk.row + chunk.count >= stop:
                    return
        finally:
            close(chunks)

    def select_shards(self, shards: Sequence[int]) -> Source:
        chosen = check_shards(shards, len(self._pieces))
        return PiecesSource(self._source, [self._pieces[each] for each in chosen])

    def reshard(self, num_shards: int | None = None) -> Source:
        """Cuts pieces of known length into even parts; the rows are found by their numbers."""
        counts = [self.shard_rows(shard) for shard in range(self.num_shards)]
        if num_shards is None or num_shards <= self.num_shards or None in counts:
            return self
        pieces: list[Piece] = []
        lengths = [count or 0 for count in counts]
        for (shard, start, _), count, parts in zip(
            self._pieces, lengths, shares(lengths, num_shards), strict=True
        ):
            bounds = [start + count * part // parts for part in range(parts + 1)]
            pieces += [(shard, low, high) for low, high in pairwise(bounds)]
        return PiecesSource(self._source, pieces)

    def columns(self, names: Sequence[str]) -> Source:
        return PiecesSource(self._source.columns(names), self._pieces)

    @property
    def random_access(self) -> bool:
        return self._source.random_access

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        import numpy as np

        counts = [self.shard_rows(shard) or 0 for shard in range(self.num_shards)]
        mine = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        wanted = check_ordinals(ordinals, int(mine[-1]))
        inner = [self._source.shard_rows(shard) or 0 for shard in range(self._source.num_shards)]
        theirs = np.concatenate([[0], np.cumsum(inner)]).astype(np.int64)
        piece = np.searchsorted(mine, wanted, "right") - 1
        starts = np.array([theirs[shard] + start for shard, start, _ in self._pieces], np.int64)
        return self._source.rows_at(starts[piece] + wanted - mine[piece])

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._source.skipped

    def shard_name(self, shard: int) -> str:
        return self._source.shard_name(self._pieces[shard][0])


class ConcatSource(Source):
    """The shards of several sources, one source after another.

    Raises:
        InputError: the sources have different columns.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        if not sources:
            raise InputError("There is nothing to join: no source was given.")
        self._sources = list(sources)
        self._starts = [0, *accumulate(source.num_shards for source in sources)]
        known = [source.features for source in sources if source.features is not None]
        for other in known[1:]:
            if other != known[0]:
                raise InputError(
                    "The parts have different columns or types.",
                    hint="Give features=... that fits all of them.",
                    facts={"features": [str(known[0]), str(other)]},
                )
        self._features = known[0] if len(known) == len(sources) else None

    def _find(self, shard: int) -> tuple[int, int]:
        check_shards([shard], self.num_shards)
        which = bisect.bisect_right(self._starts, shard) - 1
        return which, shard - self._starts[which]

    @property
    def features(self) -> Features | None:
        return self._features

    @property
    def identity(self) -> str:
        made = identity_of("joined 1", [source.identity for source in self._sources])
        known = (source.unhashable for source in self._sources)
        self.unhashable = next((each for each in known if each is not None), None)
        return made

    @property
    def num_shards(self) -> int:
        return self._starts[-1]

    def shard_rows(self, shard: int) -> int | None:
        which, inner = self._find(shard)
        return self._sources[which].shard_rows(inner)

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        which, inner = self._find(shard)
        return self._sources[which].read(inner, position, row=row)

    def select_shards(self, shards: Sequence[int]) -> Source:
        return PiecesSource(self, [(shard, 0, None) for shard in shards])

    def reshard(self, num_shards: int | None = None) -> Source:
        if num_shards is None:
            return ConcatSource([source.reshard() for source in self._sources])
        counts = [source.num_shards for source in self._sources]
        if num_shards <= self.num_shards:
            return self
        parts = shares(counts, num_shards)
        cut = zip(self._sources, counts, parts, strict=True)
        return ConcatSource([source.reshard(max(count, share)) for source, count, share in cut])

    def columns(self, names: Sequence[str]) -> Source:
        return ConcatSource([source.columns(names) for source in self._sources])

    @property
    def random_access(self) -> bool:
        return all(source.random_access for source in self._sources)

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        totals = [source.total_rows or 0 for source in self._sources]
        starts = np.concatenate([[0], np.cumsum(totals)]).astype(np.int64)
        wanted = check_ordinals(ordinals, int(starts[-1]))
        which = np.searchsorted(starts, wanted, "right") - 1
        parts, places = [], []
        for number, source in enumerate(self._sources):
            at = np.flatnonzero(which == number)
            if len(at):
                parts.append(source.rows_at(wanted[at] - starts[number]))
                places.append(at)
        if not parts:
            return self._sources[0].rows_at(wanted)
        back = np.empty(len(wanted), np.int64)
        back[np.concatenate(places)] = np.arange(len(wanted))
        return pa.concat_tables(parts).take(pa.array(back))

    @property
    def skipped(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for source in self._sources:
            for what, count in source.skipped.items():
                found[what] = found.get(what, 0) + count
        return found

    def shard_name(self, shard: int) -> str:
        which, inner = self._find(shard)
        return self._sources[which].shard_name(inner)


def row_range(source: Source, start: int, stop: int) -> Source:
    """The rows `start` to `stop` (excluded) of a source whose counts are known."""
    pieces: list[Piece] = []
    at = 0
    for shard in range(source.num_shards):
        count = source.shard_rows(shard) or 0
        low, high = max(start - at, 0), min(stop - at, count)
        if low < high:
            pieces.append((shard, low, None if high == count else high))
        at += count
    return PiecesSource(source, pieces)


def check_ordinals(ordinals: np.ndarray, total: int) -> np.ndarray:
    """The row numbers as int64, shape ``[n]``, once they all exist.

    Raises:
        UnknownReference: one of them does not.
    """
    import numpy as np

    wanted = np.asarray(ordinals, np.int64)
    if wanted.size and (int(wanted.min()) < 0 or int(wanted.max()) >= total):
        bad = int(wanted[(wanted < 0) | (wanted >= total)][0])
        raise UnknownReference(
            f"Row {bad} was asked for, there are {total}.",
            hint=f"Ask for 0 to {total - 1:,}." if total else "The source is empty.",
        )
    return wanted


def shares(weights: Sequence[int], total: int) -> list[int]:
    """How many of `total` parts each of some things gets: at least one, the heavy ones more."""
    whole = sum(weights) or 1
    parts = [max(1, round(weight * total / whole)) for weight in weights]
    while sum(parts) < total:
        fullest = max(range(len(parts)), key=lambda each: weights[each] / parts[each])
        parts[fullest] += 1
    return parts


def _head(chunk: Chunk, count: int) -> Chunk:
    if count >= chunk.count:
        return chunk
    return replace(
        chunk,
        count=count,
        table=None if chunk.table is None else chunk.table.slice(0, count),
        rows=None if chunk.rows is None else chunk.rows[:count],
    )
