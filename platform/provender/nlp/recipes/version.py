"""Examples of a published version, by their numbers, for whoever reads some of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from provender.errors import SplitError
from provender.records.tfrecord import iter_records

if TYPE_CHECKING:
    from provender.store import Store


@dataclass(frozen=True)
class Rows:
    """Neighbouring examples of one file.

    Attributes:
        file: number of the file, within `SourceVersion.files`.
        start: number of the first one, within the file.
        stop: of the one after the last.
    """

    file: int
    start: int
    stop: int


@dataclass(frozen=True)
class SourceVersion:
    """Splits of a published version, one after the other.

    Attributes:
        version: what the engine says of it, see `provender.builders.meanings`.
        splits: the splits that count, in order.
    """

    version: Mapping[str, Any]
    splits: Sequence[str]

    @property
    def name(self) -> str:
        """``name[/config]:number``."""
        return str(self.version["name"])

    @cached_property
    def files(self) -> list[tuple[str, int]]:
        """Files with the examples: names, and examples of each.

        Raises:
            SplitError: the version lacks a split, or its files are not known.
        """
        known = self.version["splits"]
        found: list[tuple[str, int]] = []
        for split in self.splits:
            if split not in known:
                raise SplitError(
                    f"{self.name} has no split {split!r}.",
                    where=self.name,
                    hint=f"Its splits are {', '.join(known)}; name one, or several: split = "
                    f'"{"+".join(list(known)[:2])}".',
                )
            if not known[split]["shards"]:
                raise SplitError(
                    f"Split {split!r} of {self.name} has no files of examples.",
                    where=self.name,
                    hint="Its builder writes files of its own; they cannot be read here.",
                )
            found += zip(known[split]["shards"], known[split]["lengths"], strict=True)
        return found

    @property
    def size(self) -> int:
        """Bytes of the examples."""
        return sum(self.version["splits"][each]["bytes"] for each in self.splits)

    @property
    def count(self) -> int:
        """Examples in all."""
        return sum(length for _, length in self.files)

    def cut(self, size: int) -> list[Rows]:
        """All examples in pieces of about so many bytes, none of which reaches over a file."""
        at_once = max(1, size * self.count // max(1, self.size))
        return [
            Rows(number, start, min(start + at_once, length))
            for number, (_, length) in enumerate(self.files)
            for start in range(0, length, at_once)
        ]

    def between(self, start: int, stop: int) -> list[Rows]:
        """The examples from number ``start`` to ``stop`` of all splits together."""
        found = []
        begin = 0
        for number, (_, length) in enumerate(self.files):
            low, high = max(start - begin, 0), min(stop - begin, length)
            if low < high:
                found.append(Rows(number, low, high))
            begin += length
        return found

    def features(self) -> Any:
        """The version's features, as TFDS has them.

        Raises:
            StoreError: they cannot be read.
        """
        import tensorflow_datasets as tfds

        return tfds.features.FeatureConnector.from_json(dict(self._document))

    def read(
        self, wanted: Sequence[Rows], columns: Sequence[str]
    ) -> Iterator[tuple[int, Iterator[Mapping[str, Any]]]]:
        """Reads examples; each file is opened once for neighbours that lie in it.

        Args:
            wanted: which, in ascending order.
            columns: features that are read.

        Yields:
            The number of each of ``wanted``, and its examples, to be read before the next.

        Raises:
            StoreError: a file cannot be read.
            DamageError: it is damaged.
        """
        from provender.training.rows import decoder_of

        decode = decoder_of(self._document, columns, self.name)
        numbered = enumerate(wanted)
        for file, group in groupby(numbered, key=lambda each: each[1].file):
            with self._store.open_file(f"{self.version['path']}/{self.files[file][0]}") as opened:
                records, at = iter_records(opened), 0
                for number, rows in group:
                    next(islice(records, rows.start - at, rows.start - at), None)
                    at = rows.stop
                    mine = islice(records, rows.stop - rows.start)
                    yield number, (decode(payload) for _, payload in mine)
                    for _ in mine:
                        pass

    @cached_property
    def _store(self) -> Store:
        from provender.store import Store

        return Store.open(self.version["store"])

    @cached_property
    def _document(self) -> Mapping[str, Any]:
        path = f"{self.version['path']}/features.json"
        found: Mapping[str, Any] = json.loads(self._store.read(path))
        return found
