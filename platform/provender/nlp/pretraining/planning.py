"""Which tokens make which instance: the pairs of one pass over some documents.

An instance is planned as a row of 40 bytes: see `provender.nlp.pretraining.plans`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from provender.nlp.pretraining.counter import Purpose, below, threshold, words
from provender.nlp.pretraining.cutting import cut_pairs
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.plans import ROW, write_plan
from provender.nlp.pretraining.tokens import TokenStore

Chunk = tuple[int, int, int, int, int, bool]
"""Document, instance, first sentence, first of the second segment, last one, random or not."""

SENTENCES_AT_ONCE = 1 << 15


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


def plan_tasks(store: TokenStore, options: Options, sentences: int) -> list[Task]:
    """Divides all passes into tasks of at most so many sentences, or of one document."""
    cuts = list(_ranges(store, 0, len(store.documents), sentences))
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


def bucket_count(store: TokenStore, options: Options, instances: int) -> int:
    """How many buckets of about so many instances there are to be, from an estimate of all."""
    estimate = options.dupe_factor * store.counted.tokens / (0.75 * options.max_seq_length)
    return max(1, round(estimate / instances))


def plan_task(
    store: TokenStore, options: Options, task: Task, buckets: int, target: Path
) -> list[int]:
    """Plans the instances of a task and writes them, bucket by bucket.

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
    return write_plan(_planned(store, options, task), buckets, target)


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
        which = document[random], instance[random]
        wanted = target[random] - (half[random] - begin[random])
        second[random], second_length[random] = _partners(store, options, epoch, *which, wanted)
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
    begin, length = np.empty_like(other), np.empty_like(other)
    for part in store.glances(len(other)):
        low, high = store.document_start(other[part]), store.documents[other[part]]
        start = low + below(drawn[1][part], high - low)
        begin[part] = store.sentence_start(start)
        least = np.maximum(wanted[part], 1)
        # A sentence has a token at least, so the end is not far.
        last = np.minimum(start + least, high) - 1
        length[part] = _end_at(store.sentences, start, last, begin[part] + least) - begin[part]
    return begin, length


def _end_at(ends: np.ndarray, first: np.ndarray, last: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """The first end from ``first`` on that is at ``reach`` or beyond, or that of ``last``.

    By halving, as `np.searchsorted` does; but that looks all over ``ends``, of which this needs a page or two.
    """
    while (first < last).any():
        middle = (first + last) >> 1
        short = (ends[middle] < reach) & (middle < last)
        first, last = np.where(short, middle + 1, first), np.where(short, last, middle)
    found: np.ndarray = ends[first].astype(np.int64)
    return found
