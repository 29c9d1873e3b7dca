"""Rows from a Python generator function; its list arguments are what shards are made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.sources.base import Chunk, Position, Source, check_shards, close
from provender.data.sources.combined import PiecesSource
from provender.data.sources.identity import identity_of
from provender.errors import InputError

if TYPE_CHECKING:
    from provender.data.features import Features

MOST_ROWS = 1000
_LONGEST_WAIT = 0.05


class GeneratorSource(Source):
    """What ``fn(**gen_kwargs)`` yields.

    Lists among the arguments are cut into shards, one element a shard; all lists must be equally
    long. The function is called once for each shard, with lists of one element. To go on from a
    row it is called again and runs up to there: only the function knows a shorter way.

    Args:
        fn: yields rows: dicts of the same keys.
        gen_kwargs: its arguments.
        features: the columns and their types, where known.
        identity: what the rows depend on; by default the fingerprint of `fn` and its arguments.

    Raises:
        InputError: lists of different lengths.
    """

    def __init__(
        self,
        fn: Callable[..., Iterable[Mapping[str, Any]]],
        gen_kwargs: Mapping[str, Any] | None = None,
        *,
        features: Features | None = None,
        identity: str | None = None,
    ) -> None:
        self._fn = fn
        self._kwargs = dict(gen_kwargs or {})
        self._features = features
        self._identity = identity
        lengths = {
            name: len(value) for name, value in self._kwargs.items() if isinstance(value, list)
        }
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {count}" for name, count in lengths.items())
            raise InputError(
                f"Lists among gen_kwargs are shards and must be equally long: {told}.",
                where="gen_kwargs",
                hint="Give a list that is no list of shards as a tuple.",
            )
        self._count = next(iter(lengths.values()), 1)

    @property
    def function(self) -> Callable[..., Iterable[Mapping[str, Any]]]:
        """The generator function."""
        return self._fn

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What it is called with, lists of shards whole."""
        return self._kwargs

    @property
    def features(self) -> Features | None:
        return self._features

    @property
    def identity(self) -> str:
        if self._identity is None:
            from provender.fingerprint import hash_or_random

            digest, self.unhashable = hash_or_random((self._fn, self._kwargs))
            self._identity = identity_of("generator 1", digest)
        return self._identity

    @property
    def num_shards(self) -> int:
        return self._count

    def _arguments(self, shard: int) -> dict[str, Any]:
        return {
            name: [value[shard]] if isinstance(value, list) else value
            for name, value in self._kwargs.items()
        }

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self._count)
        first = int(position["row"]) if position is not None else row
        rows = self._fn(**self._arguments(shard))
        iterator = iter(rows)
        try:
            yield from _chunks(rows_from(iterator, first), first, self._features)
        finally:
            close(iterator)

    def select_shards(self, shards: Sequence[int]) -> Source:
        chosen = check_shards(shards, self._count)
        has_lists = any(isinstance(value, list) for value in self._kwargs.values())
        if not has_lists:
            if chosen == [0]:
                return self
            return PiecesSource(self, [(shard, 0, None) for shard in chosen])
        kwargs = {
            name: [value[shard] for shard in chosen] if isinstance(value, list) else value
            for name, value in self._kwargs.items()
        }
        identity = None
        if self._identity is not None:
            identity = identity_of("generator shards 1", self._identity, chosen)
        made = GeneratorSource(self._fn, kwargs, features=self._features, identity=identity)
        made.unhashable = self.unhashable
        return made

    def __repr__(self) -> str:
        name = getattr(self._fn, "__qualname__", repr(self._fn))
        return f"GeneratorSource({name}, num_shards={self._count})"


def rows_from(rows: Iterator[Any], first: int) -> Iterator[Any]:
    """What is left of an iterator after its first `first` items."""
    for number, row in enumerate(rows):
        if number >= first:
            yield row


def _chunks(
    rows: Iterator[Mapping[str, Any]], first: int, features: Features | None
) -> Iterator[Chunk]:
    for at, gathered in growing(_checked(rows, first), first):
        position = {"row": at + len(gathered)}
        if features is None:
            yield Chunk(at, len(gathered), position, rows=gathered)
            continue
        from provender.data.features import table_from_rows

        known = [{name: row.get(name) for name in features} for row in gathered]
        table = table_from_rows(known, features, first_row=at, coerce=True)
        yield Chunk(at, len(gathered), position, table=table)


def _checked(rows: Iterator[Any], first: int) -> Iterator[Mapping[str, Any]]:
    for number, row in enumerate(rows, first):
        if not isinstance(row, Mapping):
            raise InputError(
                f"Row {number} is {type(row).__name__}, not a dict.",
                hint='Yield rows such as {"text": "...", "label": 0}.',
            )
        yield row


def growing(rows: Iterator[Any], first: int) -> Iterator[tuple[int, list[Any]]]:
    """Lists of rows that begin with one and grow, so that the first row is there at once.

    A slow function gives short lists: none gathers for longer than a twentieth of a second. Rows
    that came before an error are given before it is raised.

    Args:
        rows: what to gather.
        first: the ordinal of the first.

    Yields:
        The ordinal of a list's first row, and the list.
    """
    at, most = first, 1
    error: BaseException | None = None
    done = False
    while not done:
        gathered: list[Any] = []
        until = time.monotonic() + _LONGEST_WAIT
        try:
            for row in rows:
                gathered.append(row)
                if len(gathered) >= most or time.monotonic() >= until:
                    break
            else:
                done = True
        except Exception as caught:  # noqa: BLE001 - raised once the rows before it are given
            error, done = caught, True
        if gathered:
            yield at, gathered
            at += len(gathered)
            most = min(most * 2, MOST_ROWS)
    if error is not None:
        raise error
