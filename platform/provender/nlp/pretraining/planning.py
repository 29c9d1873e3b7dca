"""Which tokens make which instance: the pairs of one pass over some documents.

An instance is planned as 40 bytes (`ROW`): where its two segments lie in the token store, whether
the second one is random, and what its random numbers are keyed by. Its ``key`` is a random number
too: instances sorted by it are shuffled, and a bucket holds a range of keys.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from provender.errors import DamageError
from provender.nlp.pretraining.counter import Purpose, below, threshold, words
from provender.nlp.pretraining.cutting import cut_pairs
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.tokens import TokenStore
from provender.records.atomic import AtomicFile, told_as_ours

ROW = np.dtype(
    [
        ("key", "<u8"),
        ("first", "<i8"),
        ("second", "<i8"),
        ("document", "<u4"),
        ("instance", "<u4"),
        ("epoch", "<u2"),
        ("first_length", "<u2"),
        ("second_length", "<u2"),
        ("random", "<u2"),
    ]
)
"""``first`` and ``second`` are tokens of the store, their lengths are in tokens, ``random`` is 1
where the second segment is from elsewhere, and ``epoch`` is the number of the pass."""

Chunk = tuple[int, int, int, int, int, bool]
"""Document, instance, first sentence, first of the second segment, last one, random or not."""

SENTENCES_PER_TASK = 1 << 19
SENTENCES_AT_ONCE = 1 << 15
_INSTANCES_PER_BUCKET = 1 << 15
_ROWS_PER_RUN = 1 << 18
_FOOTER = struct.Struct("<QQQ16s")
_MAGIC = b"PVPLANFILE\x00\x00\x00\x00\x01\n"


@dataclass(frozen=True)
class Task:
    """Some documents in one pass.

    Attributes:
        epoch: number of the pass, from 0.
        start: first document.
        stop: end of the documents.
    """

    epoch: int
    start: int
    stop: int


def plan_tasks(store: TokenStore, options: Options) -> list[Task]:
    """Divides all passes into tasks of bounded size; depends on nothing but text and options."""
    cuts = list(_ranges(store, 0, len(store.documents), SENTENCES_PER_TASK))
    return [Task(epoch, *cut) for epoch in range(options.dupe_factor) for cut in cuts]


def _ranges(store: TokenStore, start: int, stop: int, most: int) -> Iterator[tuple[int, int]]:
    """Cuts a range of documents so that each part has at most so many sentences, or one document."""
    ends = store.documents
    before = int(ends[start - 1]) if start else 0
    while start < stop:
        cut = int(np.searchsorted(ends[start:stop], before + most, "right")) + start
        cut = max(cut, start + 1)
        yield start, cut
        start, before = cut, int(ends[cut - 1])


def bucket_count(store: TokenStore, options: Options) -> int:
    """How many buckets the instances are dealt to, from an estimate of their number."""
    instances = options.dupe_factor * store.counted.tokens / (0.75 * options.max_seq_length)
    return max(1, round(instances / _INSTANCES_PER_BUCKET))


def plan_task(
    store: TokenStore, options: Options, task: Task, buckets: int, target: Path
) -> list[int]:
    """Plans the instances of a task and writes them, bucket by bucket.

    The file holds runs of rows, each sorted by bucket; for each run, u64 where each bucket begins
    and the last one ends, in rows of the file; and a footer: rows, runs and buckets (u64 each) and
    a magic of 16 bytes.

    Args:
        store: the text.
        options: how instances are made.
        task: which documents, in which pass.
        buckets: number of buckets.
        target: the file to write; appears whole or not at all.

    Returns:
        Instances of each bucket.

    Raises:
        StoreError: the file cannot be written.
    """
    counts = np.zeros(buckets, np.int64)
    starts: list[np.ndarray] = []
    with AtomicFile(target) as file:
        for rows in _runs(_planned(store, options, task)):
            numbers = bucket_of(rows["key"], buckets)
            here = np.bincount(numbers, minlength=buckets)
            first = file.size // ROW.itemsize
            starts.append(first + np.concatenate([[0], np.cumsum(here)]))
            file.write(rows[np.argsort(numbers, kind="stable")].tobytes())
            counts += here
        count = file.size // ROW.itemsize
        for each in starts:
            file.write(each.astype("<u8").tobytes())
        file.write(_FOOTER.pack(count, len(starts), buckets, _MAGIC))
    found: list[int] = counts.tolist()
    return found


def _runs(found: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Joins arrays of rows to runs of bounded size."""
    held: list[np.ndarray] = []
    for rows in found:
        held.append(rows)
        if sum(map(len, held)) >= _ROWS_PER_RUN:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def bucket_of(keys: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of each key; buckets are even ranges of keys, so their order is that of the keys."""
    return ((keys >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.int64)


def read_bucket(plans: Sequence[Path], bucket: int) -> np.ndarray:
    """The rows of a bucket in the order of their keys, from all plan files.

    Raises:
        DamageError: a plan file is not whole.
        StoreError: it cannot be read.
    """
    found = [np.empty(0, ROW)]
    for path in plans:
        with _Plan(path) as plan:
            found += plan.rows(bucket)
    rows = np.concatenate(found)
    return rows[np.argsort(rows["key"], kind="stable")]


def read_counts(path: Path, buckets: int) -> np.ndarray:
    """Instances of each bucket in a plan file; int64.

    Raises:
        DamageError: the file is not whole.
        StoreError: it cannot be read.
    """
    counts = np.zeros(buckets, np.int64)
    with _Plan(path) as plan:
        for run in range(plan.runs):
            counts += np.diff(plan.starts(run, 0, buckets + 1))
    return counts


class _Plan:
    """A plan file, open for reading."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _Plan:
        path = self._path
        with told_as_ours(path):
            self._file = path.open("rb", buffering=0)
            size = self._file.seek(0, 2)
            self._file.seek(max(0, size - _FOOTER.size))
            footer = self._file.read(_FOOTER.size)
        rows, self.runs, self.buckets, magic = _FOOTER.unpack(footer.ljust(_FOOTER.size))
        self._index = rows * ROW.itemsize
        if magic != _MAGIC or size != self._index + 8 * self.runs * (self.buckets + 1) + len(
            footer
        ):
            self._file.close()
            raise DamageError(
                f"{path.name} is not a whole plan file.",
                where=str(path),
                hint="Remove it and run the command again: it is made anew.",
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def starts(self, run: int, first: int, count: int) -> np.ndarray:
        """Where buckets of a run begin, in rows; ``count`` of them from ``first`` on, as int64."""
        self._file.seek(self._index + 8 * (run * (self.buckets + 1) + first))
        return np.frombuffer(self._file.read(8 * count), "<i8")

    def rows(self, bucket: int) -> Iterator[np.ndarray]:
        """The rows of a bucket, run by run."""
        for run in range(self.runs):
            start, stop = self.starts(run, bucket, 2).tolist()
            self._file.seek(start * ROW.itemsize)
            yield np.frombuffer(self._file.read((stop - start) * ROW.itemsize), ROW)


# --- pairs of segments ---------------------------------------------------------------------------


def _planned(store: TokenStore, options: Options, task: Task) -> Iterator[np.ndarray]:
    """The rows of a task, some thousands at a time."""
    for start, stop in _ranges(store, task.start, task.stop, SENTENCES_AT_ONCE):
        documents = np.arange(start, stop, dtype=np.int64)
        targets = _targets(options, task.epoch, documents)
        chunks = _chunks(store, options, task.epoch, documents, targets.tolist())
        while found := list(islice(chunks, SENTENCES_AT_ONCE)):
            columns = np.array(found, np.int64).T
            yield _rows(store, options, task.epoch, columns, targets[columns[0] - start])
        store.release()


def _chunks(
    store: TokenStore, options: Options, epoch: int, documents: np.ndarray, targets: list[int]
) -> Iterator[Chunk]:
    """The chunks of documents that follow each other."""
    begins = store.document_start(documents)
    ends = store.documents[documents]
    base = int(begins[0])
    positions: Any = store.sentences[base : int(ends[-1])]
    if len(positions) <= SENTENCES_AT_ONCE:
        positions = positions.tolist()
    before = int(store.sentence_start(begins[:1])[0])
    draws = _Draws(options, epoch, documents, ends - begins)
    # With one document there is nothing else for a random second segment to come from.
    coin = threshold(0.5) if len(store.documents) > 1 else 0
    bounds = zip(documents.tolist(), begins.tolist(), ends.tolist(), targets, strict=True)
    for document, low, high, target in bounds:
        here = int(positions[low - base - 1]) if low > base else before
        yield from _walk(positions, base, (low, high), here, document, target, draws, coin)


def _targets(options: Options, epoch: int, documents: np.ndarray) -> np.ndarray:
    """Tokens that the instances of each document aim at, in this pass."""
    drawn = words(options.random_seed, Purpose.LENGTH, 0, 0, documents, epoch)
    short = drawn[0].astype(np.uint64) < threshold(options.short_seq_prob)
    return np.where(short, 2 + below(drawn[1], options.room - 1), options.room)


class _Draws:
    """Random words of the instances of documents, made for many documents at once.

    Args:
        options: the seed.
        epoch: number of the pass.
        documents: their numbers.
        sentences: sentences of each; a document has no more instances than sentences.
    """

    def __init__(
        self, options: Options, epoch: int, documents: np.ndarray, sentences: np.ndarray
    ) -> None:
        self._seed = options.random_seed
        self._epoch = epoch
        self._first = int(documents[0])
        counts = np.minimum(sentences, SENTENCES_AT_ONCE)
        starts = np.cumsum(counts) - counts
        instance = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        self._made = self._words(instance, np.repeat(documents, counts))
        self._starts = starts.tolist()
        self._counts = counts.tolist()

    def _words(self, instance: np.ndarray, document: Any) -> tuple[list[int], list[int]]:
        drawn = words(self._seed, Purpose.SHAPE, 0, instance, document, self._epoch)
        return drawn[0].tolist(), drawn[1].tolist()

    def of(self, document: int) -> Iterator[tuple[int, int]]:
        """Two words for each instance of a document, from instance 0 on."""
        start, count = self._starts[document - self._first], self._counts[document - self._first]
        split, coin = self._made
        yield from zip(split[start : start + count], coin[start : start + count], strict=True)
        while True:
            more = self._words(np.arange(count, count + SENTENCES_AT_ONCE), document)
            yield from zip(*more, strict=True)
            count += SENTENCES_AT_ONCE


def _walk(
    ends: Any,
    base: int,
    bounds: tuple[int, int],
    before: int,
    document: int,
    target: int,
    draws: _Draws,
    coin: int,
) -> Iterator[Chunk]:
    """Walks through one document, chunk by chunk.

    Args:
        ends: where sentences end, in tokens.
        base: number of the first sentence of ``ends``.
        bounds: the document's sentences.
        before: token at which the document begins.
        document: its number.
        target: tokens that a chunk aims at.
        draws: random words.
        coin: a second word below it makes the second segment random.
    """
    at, stop = bounds[0] - base, bounds[1] - base
    for instance, (split, side) in enumerate(draws.of(document)):
        # A sentence has a token at least, so the chunk's end is not far.
        last = bisect_left(ends, before + target, at, min(stop, at + target))
        last = min(last, stop - 1)
        count = last + 1 - at
        middle = at + (1 if count == 1 else 1 + (split * (count - 1) >> 32))
        random = coin > 0 and (count == 1 or side < coin)
        yield document, instance, base + at, base + middle, base + last, random
        # Sentences that a random second segment replaced are used again.
        at = middle if random else last + 1
        if at >= stop:
            return
        before = int(ends[at - 1])


def _rows(
    store: TokenStore, options: Options, epoch: int, columns: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Chunks as rows: second segments chosen, and both cut to fit.

    Args:
        store: the text.
        options: how instances are made.
        epoch: number of the pass.
        columns: the chunks, int64 of shape (6, n).
        target: tokens that each chunk aimed at.
    """
    document, instance, first, middle, last, _ = columns
    random = columns[5].astype(bool)
    begin = store.sentence_start(first)
    half = store.sentences[middle - 1].astype(np.int64)
    end = store.sentences[last].astype(np.int64)
    second, second_length = half.copy(), end - half
    if random.any():
        keys = document[random], instance[random]
        wanted = target[random] - (half[random] - begin[random])
        second[random], second_length[random] = _partners(store, options, epoch, *keys, wanted)
    lone = (second_length == 0) & ~random
    if lone.any():
        # One sentence, and no other document: it is parted in two, which do follow each other.
        drawn = words(
            options.random_seed, Purpose.PARTNER, 1, instance[lone], document[lone], epoch
        )
        length = half[lone] - begin[lone]
        kept = np.minimum(1 + below(drawn[0], np.maximum(length - 1, 1)), length)
        second[lone] = half[lone] = begin[lone] + kept
        second_length[lone] = length - kept
    keys = words(options.random_seed, Purpose.SHAPE, 0, instance, document, epoch)
    rows = np.zeros(len(document), ROW)
    rows["key"] = keys[2].astype(np.uint64) << np.uint64(32) | keys[3]
    rows["document"], rows["instance"], rows["epoch"] = document, instance, epoch
    rows["random"] = random
    (
        rows["first"],
        rows["first_length"],
        rows["second"],
        rows["second_length"],
    ) = cut_pairs(options, document, instance, epoch, begin, half - begin, second, second_length)
    return rows[rows["second_length"] > 0]


def _partners(
    store: TokenStore,
    options: Options,
    epoch: int,
    document: np.ndarray,
    instance: np.ndarray,
    wanted: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Second segments from other documents: where they begin, and how long they are.

    Args:
        store: the text.
        options: how instances are made.
        epoch: number of the pass.
        document: numbers of the documents that they must not come from.
        instance: numbers of the instances.
        wanted: tokens to reach with whole sentences, at least one.
    """
    drawn = words(options.random_seed, Purpose.PARTNER, 0, instance, document, epoch)
    other = below(drawn[0], len(store.documents) - 1)
    other += other >= document
    low, high = store.document_start(other), store.documents[other].astype(np.int64)
    begin = store.sentence_start(low + below(drawn[1], high - low))
    last = np.searchsorted(store.sentences, begin + np.maximum(wanted, 1), "left")
    return begin, store.sentences[np.minimum(last, high - 1)] - begin
