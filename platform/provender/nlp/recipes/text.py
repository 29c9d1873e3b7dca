"""The text of published versions as text files: a sentence a line, a blank line after a document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import InputError, SplitError
from provender.records.atomic import AtomicFile
from provender.records.tfrecord import iter_records

if TYPE_CHECKING:
    from provender.store import Store

_BLOCK = 1 << 20


@dataclass(frozen=True)
class VersionText:
    """Texts of a published version.

    Attributes:
        version: what the engine says of it, see `provender.builders.meanings`.
        columns: features that hold text, or lists of it; those of one example are one document.
        splits: the splits that count, in order.
    """

    version: Mapping[str, Any]
    columns: Sequence[str]
    splits: Sequence[str]

    @property
    def files(self) -> list[str]:
        """Names of the files with the examples.

        Raises:
            SplitError: the version lacks a split, or its files are not known.
        """
        known = self.version["splits"]
        found: list[str] = []
        for split in self.splits:
            if split not in known:
                raise SplitError(
                    f"{self.version['name']} has no split {split!r}.",
                    where=self.version["name"],
                    hint=f"Its splits are {', '.join(known)}; name one, or several: split = "
                    f'"{"+".join(list(known)[:2])}".',
                )
            if not known[split]["shards"]:
                raise SplitError(
                    f"Split {split!r} of {self.version['name']} has no files of examples.",
                    where=self.version["name"],
                    hint="Its builder writes files of its own; they cannot be read as text.",
                )
            found += known[split]["shards"]
        return found

    @property
    def size(self) -> int:
        """Bytes of the examples: of the text, roughly."""
        return sum(self.version["splits"][each]["bytes"] for each in self.splits)

    def check(self) -> None:
        """Refuses what holds no text, before anything is read.

        Raises:
            SplitError: as `files`.
            UnknownReference: a column that the version does not have.
            InputError: a column that holds no text.
        """
        import numpy as np
        import tensorflow_datasets as tfds

        from provender.training.feed.parsing import only

        assert self.files
        every = tfds.features.FeatureConnector.from_json(dict(self._features()))
        for name, feature in only(every, self.columns, self.version["name"]).items():
            inner = feature
            while isinstance(inner, tfds.features.Sequence):
                inner = inner.feature
            is_plain = isinstance(inner, tfds.features.Tensor)
            if not is_plain or np.dtype(inner.np_dtype).kind not in "OSU":
                raise InputError(
                    f"Feature {name!r} of {self.version['name']} holds no text: {feature!r}.",
                    where=f"text, {name}",
                    hint="Name features of type Text, or lists of them.",
                )

    def write(self, number: int, target: Path) -> None:
        """Writes the text of a file of examples.

        Args:
            number: of the file, within `files`.
            target: the text file; it appears whole or not at all.

        Raises:
            StoreError: the examples cannot be read, or the text not be written.
            DamageError: a file of examples is damaged.
        """
        from provender.training.rows import decoder_of

        store, rel = self._store, f"{self.version['path']}/{self.files[number]}"
        decode = decoder_of(self._features(), self.columns, self.version["name"])
        with store.open_file(rel) as source, AtomicFile(target) as file:
            block = bytearray()
            for _, record in iter_records(source):
                block += document(decode(record), self.columns)
                if len(block) >= _BLOCK:
                    file.write(bytes(block))
                    block.clear()
            file.write(bytes(block))

    @property
    def _store(self) -> Store:
        from provender.store import Store

        return Store.open(self.version["store"])

    def _features(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(
            self._store.read(f"{self.version['path']}/features.json")
        )
        return found


def document(example: Mapping[str, Any], columns: Sequence[str]) -> bytes:
    """An example as a document: its lines that are not blank, and a blank one."""
    lines = [
        line
        for name in columns
        for value in _texts(example[name])
        for line in value.split(b"\n")
        if line.strip()
    ]
    return b"".join(line + b"\n" for line in lines) + b"\n"


def _texts(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
    else:
        for each in value:
            yield from _texts(each)
