"""The rows of a batch, and records of them.

Rows that run forwards are equal parts of the stream, in order. With ``bi_data`` each core has as many
rows that run backwards, over the same parts. Tokens and sides are always views of the same places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from provender.errors import InputError
from provender.nlp.pretraining.counter import philox
from provender.nlp.xlnet_data.options import Options
from provender.nlp.xlnet_data.pieces import Marks
from provender.nlp.xlnet_data.segments import LongRuns, Segments, choose
from provender.nlp.xlnet_data.stream import Stream
from provender.records.protobuf import example, int64_feature, packed_varints

_TYPE_B, _TYPE_CLS = 1, 2


@dataclass(frozen=True)
class Row:
    """A part of the stream, in the direction in which it is read.

    Attributes:
        tokens: ids.
        sides: of which sentence each is.
        backwards: whether it runs backwards.
        runs: what is known of its long sentences.
    """

    tokens: np.ndarray
    sides: np.ndarray
    backwards: bool
    runs: LongRuns = field(default_factory=LongRuns, compare=False)

    def starts(self, begin: int, end: int, begins_word: np.ndarray) -> np.ndarray:
        """Whether a word starts at each token of a part of the row; bool.

        Backwards, the piece that begins a word comes last, so the next word starts after it.

        Args:
            begin: first token.
            end: the token after the last one.
            begins_word: by id, whether a piece begins a word when read forwards.
        """
        if not self.backwards:
            return begins_word[self.tokens[begin:end]]
        found: np.ndarray = begins_word[self.tokens[max(0, begin - 1) : end - 1]]
        return found if begin else np.concatenate([[True], found])


def rows_of(stream: Stream, options: Options) -> list[Row]:
    """The rows of a batch in its order: for each core those forwards, then those backwards.

    Args:
        stream: the text.
        options: rows, cores and directions.

    Raises:
        InputError: the text does not fill a single record of each row.
    """
    count = options.directed
    length = len(stream) // count
    needed = options.seq_length
    if length < needed:
        raise InputError(
            f"The text has {len(stream):,} tokens, and {count} rows of {options.seq_length} need "
            f"{count * needed:,}.",
            where="--input_file",
            hint="Give more text, or a smaller --per_host_batch_size or --seq_length.",
            facts={"tokens": len(stream), "needed": count * needed},
        )
    parts = [slice(i * length, (i + 1) * length) for i in range(count)]
    per_core = count // options.num_cores_per_host
    found = []
    for core in range(options.num_cores_per_host):
        mine = parts[core * per_core : (core + 1) * per_core]
        found += [Row(stream.tokens[each], stream.sides[each], False) for each in mine]
        if options.bi_data:
            found += [
                Row(stream.tokens[each][::-1], stream.sides[each][::-1], True) for each in mine
            ]
    return found


def step_count(row: Row, options: Options) -> int:
    """Records of each row."""
    return (len(row.tokens) - options.seq_length) // options.stride + 1


@dataclass(frozen=True)
class Records:
    """Makes records of rows.

    Attributes:
        options: lengths and seed.
        marks: ids that mean something.
        begins_word: by id, whether a piece begins a word.
        number: of the pass, among those of all tasks.
    """

    options: Options
    marks: Marks
    begins_word: np.ndarray
    number: int

    def of_step(self, rows: list[Row], step: int) -> Iterator[bytes]:
        """The records of a batch, serialized.

        Args:
            rows: of the batch.
            step: number of the batch.
        """
        for values in self.values_of_step(rows, step):
            yield example({k: int64_feature(packed_varints(v)) for k, v in values.items()})

    def values_of_step(self, rows: list[Row], step: int) -> Iterator[dict[str, np.ndarray]]:
        """The records of a batch as arrays of int64, by feature.

        Args:
            rows: of the batch.
            step: number of the batch.
        """
        count = len(rows)
        counter = [np.arange(count), np.full(count, step), np.full(count, self.number)]
        counter.append(np.zeros(count, np.int64))
        random = philox([each.astype(np.uint64) for each in counter], self.options.random_seed)
        for i, row in enumerate(rows):
            yield self._record(row, step * self.options.stride, random[:, i])

    def _record(self, row: Row, begin: int, random: np.ndarray) -> dict[str, np.ndarray]:
        options, marks = self.options, self.marks
        a_begin = begin + options.reuse_length
        found = choose(row.sides, a_begin, options.room, random, row.runs)
        ids = np.concatenate(
            [
                row.tokens[begin : found.a_end],
                [marks.sep],
                row.tokens[found.b_begin : found.b_end],
                [marks.sep, marks.cls],
            ]
        ).astype(np.int64)
        return {
            "input_word_ids": ids,
            "input_type_ids": self._types(found),
            "boundary_indices": self._boundaries(row, begin, found),
            "label": np.array([int(found.follows)]),
        }

    def _types(self, found: Segments) -> np.ndarray:
        types = np.zeros(self.options.seq_length, np.int64)
        # B and the [SEP] that closes it.
        types[-2 - (found.b_end - found.b_begin) : -1] = _TYPE_B
        types[-1] = _TYPE_CLS
        return types

    def _boundaries(self, row: Row, begin: int, found: Segments) -> np.ndarray:
        starts = np.concatenate(
            [
                row.starts(begin, found.a_end, self.begins_word),
                [False],
                row.starts(found.b_begin, found.b_end, self.begins_word),
                [False, False],
            ]
        )
        # B begins with a sentence; read backwards, what goes before it need not show that.
        starts[found.a_end - begin + 1] = True
        return np.append(np.flatnonzero(starts), self.options.seq_length)
