"""Rows of files: TSV tables, JSON lines, folders of texts. Whatever is wrong is told by its line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provender.errors import InputError, MissingFiles
from provender.nlp.finetuning.rows import Row
from provender.records.atomic import told_as_ours


def existing(path: Path, flag: str) -> Path:
    """The path, if there is a file.

    Raises:
        MissingFiles: there is none; says in which folder, and what that folder holds.
    """
    if path.is_file():
        return path
    if path.parent.is_dir():
        names = sorted(each.name for each in path.parent.iterdir())
        held = f"{path.parent} holds {', '.join(names[:8]) or 'nothing'}"
        held += f" and {len(names) - 8} more." if len(names) > 8 else "."
    else:
        held = f"There is no folder {path.parent}."
    raise MissingFiles(
        f"There is no file {path.name}.", where=str(path), hint=f"{held} See {flag}."
    )


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, without their ends, with their numbers from 1.

    Raises:
        InputError: a line is not UTF-8.
        StoreError: the file cannot be read.
    """
    with told_as_ours(path), path.open("rb") as file:
        for i, line in enumerate(file, 1):
            try:
                yield i, line.rstrip(b"\r\n").decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"Line {i:,} of {path.name} is not UTF-8 text.",
                    where=f"{path}:{i}",
                    hint="Convert the file to UTF-8.",
                ) from error


def cells(path: Path, least: int, *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of a TSV file without quoting, with the numbers of their lines; blank lines are none.

    Args:
        path: the file.
        least: columns that a row must have.
        header: whether the first line is none.

    Raises:
        InputError: a row has fewer columns.
    """
    for i, line in lines(path):
        if not line.strip() or (header and i == 1):
            continue
        found = line.split("\t")
        if len(found) < least:
            raise InputError(
                f"Line {i:,} of {path.name} has {len(found)} columns, and {least} are needed.",
                where=f"{path}:{i}",
                hint="Columns are separated by tabs.",
                facts={"line": i, "columns": len(found), "needed": least},
            )
        yield i, found


@dataclass(frozen=True)
class Table:
    """A TSV file of texts.

    Attributes:
        path: the file.
        texts: columns of the segments.
        label: column of the label; None where it is not known, which is class 0.
        header: whether the first line names the columns.
        only: column -> what it must hold, for a file of several languages.
        flawed: whether its publisher left rows in it that are none: they are left out and told.
    """

    path: Path
    texts: tuple[int, ...]
    label: int | None = None
    header: bool = False
    only: tuple[int, str] | None = None
    flawed: bool = False

    def rows(self, numbers: Mapping[str, int], notes: Counter[str]) -> Iterator[Row]:
        """Its rows.

        Args:
            numbers: number of each class by name.
            notes: where rows that are left out are counted.

        Raises:
            InputError: a row has too few columns, or an unknown label.
        """
        used = [*self.texts, *([] if self.label is None else [self.label])]
        if self.only:
            used.append(self.only[0])
        least = max(used) + 1
        for i, found in cells(self.path, 0 if self.flawed else least, header=self.header):
            if self.flawed and not self._is_row(found, least, numbers):
                notes[f"rows of {self.path.name} without a label"] += 1
                continue
            if self.only and found[self.only[0]] != self.only[1]:
                continue
            label = 0
            if self.label is not None:
                label = _class(found[self.label], numbers, self.path, i)
            yield Row(tuple(found[each] for each in self.texts), label)

    def _is_row(self, found: Sequence[str], least: int, numbers: Mapping[str, int]) -> bool:
        return len(found) >= least and (
            self.label is None or _name_of(found[self.label]) in numbers
        )

    @property
    def paths(self) -> list[Path]:
        """What is read."""
        return [self.path]


@dataclass(frozen=True)
class JsonLines:
    """A file with a JSON object a line.

    Attributes:
        path: the file.
        texts: keys of the segments.
        label: key of the label.
    """

    path: Path
    texts: tuple[str, ...]
    label: str

    def rows(self, numbers: Mapping[str, int], notes: Counter[str]) -> Iterator[Row]:
        """Its rows; see `Table.rows`.

        Raises:
            InputError: a line is no JSON object with these keys, or its label is unknown.
        """
        for i, line in lines(self.path):
            if not line.strip():
                continue
            try:
                doc = json.loads(line)
                texts = tuple(str(doc[each]) for each in self.texts)
                label = str(doc[self.label])
            except (ValueError, KeyError, TypeError) as error:
                keys = ", ".join((*self.texts, self.label))
                raise InputError(
                    f"Line {i:,} of {self.path.name} is no JSON object with {keys}.",
                    where=f"{self.path}:{i}",
                ) from error
            yield Row(texts, _class(label, numbers, self.path, i))

    @property
    def paths(self) -> list[Path]:
        """What is read."""
        return [self.path]


@dataclass(frozen=True)
class Folders:
    """Folders of text files; the name of a folder is the class of its files.

    Attributes:
        folder: that holds them.
        names: of the folders, in the order in which they are read.
    """

    folder: Path
    names: Sequence[str]

    def rows(self, numbers: Mapping[str, int], notes: Counter[str]) -> Iterator[Row]:
        """A row for each file, in the order of their names; line breaks in HTML become spaces."""
        for path in self.paths:
            with told_as_ours(path):
                raw = path.read_bytes()
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(f"{path.name} is not UTF-8 text.", where=str(path)) from error
            yield Row((text.strip().replace("<br />", " "),), numbers[path.parent.name])

    @property
    def paths(self) -> list[Path]:
        """What is read.

        Raises:
            MissingFiles: a folder is not there, or holds no text.
        """
        found = []
        for name in self.names:
            files = sorted((self.folder / name).glob("*.txt"))
            if not files:
                raise MissingFiles(
                    f"There are no files {name}/*.txt.",
                    where=str(self.folder / name),
                    hint="See --input_data_dir.",
                )
            found += files
        return found


def _name_of(label: str) -> str:
    # XNLI's own files of MultiNLI call it so.
    return "contradiction" if label == "contradictory" else label


def _class(label: str, numbers: Mapping[str, int], path: Path, line: int) -> int:
    name = _name_of(label)
    if name not in numbers:
        raise InputError(
            f"Line {line:,} of {path.name} has the label {label!r}.",
            where=f"{path}:{line}",
            hint=f"Labels are {', '.join(numbers)}.",
            facts={"line": line, "label": label, "labels": list(numbers)},
        )
    return numbers[name]
