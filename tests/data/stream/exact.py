"""The one helper that checks that a stream can go on from everywhere, and sources to check it on."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Any

import pyarrow as pa

from provender.data.features import Features
from provender.data.sources.base import Chunk, Position, Source
from provender.data.sources.generator import GeneratorSource
from provender.data.sources.tables import TableSource
from provender.data.stream import IterableDataset

Make = Callable[[], IterableDataset]


def plain(row: Any) -> Any:
    """A row that can be compared with ==."""
    if isinstance(row, Mapping):
        return {key: plain(value) for key, value in row.items()}
    return row.tolist() if hasattr(row, "tolist") else row


def rows_of(stream: Iterable[Any]) -> list[Any]:
    return [plain(row) for row in stream]


def together(lists: Iterable[list[Any]]) -> list[Any]:
    return list(chain.from_iterable(lists))


def walked(stream: IterableDataset, rows: int | None = None) -> tuple[list[Any], list[str]]:
    """Rows of a pass, and the position before each and after the last."""
    given, states = [], [json.dumps(stream.state_dict())]
    iterator = iter(stream)
    for row in iterator if rows is None else islice(iterator, rows):
        given.append(plain(row))
        states.append(json.dumps(stream.state_dict()))
    if rows is None:
        states[-1] = json.dumps(stream.state_dict())
    return given, states


def assert_exact_resume(
    make: Make, positions: str | Iterable[int] = "all", *, epoch: int = 0, again: int = 3
) -> list[Any]:
    """Checks that a stream goes on exactly from its positions.

    At each of them, in a stream made anew: the rest is the rest of the pass; the pass after it is
    a full one; and a position taken some rows after a resume is as good as any other.

    Returns:
        the rows of an undisturbed pass.
    """
    whole = make()
    whole.set_epoch(epoch)
    rows, states = walked(whole)
    assert rows_of(whole) == rows, "two passes of one epoch differ"
    chosen = range(len(rows) + 1) if positions == "all" else positions
    for at in chosen:
        assert len(states[at]) < 4096
        fresh = make()
        fresh.load_state_dict(json.loads(states[at]))
        some, more = walked(fresh, again)
        assert some == rows[at : at + again], f"after row {at}"
        later = make()
        later.load_state_dict(json.loads(more[-1]))
        rest = rows_of(later)
        assert rest == rows[at + len(some) :], f"after row {at} and {len(some)} more"
        if at % 7 == 0:
            assert rows_of(later) == rows, f"the pass after a resume at row {at}"
    return rows


def rest_in_new_process(program: str, state: Mapping[str, Any]) -> list[Any]:
    """The rows that a program's ``make()`` gives after a position, in a process of its own."""
    code = program + (
        "\nimport json, sys\n"
        "stream = make()\n"
        "stream.load_state_dict(json.loads(sys.argv[1]))\n"
        "print(json.dumps(list(stream)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(state)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


class UncountedSource(Source):
    """Tables in shards, whose rows nobody has counted, as in files of lines."""

    def __init__(self, shards: Sequence[Sequence[int]], chunk: int = 5) -> None:
        self.shards = [list(shard) for shard in shards]
        self.chunk = chunk

    @property
    def features(self) -> Features:
        return Features.from_arrow_schema(_table([0]).schema)

    @property
    def identity(self) -> str:
        return hashlib.sha1(str(self.shards).encode()).hexdigest()

    @property
    def num_shards(self) -> int:
        return len(self.shards)

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        at = int(position["byte"]) if position is not None else row
        numbers = self.shards[shard]
        while at < len(numbers):
            part = numbers[at : at + self.chunk]
            yield Chunk(at, len(part), {"byte": at + len(part)}, table=_table(part))
            at += len(part)

    def select_shards(self, shards: Sequence[int]) -> Source:
        return UncountedSource([self.shards[shard] for shard in shards], self.chunk)


class CountableSource(UncountedSource):
    """The same, where rows can be counted more quickly than read."""

    def count_rows(self, shard: int) -> int:
        return len(self.shards[shard])

    def select_shards(self, shards: Sequence[int]) -> Source:
        return CountableSource([self.shards[shard] for shard in shards], self.chunk)


class CountedSource(UncountedSource):
    """The same, with known numbers of rows."""

    def shard_rows(self, shard: int) -> int:
        return len(self.shards[shard])


def _table(numbers: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "i": pa.array(numbers, pa.int64()),
            "t": pa.array([f"r{number}" for number in numbers], pa.string()),
        }
    )


def cut(total: int, shards: int) -> list[list[int]]:
    """Numbers in shards of uneven size, an empty one among them when there are many."""
    bounds = [total * at * at // (shards * shards) for at in range(shards + 1)]
    return [list(range(low, high)) for low, high in pairwise(bounds)]


def _generated(shards: list[list[int]]) -> Iterator[dict[str, Any]]:
    for shard in shards:
        for number in shard:
            yield {"i": number, "t": f"r{number}"}


def make_source(kind: str, total: int, shards: int) -> Source:
    """A source of `total` rows i, t."""
    if kind == "table":
        return TableSource(_table(range(total)), num_shards=shards)
    if kind == "generator":
        return GeneratorSource(_generated, {"shards": cut(total, shards)})
    if kind == "countable":
        return CountableSource(cut(total, shards))
    if kind == "counted":
        return CountedSource(cut(total, shards))
    return UncountedSource(cut(total, shards))


KINDS = ("table", "counted", "countable", "uncounted", "generator")
