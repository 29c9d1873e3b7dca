"""Pretraining examples read back: any ``tf.train.Example`` without TensorFlow, and their statistics."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from provender.errors import DamageError, InputError
from provender.records.atomic import told_as_ours
from provender.records.tfrecord import iter_records

_GZIP = b"\x1f\x8b"
_RENAMED = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
_NEEDED = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids")
_WEIGHTS, _NEXT = "masked_lm_weights", "next_sentence_labels"
_AT_ONCE = 1024
_BUFFER = 1 << 20


def records(path: Path) -> Iterator[bytes]:
    """The records of a TFRecord file, compressed with gzip or not.

    Raises:
        DamageError: the file is damaged.
        StoreError: it cannot be read.
    """
    with told_as_ours(path), io.BufferedReader(io.FileIO(path), _BUFFER) as file:
        yield from unpacked(file, str(path))


def unpacked(file: io.BufferedReader[Any], where: str) -> Iterator[bytes]:
    """The records of an open TFRecord file, compressed with gzip or not.

    Args:
        file: at its begin.
        where: names it in errors.

    Raises:
        DamageError: the file is damaged.
    """
    try:
        plain: Any = file
        if file.peek(2)[:2] == _GZIP:
            plain = gzip.GzipFile(fileobj=file)
        for _, payload in iter_records(plain):
            yield payload
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        name = where.rpartition("/")[2]
        raise DamageError(f"{name} cannot be decompressed: {error}.", where=where) from error


def decode(record: bytes) -> dict[str, Any]:
    """The features of a ``tf.train.Example``.

    Returns:
        Name -> int64 or float32 array, or list of bytes.

    Raises:
        InputError: the bytes are no Example.
    """
    try:
        found = {}
        for features in _fields(record, 1):
            for entry in _fields(features, 1):
                (name,) = _fields(entry, 1)
                found[name.decode()] = _feature(b"".join(_fields(entry, 2)))
    except (ValueError, IndexError) as error:
        raise InputError(
            "A record is no tf.train.Example.", hint="Is it another kind of file?"
        ) from error
    return found


def _feature(feature: bytes) -> Any:
    for kind, dtype in ((3, np.int64), (2, np.float32)):
        for values in _fields(feature, kind):
            packed = b"".join(_fields(values, 1))
            if dtype is np.float32:
                return np.frombuffer(packed, "<f4")
            return _varints(packed)
    return [each for values in _fields(feature, 1) for each in _fields(values, 1)]


def _varints(packed: bytes) -> np.ndarray:
    data = np.frombuffer(packed, np.uint8)
    if not len(data) or data.max() < 128:
        return data.astype(np.int64)
    last = np.flatnonzero(data < 128)
    start = np.concatenate([[0], last[:-1] + 1])
    shift = 7 * (np.arange(len(data)) - np.repeat(start, last - start + 1))
    parts = (data & 127).astype(np.uint64) << shift.astype(np.uint64)
    return np.add.reduceat(parts, start).astype(np.int64)


def _fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """The length-delimited fields of a number."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        if tag & 7 != 2:
            raise ValueError(tag)
        size, at = _varint(message, at)
        if at + size > end:
            raise ValueError(size)
        if tag >> 3 == wanted:
            yield message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7


@dataclass(frozen=True)
class Example:
    """One pretraining example, under version 1 names."""

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    next_sentence: int | None

    @classmethod
    def of(cls, record: bytes, where: str) -> Example:
        """Reads a record.

        Raises:
            InputError: a feature is missing, or lengths disagree.
        """
        return cls.of_features(decode(record), where)

    @classmethod
    def of_features(cls, read: Mapping[str, Any], where: str) -> Example:
        """Takes the features of a record, as `decode` gives them.

        Raises:
            InputError: a feature is missing, or lengths disagree.
        """
        features = {_RENAMED.get(name, name): value for name, value in read.items()}
        missing = [each for each in _NEEDED if each not in features]
        if missing:
            raise InputError(
                f"The records are no BERT pretraining examples: no {', '.join(missing)}.",
                where=where,
                hint=f"They have {', '.join(sorted(read)) or 'no features'}.",
            )
        ids, positions = features["input_ids"], features["masked_lm_positions"]
        lengths = {len(features[each]) for each in ("input_mask", "segment_ids")} | {len(ids)}
        labels = features["masked_lm_ids"]
        weights = features.get(_WEIGHTS, (labels > 0).astype(np.float32))
        if len(lengths) > 1 or not len(positions) == len(labels) == len(weights):
            raise InputError("The features of a record have different lengths.", where=where)
        used = weights > 0
        if used.any() and not 0 <= positions[used].min() <= positions[used].max() < len(ids):
            raise InputError("A record masks a position that it does not have.", where=where)
        label = features.get(_NEXT)
        return cls(
            ids,
            features["input_mask"],
            features["segment_ids"],
            positions[used],
            labels[used],
            int(label[0]) if label is not None and len(label) else None,
        )


@dataclass
class Statistics:
    """What can be known of pretraining files.

    Whether a masked token was kept or replaced by itself at random cannot be told; it counts as
    kept. Shares are of masked tokens.

    Attributes:
        records: examples that were counted.
        seq_length: tokens of an example, padding included, by how many have it.
        real: examples by their number of real tokens.
        predictions: masked tokens.
        hidden: of those, replaced by [MASK].
        kept: left as they were.
        random: replaced by another token.
        first: real tokens of segments A, special ones included.
        second: the same of segments B.
        labelled: examples with a next-sentence label.
        unrelated: of those, with label 1.
    """

    records: int = 0
    seq_length: dict[int, int] = field(default_factory=dict)
    real: dict[int, int] = field(default_factory=dict)
    predictions: int = 0
    hidden: int = 0
    kept: int = 0
    random: int = 0
    first: int = 0
    second: int = 0
    labelled: int = 0
    unrelated: int = 0

    def add(self, example: Example, mask: int | None) -> None:
        """Counts an example, given the id of [MASK]."""
        self.records += 1
        length, real = len(example.input_ids), int(example.input_mask.sum())
        self.seq_length[length] = self.seq_length.get(length, 0) + 1
        self.real[real] = self.real.get(real, 0) + 1
        there = example.input_ids[example.positions]
        hidden = there == mask
        kept = (there == example.labels) & ~hidden
        self.predictions += len(there)
        self.hidden += int(hidden.sum())
        self.kept += int(kept.sum())
        self.random += int((~hidden & ~kept).sum())
        second = int(example.segment_ids.sum())
        self.first += real - second
        self.second += second
        if example.next_sentence is not None:
            self.labelled += 1
            self.unrelated += example.next_sentence

    def to_json(self) -> dict[str, Any]:
        """Figures and shares."""
        tokens = token_count(self.real)
        return {
            **length_figures(self.records, self.real, self.seq_length),
            "mean_first": share(self.first, self.records),
            "mean_second": share(self.second, self.records),
            "mean_predictions": share(self.predictions, self.records),
            "masking_rate": share(self.predictions, tokens),
            "mask_share": share(self.hidden, self.predictions),
            "keep_share": share(self.kept, self.predictions),
            "random_share": share(self.random, self.predictions),
            "random_next": share(self.unrelated, self.labelled),
        }


def share(part: float, whole: float) -> float | None:
    """A share, or None of nothing."""
    return part / whole if whole else None


def token_count(lengths: Mapping[int, int]) -> int:
    """Tokens of records, given how many have which length."""
    return sum(length * count for length, count in lengths.items())


def length_figures(
    records: int, real: Mapping[int, int], padded: Mapping[int, int]
) -> dict[str, Any]:
    """What lengths say of records of any kind, JSON-ready.

    Args:
        records: how many there are.
        real: records by their number of tokens, without padding.
        padded: the same with padding.
    """
    tokens, slots = token_count(real), token_count(padded)
    return {
        "records": records,
        "seq_lengths": sorted(padded),
        "mean_length": share(tokens, records),
        "full": share(sum(real.get(length, 0) for length in padded), records),
        "padding": share(slots - tokens, slots),
    }


def examples(paths: Sequence[Path], limit: int | None = None) -> Iterator[Example]:
    """The examples of files, in order.

    Args:
        paths: TFRecord files.
        limit: at most so many.

    Raises:
        InputError: the records are something else.
        DamageError: a file is damaged.
    """
    every = (Example.of(record, str(path)) for path in paths for record in records(path))
    yield from islice(every, limit)


def guess_mask(sample: Sequence[Example]) -> int | None:
    """The id that stands most often where tokens were masked, which is that of [MASK]."""
    there = [each.input_ids[each.positions] for each in sample]
    found = np.concatenate(there) if there else np.empty(0, np.int64)
    return int(np.bincount(found).argmax()) if len(found) else None


def counted(
    paths: Sequence[Path], limit: int | None, mask: int | None
) -> tuple[Statistics, list[Example]]:
    """Statistics of files, and their first examples.

    Args:
        paths: TFRecord files.
        limit: at most so many examples are counted.
        mask: id of [MASK], or None to find it.
    """
    rest = examples(paths, limit)
    head = list(islice(rest, _AT_ONCE))
    mask = guess_mask(head) if mask is None else mask
    found = Statistics()
    for each in head:
        found.add(each, mask)
    for each in rest:
        found.add(each, mask)
    return found, head


def text_of(example: Example, tokens: Sequence[str] | None, pieces: bool = False) -> str:
    """An example as text; a masked token is shown as ``[there=original]``.

    Args:
        example: the example.
        tokens: the vocabulary, or None to show ids.
        pieces: whether tokens are SentencePieces, which mark spaces, not continuations.
    """
    originals: Mapping[int, int] = dict(
        zip(example.positions.tolist(), example.labels.tolist(), strict=True)
    )

    def name(id: int) -> str:
        return tokens[id] if tokens is not None and id < len(tokens) else str(id)

    shown = []
    for at, id in enumerate(example.input_ids[: int(example.input_mask.sum())].tolist()):
        shown.append(f"[{name(id)}={name(originals[at])}]" if at in originals else name(id))
    text = " ".join(shown)
    return text.replace(" ##", "") if not pieces else text
