"""Shards of a source read by worker processes, each into pieces of its own.

The rows of such a source are only counted by reading them, so ranges of a result are counted in
shards here: a shard is there as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.shaping import WINDOW, Shaper, as_features, holds_null
from provender.data.errors import FeatureTypeError, TransformError
from provender.errors import ProvenderError

if TYPE_CHECKING:
    from provender.data.cache import Work
    from provender.data.dataset.engine import Job
    from provender.data.features import Features
    from provender.data.sources import Chunk, Source

_MARK = "by-shard"
_HELD_BYTES = 64 << 20
"""Rows of a shard that wait until all columns have had a value that tells their type."""


@dataclass(frozen=True)
class Shards:
    """What a worker process reads.

    Attributes:
        source: the shards.
        hints: features that columns of those names have if they can.
        given: features that the user demands, or None.
        known: features that the source is known to have, or None.
    """

    source: Source
    hints: Features
    given: Features | None
    known: Features | None

    def shaper(self) -> Shaper:
        """Turns the rows of one shard into tables."""
        return Shaper(self.hints, self.given, self.known, fill=True)


def reading(shards: Shards, workers: int, text: str) -> Job:
    """The job of reading all shards."""
    from provender.data.dataset.calling import Call
    from provender.data.dataset.core import Dataset
    from provender.data.dataset.engine import Job

    count = shards.source.num_shards
    # Not a function: the worker process knows what to do with it.
    read: Any = shards
    call = Call(function=read, kind="load", name=text, batched=True, batch_size=1, piece_rows=1)
    numbers = Dataset.from_dict({"shard": list(range(count))})
    return Job(numbers, call, count, shards.given, workers, text)


def agree(work: Work, by_shard: bool) -> None:
    """Gives up pieces of an earlier run that counted its ranges in another way.

    Args:
        work: the result.
        by_shard: whether ranges are counted in shards now, or in rows.
    """
    mark = Path(work.folder) / _MARK
    if mark.exists() != by_shard:
        while pieces := work.found():
            work.drop(pieces)
    if by_shard:
        mark.touch()
    else:
        mark.unlink(missing_ok=True)


def table_of(chunk: Chunk, shaper: Shaper, first: int) -> pa.Table:
    """Rows that a source gave as a table of the types found so far."""
    if chunk.table is not None:
        columns: Any = dict(zip(chunk.table.column_names, chunk.table.itercolumns(), strict=True))
    else:
        columns = _gathered(chunk.rows or (), shaper)
    return shaper.table(columns, first)


def _gathered(rows: Sequence[Any], shaper: Shaper) -> dict[str, list[Any]]:
    """Rows as columns; a row may lack keys, but not have ones that came nowhere before."""
    names: dict[str, None] = {}
    if shaper.features is not None:
        names.update(dict.fromkeys(shaper.features))
    for row in rows:
        names.update(dict.fromkeys(row))
    return {name: [row.get(name) for row in rows] for name in names}


class ShardRunner:
    """Reads shards in a worker process; takes the place of `calling.Runner` there.

    Args:
        shards: what is read.
        name: what to call it in messages.
    """

    returns_none = False

    def __init__(self, shards: Shards, name: str) -> None:
        self._shards = shards
        self._name = name

    def expect_none(self, is_none: bool) -> None:
        """Has no meaning for rows that are read."""

    def run(self, table: pa.Table, first: int) -> Iterator[tuple[int, pa.Table]]:
        """Reads shards.

        Args:
            table: their numbers.
            first: the first of them.

        Yields:
            The number of the first shard that is not done yet, and rows.

        Raises:
            TransformError: the user's function raised.
            FeatureTypeError: a column changed its type; row numbers are those of the shard.
        """
        for shard in range(first, first + table.num_rows):
            try:
                yield from self._read(shard)
            except ProvenderError as error:
                error.where = f"{self._place(shard)}, {error.where}".rstrip(", ")
                raise
            except Exception as error:
                said = str(error).split("\n")[0]
                said = f"{type(error).__name__}: {said}" if said else type(error).__name__
                raise TransformError(
                    f"{self._name} raised {said} in shard {shard}.",
                    where=self._place(shard),
                    hint="Shards that were read are kept: if the cause lies outside, run it again "
                    "to go on from there.",
                    facts={"shard": shard, "error": type(error).__name__},
                ) from error

    def _place(self, shard: int) -> str:
        return f"{self._name}, shard {shard}"

    def _read(self, shard: int) -> Iterator[tuple[int, pa.Table]]:
        shaper = self._shards.shaper()
        held: list[pa.Table] = []
        schema: pa.Schema | None = None
        rows = 0
        with closing(self._shards.source.read(shard)) as chunks:
            for chunk in chunks:
                if not chunk.count:
                    continue
                made = table_of(chunk, shaper, rows)
                rows += chunk.count
                if schema is None:
                    held.append(made)
                    if not _is_settled(shaper, self._shards.given, rows, held):
                        continue
                    assert shaper.features is not None
                    schema = shaper.features.arrow_schema
                    for each in held:
                        yield shard, as_features(each, shaper.features)
                    held.clear()
                elif made.schema.equals(schema):
                    yield shard, made
                else:
                    raise _late(made.schema, schema, rows - chunk.count)
        features = shaper.features if shaper.features is not None else self._shards.hints
        for each in held:
            yield shard, as_features(each, features)
        yield shard + 1, features.arrow_schema.empty_table()


def _is_settled(
    shaper: Shaper, given: Features | None, rows: int, held: Sequence[pa.Table]
) -> bool:
    """Whether later rows cannot change the columns' types any more."""
    if given is not None or sum(each.nbytes for each in held) >= _HELD_BYTES:
        return True
    features = shaper.features
    if features is None or rows < WINDOW:
        return False
    return not any(holds_null(each) for each in features.values())


def _late(found: pa.Schema, before: pa.Schema, row: int) -> FeatureTypeError:
    names = [each.name for each in found if each not in list(before)]
    return FeatureTypeError(
        f"Column {names[0]!r} has its first value from row {row} of a shard on, too late to tell "
        "its type.",
        where=f"column {names[0]!r}, row {row}",
        hint="Give the features that you want.",
        facts={"column": names[0], "row": row},
    )
