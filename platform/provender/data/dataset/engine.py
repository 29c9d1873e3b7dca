"""Computing a map or filter: which rows are left, who runs them, and one schema in the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.base import Base
from provender.data.dataset.calling import Call, Runner
from provender.data.dataset.progress import Progress
from provender.data.dataset.shaping import Shaper, as_features, common

if TYPE_CHECKING:
    from provender.data.cache import Segment, SegmentWriter, Work
    from provender.data.features import Features

INDICES = {"indices": "uint64"}


@dataclass(frozen=True)
class Job:
    """A map or filter of a dataset.

    Attributes:
        dataset: the rows.
        call: the function and how it is called.
        total: rows that are used; fewer than there are where a last batch is dropped.
        given: features that the user demands of the result.
        workers: processes; 1 for this one alone.
        text: what the progress bar says.
    """

    dataset: Base
    call: Call
    total: int
    given: Features | None
    workers: int
    text: str

    @property
    def align(self) -> int:
        """Results are cut at multiples of so many rows."""
        return self.call.batch_size if self.call.batched else 1

    def shaper(self, known: Features | None) -> Shaper | None:
        """What turns results into tables; None for a filter."""
        if self.call.kind == "filter":
            return None
        fill = not self.call.batched
        return Shaper(self.dataset._features, self.given, known, fill=fill)

    def tables(self, start: int, stop: int, size: int | None = None) -> Iterator[pa.Table]:
        """Input rows in runs of whole steps: what lies in order is not copied, so may be long."""
        step = self.call.step
        if size is None:
            size = stop - start if self.dataset._indices is None else step
        return self.dataset._tables(max(size - size % step, step), start, stop)


class Written:
    """Segments written one after another, cut where a column's type became known.

    Args:
        segments: where they go.
        start: first input row.
    """

    def __init__(self, segments: SegmentWriter | Work, start: int) -> None:
        self._segments = segments
        self._at = start
        self._open: contextlib.ExitStack | None = None
        self._out: Any = None
        self._schema: pa.Schema | None = None

    def write(self, table: pa.Table, position: int) -> None:
        """Adds the rows made from the input rows up to a position."""
        if self._schema is not None and not table.schema.equals(self._schema):
            self.close()
        if self._open is None:
            self._open = contextlib.ExitStack()
            self._out = self._open.enter_context(self._segments.segment(self._at))
            self._schema = table.schema
        self._out.write(table)
        self._out.mark(position)
        self._at = position

    def close(self) -> None:
        """Commits what was written."""
        if self._open is not None:
            stack, self._open, self._schema = self._open, None, None
            stack.close()

    def __enter__(self) -> Written:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()
        elif self._open is not None:
            stack, self._open = self._open, None
            stack.__exit__(kind, error, trace)


def compute(job: Job, work: Work) -> None:
    """Computes what is missing of a result, and completes it.

    Where the function returns None for every row nothing was written, and nothing is completed.
    """
    gaps = work.missing(job.total, job.align)
    known = None
    if work.segments and job.call.kind != "filter" and job.given is None:
        known = common([_features_of(read_piece(work, each).schema) for each in work.segments])
    done = job.total - sum(stop - start for start, stop in gaps)
    with Progress(job.text, job.total, done) as progress:
        if job.workers > 1 and len(gaps) > 0 and job.total > 1:
            from provender.data.dataset.workers import run_in_workers

            run = run_in_workers
        else:
            run = _run_here
        if not run(job, work, gaps, known, progress.advance):
            return
    features = settle(job, work)
    work.commit(features, schema=features.arrow_schema)


def _run_here(
    job: Job,
    work: Work,
    gaps: list[tuple[int, int]],
    known: Features | None,
    advance: Callable[[int], None],
) -> bool:
    """Runs the function in this process; False where it returns None for every row."""
    runner = Runner(job.call, job.dataset._features, job.shaper(known))
    for start, stop in gaps:
        with Written(work, start) as written:
            at = start
            for table in job.tables(start, stop):
                for position, made in runner.run(table, at):
                    if not runner.returns_none:
                        written.write(made, position)
                    advance(position - at)
                    at = position
    return not (gaps and runner.returns_none)


def settle(job: Job, work: Work) -> Features:
    """The features of a result.

    Raises:
        FeatureTypeError: two pieces have types of a column that do not go together.
    """
    from provender.data.features import Features, Value

    if job.call.kind == "filter":
        return Features({name: Value(kind) for name, kind in INDICES.items()})
    return settled(work, job.given)


def settled(work: Work, given: Features | None) -> Features:
    """The features of all pieces; those written before a type was known are mended.

    Args:
        work: what was computed.
        given: features that the user demands.

    Raises:
        FeatureTypeError: two pieces have types of a column that do not go together.
    """
    from provender.data.features import Features

    pieces = work.found()
    if not pieces:
        return given if given is not None else Features()
    schemas = [read_piece(work, each).schema for each in pieces]
    features = given if given is not None else common([_features_of(each) for each in schemas])
    for piece, schema in zip(pieces, schemas, strict=True):
        if not schema.equals(features.arrow_schema):
            table = as_features(read_piece(work, piece), features)
            work.drop([piece])
            with work.segment(piece.start, piece.stop) as out:
                out.write(table)
    return features


def read_piece(work: Work, piece: Segment) -> pa.Table:
    """The rows of a finished piece, memory-mapped; a piece may have none, but has a schema."""
    path = os.path.join(work.folder, piece.file)
    with pa.ipc.open_stream(pa.memory_map(path)) as stream:
        return stream.read_all()


def _features_of(schema: pa.Schema) -> Features:
    from provender.data.features import Features

    return Features.from_arrow_schema(schema)
