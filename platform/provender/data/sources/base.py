"""What a stream of rows is read from: shards that can be entered anywhere.

A `Source` says how many shards there are, how many rows they hold where that is known, and reads
any of them from any position. Positions are small JSON documents; what they hold is the business
of the source that made them. Everything above (shuffling, mapping, splitting over workers, state)
is built on this and never looks at files.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from provender.errors import ProvenderError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features

Position = Mapping[str, Any]
"""A JSON-ready place in a shard; it comes from `Chunk.next`."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows of one shard.

    Attributes:
        row: ordinal within the shard of the first row.
        count: number of rows; may be 0, where something damaged was passed over.
        next: position from which the row after the last one is read.
        table: the rows in columns; exactly one of `table` and `rows` is given.
        rows: the rows as Python objects.
    """

    row: int
    count: int
    next: Position
    table: pa.Table | None = None
    rows: Sequence[Mapping[str, Any]] | None = None

    def columns(self, names: Sequence[str]) -> Chunk:
        """The same rows with only the columns named, in that order."""
        if self.table is not None:
            return replace(self, table=self.table.select(list(names)))
        assert self.rows is not None
        return replace(self, rows=[{name: row[name] for name in names} for row in self.rows])

    def drop(self, count: int) -> Chunk:
        """The chunk without its first `count` rows."""
        if count <= 0:
            return self
        kept = max(self.count - count, 0)
        first = self.count - kept
        return replace(
            self,
            row=self.row + first,
            count=kept,
            table=None if self.table is None else self.table.slice(first),
            rows=None if self.rows is None else self.rows[first:],
        )


class Source(abc.ABC):
    """Shards of rows, each an ordered stream that can begin anywhere.

    A source never changes: `select_shards`, `reshard` and `columns` return new ones. It can be
    pickled, carried over a fork, and read by several threads at once.
    """

    @property
    @abc.abstractmethod
    def features(self) -> Features | None:
        """The columns and their types; None where only reading would tell."""

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """40 hex digits that stand for the content and the way it is read, never for where it lies."""

    unhashable: str | None = None
    """After `identity` was asked for: why that is another one in every process, if it is."""

    @property
    @abc.abstractmethod
    def num_shards(self) -> int:
        """How many shards there are."""

    def shard_rows(self, shard: int) -> int | None:
        """How many rows a shard has, if that is known without reading its data."""
        del shard
        return None

    def count_rows(self, shard: int) -> int:
        """How many rows a shard has, read through where that is the only way to know."""
        count = self.shard_rows(shard)
        if count is not None:
            return count
        chunks = self.read(shard)
        try:
            return sum(chunk.count for chunk in chunks)
        finally:
            close(chunks)

    @abc.abstractmethod
    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        """The rows of a shard in order.

        Close the iterator (``.close()``) to stop early: its threads end within 0.2 seconds.

        Args:
            shard: from 0 to ``num_shards - 1``.
            position: a `Chunk.next` of the same shard of a source of the same identity.
            row: without a position: ordinal of the first row wanted.

        Raises:
            DamageError, StoreError, InputError: naming the shard and the place in it.
        """

    @abc.abstractmethod
    def select_shards(self, shards: Sequence[int]) -> Source:
        """A source of some of the shards, in the order given."""

    def reshard(self, num_shards: int | None = None) -> Source:
        """The same rows in the same order, cut into more shards where the format allows it.

        Args:
            num_shards: how many there should be at least; by default as many as the format has
                natural pieces. It may come out as fewer, and never as fewer than there are now.
        """
        del num_shards
        return self

    def columns(self, names: Sequence[str]) -> Source:
        """The source with only the columns named, in that order; others are not even read.

        Raises:
            ColumnError: there is no such column.
        """
        return ProjectedSource(self, tuple(names))

    @property
    def random_access(self) -> bool:
        """Whether `rows_at` works, and `shard_rows` is known for every shard."""
        return False

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        """The rows of the numbers given, counted over all shards in order, in the order given.

        Args:
            ordinals: integers, shape ``[n]``; may repeat.

        Raises:
            ProvenderError: the source has no random access, or no such row.
        """
        del ordinals
        raise ProvenderError(
            f"{type(self).__name__} has no random access.",
            hint="Use shuffle(buffer_size=N), or load it without streaming=True.",
        )

    @property
    def skipped(self) -> Mapping[str, int]:
        """What ``on_error="skip"`` passed over in this process, by what it was; empty if nothing."""
        return {}

    def shard_name(self, shard: int) -> str:
        """What to call a shard in messages."""
        return f"shard {shard}"

    @property
    def total_rows(self) -> int | None:
        """How many rows all shards have together, if each of them is known."""
        counts = [self.shard_rows(shard) for shard in range(self.num_shards)]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None


class DerivedSource(Source):
    """A source that others are made of by changing some attributes, and that knows its identity once
    it was asked for: finding it may take reading files."""

    _forgotten: ClassVar[tuple[str, ...]] = ("_known_identity",)
    """Attributes that do not hold for a source made of this one."""

    def _derived(self, **changes: Any) -> Any:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        for name in self._forgotten:
            new.__dict__.pop(name, None)
        new.__dict__.update(changes)
        return new

    @property
    def identity(self) -> str:
        known: str | None = self.__dict__.get("_known_identity")
        if known is None:
            known = self.__dict__["_known_identity"] = self._identify()
        return known

    @abc.abstractmethod
    def _identify(self) -> str:
        """The identity, found anew."""


class ProjectedSource(Source):
    """Some columns of a source that reads whole rows."""

    def __init__(self, source: Source, names: tuple[str, ...]) -> None:
        features = source.features
        if features is not None:
            check_columns(names, list(features))
        self._source = source
        self._names = names

    @property
    def features(self) -> Features | None:
        features = self._source.features
        if features is None:
            return None
        return type(features)({name: features[name] for name in self._names})

    @property
    def identity(self) -> str:
        from provender.data.sources.identity import identity_of

        made = identity_of("columns", self._source.identity, list(self._names))
        self.unhashable = self._source.unhashable
        return made

    @property
    def num_shards(self) -> int:
        return self._source.num_shards

    def shard_rows(self, shard: int) -> int | None:
        return self._source.shard_rows(shard)

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        chunks = self._source.read(shard, position, row=row)
        try:
            for chunk in chunks:
                self._check(chunk)
                yield chunk.columns(self._names)
        finally:
            close(chunks)

    def _check(self, chunk: Chunk) -> None:
        if chunk.table is not None:
            check_columns(self._names, chunk.table.column_names)
        else:
            for each in chunk.rows or ():
                check_columns(self._names, list(each))

    def select_shards(self, shards: Sequence[int]) -> Source:
        return ProjectedSource(self._source.select_shards(shards), self._names)

    def reshard(self, num_shards: int | None = None) -> Source:
        return ProjectedSource(self._source.reshard(num_shards), self._names)

    def columns(self, names: Sequence[str]) -> Source:
        check_columns(tuple(names), list(self._names))
        return ProjectedSource(self._source, tuple(names))

    @property
    def random_access(self) -> bool:
        return self._source.random_access

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        return self._source.rows_at(ordinals).select(list(self._names))

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._source.skipped

    def shard_name(self, shard: int) -> str:
        return self._source.shard_name(shard)


def check_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Raises where a column is asked for that there is not.

    Raises:
        ColumnError: with the nearest name.
    """
    missing = [name for name in names if name not in known]
    if missing:
        import difflib

        from provender.data.errors import ColumnError

        near = difflib.get_close_matches(missing[0], known, 1)
        raise ColumnError(
            f"There is no column {missing[0]!r}.",
            hint=f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}.",
            facts={"columns": list(known), "missing": missing},
        )


def check_shards(shards: Sequence[int], count: int) -> list[int]:
    """The shard numbers as given, once they all exist.

    Raises:
        UnknownReference: one of them does not.
    """
    from provender.errors import UnknownReference

    for shard in shards:
        if not 0 <= shard < count:
            raise UnknownReference(
                f"Shard {shard} was asked for, there are {count}.",
                hint=f"Ask for 0 to {count - 1}." if count else "The source is empty.",
            )
    return [int(shard) for shard in shards]


def close(iterator: Any) -> None:
    """Closes an iterator if it can be closed."""
    closing = getattr(iterator, "close", None)
    if closing is not None:
        closing()
