"""Tokens as the features of records: ``[CLS] a [SEP] b [SEP]``, padded with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from provender.errors import InputError
from provender.nlp.finetuning.options import Options
from provender.nlp.text.vocabulary import CLS, SEP, Vocabulary
from provender.nlp.text.words import Tokenizer, make_tokenizer
from provender.records.protobuf import float_feature, int64_feature, packed_floats, packed_varints

Features = dict[str, bytes]
"""Feature name -> serialized ``Feature`` message."""


def ints(values: Sequence[int] | np.ndarray) -> bytes:
    """An Int64List feature."""
    return int64_feature(packed_varints(np.asarray(values, np.int64)))


def number(value: float) -> bytes:
    """A FloatList feature of one value."""
    return float_feature(packed_floats(np.array([value])))


@lru_cache(1 << 12)
def single(value: int) -> bytes:
    """An Int64List feature of one value."""
    return ints([value])


def mark_ids(vocabulary: Vocabulary) -> tuple[int, int]:
    """The ids of [CLS] and [SEP], or of <cls> and <sep>, as XLNet's models call them.

    Raises:
        InputError: the vocabulary has neither pair.
    """
    for pair in ((CLS, SEP), ("<cls>", "<sep>")):
        if all(each in vocabulary.ids for each in pair):
            cls, sep = vocabulary.special(*pair)
            return cls, sep
    vocabulary.special(CLS, SEP)
    raise AssertionError


def trimmed(segments: Sequence[list[int]], room: int) -> list[list[int]]:
    """Segments cut at their ends until they fit, always the longest one; of equal ones the last."""
    lengths = [len(each) for each in segments]
    excess = sum(lengths) - room
    while excess > 0:
        longest = max(range(len(lengths)), key=lambda i: (lengths[i], i))
        others = [each for i, each in enumerate(lengths) if i != longest]
        # Down to the next longest one at once; from there on in turns.
        step = max(1, min(excess, lengths[longest] - max(others, default=0)))
        lengths[longest] -= step
        excess -= step
    return [each[:length] for each, length in zip(segments, lengths, strict=True)]


class Packer:
    """Makes features of texts.

    Args:
        options: tokenization and length.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.length = options.max_seq_length

    def __reduce__(self) -> Any:
        # Tokenizers hold what cannot be sent to another process, and are quickly made there.
        return type(self), (self.options,)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        options = self.options
        if options.tokenization == "SentencePiece":
            from provender.nlp.finetuning.pieces import SpannedPieces

            return SpannedPieces(Path(options.sp_model_file), options.do_lower_case)
        return make_tokenizer(
            options.tokenization, vocab_file=options.vocab_file, lower=options.do_lower_case
        )

    @cached_property
    def marks(self) -> tuple[int, int]:
        """Ids of [CLS] and [SEP]."""
        return mark_ids(self.tokenizer.vocabulary)

    @cached_property
    def unknown(self) -> int:
        """Id of the unknown token."""
        (found,) = self.tokenizer.vocabulary.special(self.tokenizer.vocabulary.unknown)
        return found

    def check(self) -> None:
        """Refuses a vocabulary that cannot serve.

        Raises:
            MissingFiles: it is not there.
            InputError: it is none, or lacks special tokens.
        """
        _ = self.marks, self.unknown

    def ids(self, text: str) -> list[int]:
        """The ids of a text."""
        packed = self.tokenizer.packed(text)
        found: list[int] = np.frombuffer(packed, self.tokenizer.vocabulary.dtype).tolist()
        return found

    def packed(self, segments: Sequence[list[int]]) -> Features:
        """``input_ids``, ``input_mask`` and ``segment_ids`` of segments, cut to fit.

        Raises:
            InputError: there are more segments than tokens.
        """
        room = self.length - 1 - len(segments)
        if room < len(segments):
            raise InputError(
                f"{len(segments)} texts do not fit into {self.length} tokens.",
                where="--max_seq_length",
                hint="Give a larger --max_seq_length.",
            )
        cls, sep = self.marks
        kept = trimmed(segments, room)
        ids = [cls]
        for each in kept:
            ids += each
            ids.append(sep)
        return {
            "input_ids": self.padded(ids),
            "input_mask": _mask(len(ids), self.length),
            "segment_ids": _types(tuple(map(len, kept)), self.length),
        }

    def padded(self, values: list[int], fill: int = 0) -> bytes:
        """A feature of ``length`` values."""
        return ints(values + [fill] * (self.length - len(values)))


@lru_cache(1 << 10)
def _mask(count: int, length: int) -> bytes:
    return ints([1] * count + [0] * (length - count))


@lru_cache(1 << 14)
def _types(lengths: tuple[int, ...], length: int) -> bytes:
    found = [0]
    for i, each in enumerate(lengths):
        found += [i] * (each + 1)
    return ints(found + [0] * (length - len(found)))
