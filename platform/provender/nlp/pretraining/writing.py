"""A bucket of planned instances becomes records: gathered, masked, encoded."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from provender.nlp.pretraining.grams import choose_grams
from provender.nlp.pretraining.layout import Column, Layout
from provender.nlp.pretraining.masking import Replacing, Rows, choose_tokens, replace_tokens
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.plans import read_bucket
from provender.nlp.pretraining.tokens import TokenStore
from provender.nlp.text.vocabulary import CLS, MASK, SEP, Vocabulary
from provender.records.atomic import AtomicFile
from provender.records.tfrecord import FOOTER_BYTES, HEADER_BYTES

_TOKENS_AT_ONCE = 1 << 18
_GZIP_LEVEL = 6
_GZIP_BITS = 31


def feature_names(options: Options) -> dict[str, str]:
    """Name under version 1 -> name as written, of the two features that were renamed."""
    if options.use_v2_feature_names:
        return {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
    return {"input_ids": "input_ids", "segment_ids": "segment_ids"}


def columns(options: Options, vocabulary_size: int) -> list[Column]:
    """The features of a record.

    Args:
        options: lengths and names.
        vocabulary_size: ids are below it.
    """
    names = feature_names(options)
    length, most = options.max_seq_length, options.max_predictions_per_seq
    return [
        Column(names["input_ids"], "int", length, vocabulary_size),
        Column("input_mask", "int", length),
        Column(names["segment_ids"], "int", length),
        Column("masked_lm_positions", "int", most, length),
        Column("masked_lm_ids", "int", most, vocabulary_size),
        Column("masked_lm_weights", "float", most),
        Column("next_sentence_labels", "int", 1),
    ]


@dataclass(frozen=True)
class Recipe:
    """What instances are made of besides text: options and vocabulary.

    Attributes:
        options: how.
        vocabulary: of the ids.

    Raises:
        InputError: the vocabulary lacks [CLS], [SEP] or [MASK]; when they are first asked for.
    """

    options: Options
    vocabulary: Vocabulary

    @cached_property
    def marks(self) -> tuple[int, int]:
        """Ids of [CLS] and [SEP]."""
        cls, sep, _ = self.vocabulary.special(CLS, SEP, MASK)
        return cls, sep

    @cached_property
    def replacing(self) -> Replacing:
        """What masked tokens are replaced by."""
        (mask,) = self.vocabulary.special(MASK)
        if self.options.random_tokens == "all":
            return Replacing(mask, np.arange(len(self.vocabulary), dtype=np.uint32))
        return Replacing(mask, self.vocabulary.ordinary)

    @cached_property
    def layout(self) -> Layout:
        """How records are laid out."""
        return Layout(columns(self.options, len(self.vocabulary)))


def write_bucket(
    store: TokenStore,
    recipe: Recipe,
    plans: Sequence[Path],
    bucket: int,
    before: int,
    targets: Sequence[Path],
) -> list[int]:
    """Writes the records of a bucket, dealt to the output files in turn.

    Args:
        store: the text.
        recipe: how instances are made.
        plans: all plan files, in the order of their tasks.
        bucket: number of the bucket.
        before: instances of the buckets before it.
        targets: a segment for each output file; each appears whole or not at all.

    Returns:
        Records of each segment.

    Raises:
        DamageError: a plan file is not whole.
        StoreError: a file cannot be read or written.
    """
    rows = read_bucket(plans, bucket)
    made = [0] * len(targets)
    sinks = [_Segment(each, recipe.options.gzip_compress) for each in targets]
    try:
        for start, data, ends in _encoded(store, recipe, rows):
            begins = np.concatenate([[0], ends[:-1]])
            for turn, sink in enumerate(sinks):
                # Records of a file follow each other at the distance of the number of files.
                first = (turn - before - start) % len(sinks)
                if len(sinks) == 1:
                    sink.write(data)
                else:
                    mine = range(first, len(ends), len(sinks))
                    sink.write(b"".join(data[begins[i] : ends[i]].tobytes() for i in mine))
                made[turn] += len(range(first, len(ends), len(sinks)))
        for sink in sinks:
            sink.close()
    except BaseException as error:
        for sink in sinks:
            sink.discard(error)
        raise
    return made


def _encoded(
    store: TokenStore, recipe: Recipe, rows: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields number of the first row, records and where each ends, for some rows at a time."""
    at_once = max(1, _TOKENS_AT_ONCE // recipe.options.max_seq_length)
    for start in range(0, len(rows), at_once):
        values = instances(store, recipe, rows[start : start + at_once])
        yield start, *recipe.layout.encode(values)


def records_of(store: TokenStore, recipe: Recipe, rows: np.ndarray) -> Iterator[bytes]:
    """The records of planned instances, serialized.

    Args:
        store: the text.
        recipe: how instances are made.
        rows: planned instances, of dtype `provender.nlp.pretraining.plans.ROW`.
    """
    for _, data, ends in _encoded(store, recipe, rows):
        whole = data.tobytes()
        begin = 0
        for end in ends.tolist():
            yield whole[begin + HEADER_BYTES : end - FOOTER_BYTES]
            begin = end


def instances(store: TokenStore, recipe: Recipe, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The features of planned instances.

    Args:
        store: the text.
        recipe: how instances are made.
        rows: planned instances, of dtype `provender.nlp.pretraining.plans.ROW`.

    Returns:
        Feature name -> values of shape (n, length of the feature).
    """
    options = recipe.options
    gathered = gather(store, recipe, rows)
    if options.do_whole_word_mask:
        chosen = choose_grams(gathered, options, recipe.vocabulary.continues)
    else:
        chosen = choose_tokens(gathered, options)
    originals = replace_tokens(gathered, chosen, recipe.replacing, options)
    most = options.max_predictions_per_seq
    positions = np.zeros((len(rows), most), np.int64)
    ids = np.zeros((len(rows), most), gathered.ids.dtype)
    positions[chosen.row, chosen.slot] = chosen.position
    ids[chosen.row, chosen.slot] = originals
    steps = np.arange(options.max_seq_length + 1)
    # Row k of the triangle is k ones and then zeros.
    triangle = (steps[:-1] < steps[:, None]).view(np.uint8)
    whole = gathered.first + gathered.second + 3
    mask = triangle[whole]
    names = feature_names(options)
    return {
        names["input_ids"]: gathered.ids,
        "input_mask": mask,
        names["segment_ids"]: mask - triangle[gathered.first + 2],
        "masked_lm_positions": positions,
        "masked_lm_ids": ids,
        "masked_lm_weights": (np.arange(most) < chosen.counts[:, None]).astype(np.float32),
        "next_sentence_labels": rows["random"][:, None],
    }


def gather(store: TokenStore, recipe: Recipe, rows: np.ndarray) -> Rows:
    """Reads the tokens of planned instances: ``[CLS] A [SEP] B [SEP]`` and zeros."""
    cls, sep = recipe.marks
    first, second = rows["first_length"].astype(np.int64), rows["second_length"].astype(np.int64)
    columns = np.arange(recipe.options.max_seq_length)
    middle, last = (first + 1)[:, None], (first + second + 2)[:, None]
    shift_first = rows["first"][:, None] - 1
    shift_second = rows["second"][:, None] - middle - 1
    places = np.where(columns < middle, shift_first, shift_second)
    places += columns
    ids = np.empty(places.shape, store.tokens.dtype)
    for part in store.glances(len(rows)):
        ids[part] = store.tokens.take(places[part], mode="clip")
    ids[columns >= last] = 0
    every = np.arange(len(rows))
    ids[:, 0] = cls
    ids[every, first + 1] = sep
    ids[every, first + second + 2] = sep
    return Rows(
        ids,
        first,
        second,
        rows["document"].astype(np.int64),
        rows["instance"].astype(np.int64),
        rows["epoch"].astype(np.int64),
    )


class _Segment:
    """A part of an output file; compressed, it is a gzip member of its own.

    Args:
        path: where; the file appears whole or not at all.
        compress: whether to compress it.
    """

    def __init__(self, path: Path, compress: bool) -> None:
        self._file = AtomicFile(path)
        self._file.__enter__()
        # zlib's own gzip header holds neither a name nor a time, so equal records are equal bytes.
        self._gzip = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS) if compress else None

    def write(self, data: Any) -> None:
        """Writes records."""
        if self._gzip is not None:
            self._file.write(self._gzip.compress(data))
        else:
            self._file.write(memoryview(data))

    def close(self) -> None:
        """Ends the file and gives it its name."""
        if self._gzip is not None:
            self._file.write(self._gzip.flush())
        self._file.__exit__(None, None, None)

    def discard(self, error: BaseException) -> None:
        """Removes what was written."""
        self._file.__exit__(type(error), error, None)
