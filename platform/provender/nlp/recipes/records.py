"""Fine-tuning records in two stages: pieces are encoded in parts, then shards are written of them."""

from __future__ import annotations

import functools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import tensorflow_datasets as tfds

from provender.builders.steps import InSteps, Part, Serialized
from provender.errors import InputError
from provender.nlp.finetuning.features import Feature
from provender.nlp.finetuning.outputs import Encoder, Planned, chunks_of
from provender.nlp.recipes.version import Rows, SourceVersion
from provender.records.atomic import AtomicFile, told_as_ours, write_json
from provender.records.protobuf import example
from provender.records.shards import shard_bounds, shard_count
from provender.records.tfrecord import frame, iter_records
from provender.training.messages import example_class

_log = logging.getLogger(__name__)
_COUNTS = "records.json"
_PIECES = "pieces"
_AT_ONCE = 8
"""Messages' worth of items, as `Encoder.at_once` has them, that make a piece."""
_PIECE = 1 << 20
"""Bytes of a version's examples that make a piece."""
_BYTES_PER_TOKEN = 5


Numbers = tuple[str, int]
"""A feature that is the number of its record, and the number of the first one."""


@dataclass(frozen=True)
class Piece:
    """Items that are encoded together.

    Attributes:
        number: of the piece, within its split.
        first: number of the first item, within its split.
        size: items, before any is left out.
        items: what `Encoder` takes; nothing is read before they are.
    """

    number: int
    first: int
    size: int
    items: Iterable[Any]


class Supply(Protocol):
    """What the records of a split are made of."""

    @property
    def encode(self) -> Encoder:
        """Makes records of items."""
        ...

    @property
    def numbers(self) -> Numbers | None:
        """What is numbered once all records are there."""
        ...

    @property
    def items(self) -> int:
        """Items, about."""
        ...

    @property
    def records(self) -> int:
        """Records, about."""
        ...

    @property
    def notes(self) -> Counter[str]:
        """What was left out by the reading of all items, once they were read."""
        ...

    def pieces(self, part: Part) -> Iterator[Piece]:
        """The pieces of a part. Neither their numbers nor their items depend on the parts."""
        ...


@dataclass(frozen=True)
class FromFiles:
    """Items that are read from the beginning only, so each part reads all and encodes its own.

    Attributes:
        planned: the items, and what makes records of them; its path does not count.
        per_item: records that an item gives, about.
    """

    planned: Planned
    numbers: Numbers | None = None
    per_item: float = 1

    @property
    def encode(self) -> Encoder:
        """See `Supply`."""
        return self.planned.encode

    @property
    def items(self) -> int:
        """See `Supply`."""
        return self.planned.total

    @property
    def records(self) -> int:
        """See `Supply`."""
        return max(1, int(self.planned.total * self.per_item))

    @property
    def notes(self) -> Counter[str]:
        """See `Supply`."""
        return self.planned.notes

    def pieces(self, part: Part) -> Iterator[Piece]:
        """See `Supply`."""
        chunks = chunks_of(self.planned.items(), self.encode.at_once * _AT_ONCE)
        for number, (first, items) in enumerate(chunks):
            if number % part.of == part.number:
                yield Piece(number, first, len(items), items)


@dataclass(frozen=True)
class FromVersion:
    """Examples of a published version, of which each part reads its own.

    Attributes:
        source: the examples.
        read: gives the items of some neighbours.
        encode: makes records of them.
        numbers: see `Supply`.
        per_item: records that an example gives, about.
    """

    source: SourceVersion
    read: Callable[[Rows], Iterator[Any]]
    encode: Encoder
    numbers: Numbers | None = None
    per_item: float = 1

    @property
    def items(self) -> int:
        """See `Supply`."""
        return self.source.count

    @property
    def records(self) -> int:
        """See `Supply`."""
        return max(1, int(self.source.count * self.per_item))

    @property
    def notes(self) -> Counter[str]:
        """See `Supply`."""
        return Counter()

    def pieces(self, part: Part) -> Iterator[Piece]:
        """See `Supply`."""
        cut = self.source.cut(_PIECE)
        begins = list(accumulate((each.stop - each.start for each in cut), initial=0))
        for number in part.share(len(cut)):
            size = begins[number + 1] - begins[number]
            yield Piece(number, begins[number], size, self.read(cut[number]))


class RecordsInSteps(InSteps, tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """What builders of fine-tuning records have in common.

    Each has ``STEPS = {"records": …}``, and says what its splits are made of and how long a record is.
    """

    _shards: int | None
    _length: int
    """Tokens of a record."""

    def supplies(self) -> Mapping[str, Supply]:
        """What each split is made of; refuses what cannot serve."""
        raise NotImplementedError

    def make_records(self, part: Part) -> list[Path]:
        """Encodes a part of all items."""
        supplies = self.supplies()
        total = sum(each.items for each in supplies.values()) // part.of
        notes: Counter[str] = Counter()
        found = []
        done = 0
        for split, supply in supplies.items():
            for piece in supply.pieces(part):
                part.told(done, max(total, done + 1), "items")
                path = _pieces(part.folder, split) / f"{piece.number:06d}"
                if not path.exists():
                    notes += _encode(supply.encode, piece, path)
                done += piece.size
                found.append(path)
            if part.number == 0:
                # Each part reads all that lies in files.
                notes += supply.notes
        part.told(done, max(done, 1), "items")
        for note, count in notes.items():
            _log.warning("%d items are left out (%s).", count, note)
        return found

    def join_records(self, folder: Path, parts: int) -> list[Path]:
        """Counts the records, so that they can be numbered and dealt to shards."""
        found = []
        counted = {}
        for split, supply in self.supplies().items():
            paths = sorted(_pieces(folder, split).glob("[0-9]" * 6))
            counts = [sum(1 for _ in iter_records(each, verify=False)) for each in paths]
            if not sum(counts):
                raise InputError(
                    f"There are no examples for {split}.",
                    where=self.name,
                    hint="The files or the split are empty, or all examples were skipped.",
                )
            counted[split] = {"counts": counts, "numbers": supply.numbers}
            found += paths
        write_json(folder / _COUNTS, counted)
        return [*found, folder / _COUNTS]

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Any]]:
        shards = {split: self._shards_for(supply) for split, supply in self.supplies().items()}
        return {
            split: [functools.partial(self._examples, split, each, count) for each in range(count)]
            for split, count in shards.items()
        }

    def _shards_for(self, supply: Supply) -> int:
        size = supply.records * self._length * _BYTES_PER_TOKEN
        return self._shards or int(shard_count(size, supply.records))

    def _examples(self, split: str, shard: int, shards: int) -> Iterator[tuple[int, Any]]:
        folder = self.made["records"]
        known = json.loads((folder / _COUNTS).read_bytes())[split]
        start, stop = shard_bounds(sum(known["counts"]), shards)[shard]
        first = 0
        for number, count in enumerate(known["counts"]):
            if start < first + count and first < stop:
                records = iter_records(_pieces(folder, split) / f"{number:06d}")
                for key, (_, payload) in enumerate(records, first):
                    if start <= key < stop:
                        yield key, numbered(payload, known["numbers"], key)
            first += count


def as_features(found: Mapping[str, Feature]) -> Any:
    """Features as TFDS has them."""
    return tfds.features.FeaturesDict(
        {
            name: tfds.features.Tensor(shape=(length,), dtype=kind)
            for name, (length, kind) in found.items()
        }
    )


def _pieces(folder: Path, split: str) -> Path:
    return folder / _PIECES / split


def _encode(encode: Encoder, piece: Piece, path: Path) -> Counter[str]:
    """Writes the records of a piece."""
    made = encode(piece.first, list(piece.items))
    with told_as_ours(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with AtomicFile(path) as file:
        file.write(b"".join(frame([example(features) for features in made.records])))
    return made.notes


def numbered(record: bytes, numbers: Numbers | None, key: int) -> Serialized:
    """A record with its number.

    Args:
        record: a serialized ``tf.train.Example``.
        numbers: the feature that is to be the number, and the first one's; or None.
        key: number of the record, from 0.
    """
    if numbers is None:
        return Serialized(record)
    name, first = numbers
    message = example_class().FromString(record)
    message.features.feature[name].int64_list.value[:] = [first + key]
    return Serialized(message.SerializeToString(deterministic=True))
