"""Text of recipes, in pieces that are tokenized apart: of published versions, or of text files.

A sentence is a line, and a blank line ends a document. An example of a version is a document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from provender.errors import InputError, SettingsError
from provender.nlp.pretraining.files import Part as Range
from provender.nlp.pretraining.files import matched, parts_of
from provender.nlp.recipes.version import SourceVersion
from provender.records.atomic import AtomicFile, told_as_ours

_BLOCK = 1 << 20
PIECE = 4 << 20
"""Bytes of text that are tokenized together, at least."""
MOST = 512
"""Pieces, about: each is a file, and a row of the catalog."""


def piece_size(size: int) -> int:
    """Bytes of a piece of a text of so many bytes."""
    return max(PIECE, -(-size // MOST))


class Text(Protocol):
    """Text that recipes are made of."""

    @property
    def size(self) -> int:
        """Bytes of the text, roughly."""
        ...

    @property
    def files(self) -> Sequence[Any]:
        """The files that the text lies in."""
        ...

    @property
    def owners(self) -> Sequence[int]:
        """For each piece the number of its file; pieces and files are in order."""
        ...

    def check(self) -> None:
        """Refuses what holds no text, before anything is read."""
        ...

    def laid_out(self, wanted: Sequence[int], folder: Path) -> Iterator[Range]:
        """The pieces of some numbers, each in a file that is there until the next is asked for."""
        ...


def text_of(dataset: str, source: Any, text: Any, split: str, input_file: Any) -> Text | None:
    """What a recipe's arguments say of its text.

    Args:
        dataset: named in errors.
        source: a published version, or None.
        text: name of a feature, or several.
        split: of the version: ``train`` or ``train+validation``.
        input_file: files, or None.

    Returns:
        None where the version is only a name yet, as where a builder's facts are asked for.

    Raises:
        SettingsError: neither or both of version and files are given.
    """
    if (source is None) == (input_file is None):
        raise SettingsError(
            "The text is either a published version or files.",
            where=f"{dataset}, source, input_file",
            hint='source = "xsum:1.1.0" with text = ["document"], or input_file = "books/*.txt".',
        )
    if input_file is not None:
        return FileText([input_file] if isinstance(input_file, str) else list(input_file))
    if not isinstance(source, Mapping):
        return None
    columns = [text] if isinstance(text, str) else list(text)
    return VersionText(SourceVersion(source, split.split("+")), columns)


@dataclass(frozen=True)
class FileText:
    """Text files.

    Attributes:
        names: paths or patterns.
    """

    names: Sequence[str]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(each.size for each in self.files)

    @property
    def files(self) -> Sequence[Any]:
        """The files, as `provender.nlp.pretraining.files.matched` gives them."""
        return matched(self.names)

    @property
    def owners(self) -> list[int]:
        """See `Text`."""
        numbers = {each.path: i for i, each in enumerate(self.files)}
        return [numbers[each.path] for each in self._pieces]

    def check(self) -> None:
        """Looks for the files.

        Raises:
            MissingFiles: one is not there.
        """
        assert self.files

    def laid_out(self, wanted: Sequence[int], folder: Path) -> Iterator[Range]:
        """See `Text`; nothing is written."""
        pieces = self._pieces
        yield from (pieces[number] for number in wanted)

    @property
    def _pieces(self) -> list[Range]:
        return parts_of(self.files, piece_size(self.size))


@dataclass(frozen=True)
class VersionText:
    """Texts of a published version.

    Attributes:
        source: the version.
        columns: features that hold text, or lists of it; those of one example are one document.
    """

    source: SourceVersion
    columns: Sequence[str]

    @property
    def size(self) -> int:
        """Bytes of the examples: of the text, roughly."""
        return self.source.size

    @property
    def files(self) -> Sequence[Any]:
        """The version's files."""
        return self.source.files

    @property
    def owners(self) -> list[int]:
        """See `Text`."""
        return [each.file for each in self.source.cut(piece_size(self.size))]

    def check(self) -> None:
        """Refuses what holds no text, before anything is read.

        Raises:
            SplitError: the version lacks a split, or its files are not known.
            UnknownReference: a column that the version does not have.
            InputError: a column that holds no text.
        """
        assert self.files
        check_texts(self.source, self.columns)

    def laid_out(self, wanted: Sequence[int], folder: Path) -> Iterator[Range]:
        """See `Text`.

        Raises:
            StoreError: the examples cannot be read, or the text not be written.
            DamageError: a file of examples is damaged.
        """
        pieces = self.source.cut(piece_size(self.size))
        for i, examples in self.source.read([pieces[number] for number in wanted], self.columns):
            path = folder / f"{wanted[i]:06d}.txt"
            with _for_a_while(path):
                yield Range(str(path), 0, self._write(examples, path))

    def _write(self, examples: Iterator[Mapping[str, Any]], path: Path) -> int:
        with AtomicFile(path) as file:
            block = bytearray()
            for example in examples:
                block += document(example, self.columns)
                if len(block) >= _BLOCK:
                    file.write(bytes(block))
                    block.clear()
            file.write(bytes(block))
        return file.size


@contextmanager
def _for_a_while(path: Path) -> Iterator[None]:
    with told_as_ours(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def check_texts(source: SourceVersion, columns: Sequence[str]) -> None:
    """Refuses features that hold no text.

    Raises:
        UnknownReference: a column that the version does not have.
        InputError: a column that holds no text.
    """
    import numpy as np
    import tensorflow_datasets as tfds

    from provender.training.feed.parsing import only

    for name, feature in only(source.features(), columns, source.name).items():
        inner = feature
        while isinstance(inner, tfds.features.Sequence):
            inner = inner.feature
        is_plain = isinstance(inner, tfds.features.Tensor)
        if not is_plain or np.dtype(inner.np_dtype).kind not in "OSU":
            raise InputError(
                f"Feature {name!r} of {source.name} holds no text: {feature!r}.",
                where=f"text, {name}",
                hint="Name features of type Text, or lists of them.",
            )


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
