"""What runs inside a Beam pipeline: encode, cut into ranges, sort and write.

Imported only where Apache Beam is. Beam pickles these classes by reference and sends what they hold,
so Beam's workers need Provender, and a store that they can reach.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam

from provender.errors import BuilderError, DuplicateKeyError, ProvenderError
from provender.records import KeyHasher, compile_encoder, write_records
from provender.records.shards import MAX_BEAM_SHARD_BYTES, range_shard, shard_count
from provender.stages import statistics
from provender.stages.beam import ERROR
from provender.stages.shards import INDEX_SUFFIX
from provender.store import Store

Placed = tuple[bytes, bytes]
"""An example's 16-byte sort key and its serialized bytes."""

Totals = tuple[int, int, bytes]
"""Examples, bytes, largest sort key."""


@dataclass(frozen=True)
class Job:
    """One split's pipeline, as data.

    Attributes:
        store: where the shards go.
        folder: path in the store.
        split: split name; it salts the order.
        features: the TFDS features.
        in_order: whether examples are ordered by their keys, unhashed.
        requested: shards asked for, or None for the TFDS policy.
        max_examples: keep only so many, the first ones of the order; or None.
    """

    store: Store
    folder: str
    split: str
    features: Any
    in_order: bool
    requested: int | None
    max_examples: int | None


def attach(job: Job, pairs: Any, pipeline: Any) -> None:
    """Adds a split's steps to a pipeline.

    Args:
        job: the split.
        pairs: a Beam transform or collection of (key, example).
        pipeline: what it is added to.
    """
    if isinstance(pairs, beam.PTransform):
        pairs = pipeline | f"{job.split}: generate" >> pairs
    placed = pairs | f"{job.split}: encode" >> beam.ParDo(Encode(job))
    if job.max_examples is not None:
        placed = (
            placed
            | f"{job.split}: first" >> beam.combiners.Top.Smallest(job.max_examples)
            | f"{job.split}: spread" >> beam.FlatMap(list)
        )
    totals = placed | f"{job.split}: totals" >> beam.CombineGlobally(Sum())
    _ = (
        placed
        | f"{job.split}: cut" >> beam.ParDo(Cut(job), beam.pvalue.AsSingleton(totals))
        | f"{job.split}: gather" >> beam.GroupByKey()
        | f"{job.split}: write" >> beam.ParDo(Write(job))
    )


@contextmanager
def _kept(job: Job) -> Iterator[None]:
    """Keeps an error of ours in the store: a runner passes on little more than its text."""
    try:
        yield
    except ProvenderError as error:
        with suppress(FileExistsError):
            job.store.create(f"{job.folder}/{ERROR}", json.dumps(error.to_json()).encode())
        raise


class Encode(beam.DoFn):  # type: ignore[misc]
    """(key, example) -> `Placed`."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def setup(self) -> None:
        """Compiles the encoder, once a worker."""
        self._encode = compile_encoder(self._job.features)
        self._hasher = KeyHasher(self._job.split, in_order=self._job.in_order)

    def process(self, pair: Any) -> Iterator[Placed]:
        """Encodes one example.

        Raises:
            BuilderError: it is no pair, its key cannot be used, or it does not fit the features.
        """
        with _kept(self._job):
            yield self._placed(pair)

    def _placed(self, pair: Any) -> Placed:
        where = f"split {self._job.split}"
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise BuilderError(
                f"The pipeline gave a {type(pair).__name__}, not a (key, example) pair.",
                where=where,
                hint="End it with a step that gives (key, example).",
            )
        key, example = pair
        if self._job.in_order and not isinstance(key, int):
            raise BuilderError(
                f"Key {key!r} is no int, and disable_shuffling orders examples by their keys.",
                where=where,
                hint="Give int keys: a Beam pipeline has no order of its own.",
            )
        try:
            return self._hasher.digest(key, 0), self._encode(example)
        except ProvenderError:
            raise
        except Exception as error:
            raise BuilderError(
                f"Encoding an example raised {type(error).__name__}: {error}",
                where=f"{where}, key {key!r}",
            ) from error


class Sum(beam.CombineFn):  # type: ignore[misc]
    """Adds up `Totals`."""

    def create_accumulator(self) -> Totals:
        """Nothing seen yet."""
        return 0, 0, b""

    def add_input(self, mutable_accumulator: Totals, element: Placed) -> Totals:
        """One example more."""
        count, size, largest = mutable_accumulator
        return count + 1, size + len(element[1]), max(largest, element[0])

    def merge_accumulators(self, accumulators: Iterable[Totals]) -> Totals:
        """The sums of several workers together."""
        count, size, largest = 0, 0, b""
        for one in accumulators:
            count, size, largest = count + one[0], size + one[1], max(largest, one[2])
        return count, size, largest

    def extract_output(self, accumulator: Totals) -> Totals:
        """The totals."""
        return accumulator


class Cut(beam.DoFn):  # type: ignore[misc]
    """`Placed` -> (number of its range, `Placed`)."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._hasher = KeyHasher(job.split, in_order=job.in_order)

    def process(self, placed: Placed, totals: Totals) -> Iterator[tuple[int, Placed]]:
        """Finds the range.

        Raises:
            BuilderError: more shards are asked for than there are examples.
        """
        count, size, largest = totals
        with _kept(self._job):
            shards = shard_count(size, count, self._job.requested, max_size=MAX_BEAM_SHARD_BYTES)
        place = self._hasher.place
        yield range_shard(place(placed[0]), shards, place(largest)), placed


class Write(beam.DoFn):  # type: ignore[misc]
    """(number of a range, its examples) -> files in the store."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def process(self, group: tuple[int, Iterable[Placed]]) -> Iterator[int]:
        """Sorts the examples of one range, which have to fit into memory, and writes them.

        Raises:
            DuplicateKeyError: two of them share a key.
        """
        job, (number, found) = self._job, group
        placed = sorted(found)
        with _kept(job):
            for one, other in pairwise(placed):
                if one[0] == other[0]:
                    raise _duplicate(job, one, other)
            payloads = (payload for _, payload in placed)
            piece = write_piece(job.store, job.folder, number, payloads, job.features)
            job.store.write(f"{job.folder}/{number:08d}.json", json.dumps(piece).encode())
        yield number


def _duplicate(job: Job, one: Placed, other: Placed) -> DuplicateKeyError:
    shown = [repr(payload[:200]) for _, payload in (one, other)]
    return DuplicateKeyError(
        "Two examples share a key.",
        where=f"split {job.split}: {shown[0]} and {shown[1]}",
        hint="make the keys that the pipeline gives unique within the split",
        facts={"digest": one[0].hex(), "first": shown[0], "second": shown[1]},
    )


def write_piece(
    store: Store, folder: str, number: int, payloads: Iterable[bytes], features: Any
) -> dict[str, Any]:
    """Writes one shard with its index, and keeps its statistics.

    Args:
        store: where to.
        folder: path in the store.
        number: number of the range; the file's name.
        payloads: the serialized examples, in order.
        features: the TFDS features.

    Returns:
        ``size, sha256, crc32c, examples, bytes`` of the shard, ``index_sha256``, ``files``: the
        store paths of shard and index, ``statistics``: where its are kept, or None.
    """
    files = [f"{folder}/{number:08d}{suffix}" for suffix in ("", INDEX_SUFFIX)]
    watching = statistics.Watching(statistics.schema_of(features), number)
    with tempfile.TemporaryDirectory(prefix="provender-beam-") as place:
        here = store.local(files[0]) or Path(place) / "shard"
        here.parent.mkdir(parents=True, exist_ok=True)
        index = here.with_name(here.name + INDEX_SUFFIX)
        written = write_records(watching.through(payloads), here, index_path=index)
        if not store.is_local:
            for source, target in zip((here, index), files, strict=True):
                store.put(source, target)
    if watching.error is not None:
        statistics.told(files[0], watching.error)
    found = watching.collection
    return {
        "size": written.size,
        "sha256": written.sha256,
        "crc32c": written.crc32c,
        "examples": written.examples,
        "bytes": written.payload_bytes,
        "index_sha256": written.index_sha256,
        "files": files,
        "statistics": statistics.keep(store, found.to_bytes() if found else None),
    }
