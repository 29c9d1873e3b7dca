"""Input files by pattern, output files by name, and the byte ranges that are tokenized apart."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provender.errors import InputError, MissingFiles, SettingsError
from provender.records.atomic import told_as_ours


@dataclass(frozen=True)
class Source:
    """A text file as it is now.

    Attributes:
        path: absolute.
        size: bytes.
        changed: time of the last change, nanoseconds.
    """

    path: str
    size: int
    changed: int


@dataclass(frozen=True)
class Part:
    """A byte range of a text file."""

    path: str
    start: int
    stop: int


def matched(patterns: str | Sequence[str]) -> list[Source]:
    """The files that patterns name: each pattern's in the order of their names, each file once.

    Args:
        patterns: a comma-separated list of files and globs, or several.

    Raises:
        SettingsError: nothing is named.
        MissingFiles: a pattern matches no file.
        InputError: what matches is no file.
    """
    names = split_names(patterns)
    if not names:
        raise SettingsError("No input file is named.", where="--input_file")
    found: dict[str, Source] = {}
    for name in names:
        paths = [name] if os.path.exists(name) else sorted(glob.glob(name))
        if not paths:
            raise MissingFiles(
                f"{name} matches no file.",
                where=name,
                hint=f"The working directory is {Path.cwd()}. In a shell, quote patterns.",
            )
        for each in paths:
            path = os.path.abspath(each)
            with told_as_ours(Path(path)):
                state = os.stat(path)
            if not Path(path).is_file():
                raise InputError(
                    f"{each} is no file.", where=each, hint=f"Name files, as in {each}/*.txt."
                )
            found[path] = Source(path, state.st_size, state.st_mtime_ns)
    return list(found.values())


def split_names(names: str | Sequence[str]) -> list[str]:
    """The entries of a comma-separated list, or of several, without blanks."""
    lists = [names] if isinstance(names, str) else names
    return [each.strip() for every in lists for each in every.split(",") if each.strip()]


def parts_of(sources: Sequence[Source], size: int) -> list[Part]:
    """Divides files into ranges of so many bytes."""
    return [
        Part(each.path, start, min(start + size, each.size))
        for each in sources
        for start in range(0, each.size, size)
    ]


def targets_of(
    names: str | Sequence[str], sources: Sequence[Source], vocabulary: Path | None = None
) -> list[Path]:
    """The output files, whose folders are made if need be.

    Args:
        names: a comma-separated list, or several.
        sources: the input files.
        vocabulary: read as well, if it is given.

    Raises:
        SettingsError: none is named, one is named twice, is a folder or is a file that is read.
        StoreError: a folder cannot be made.
    """
    targets = [Path(os.path.abspath(each)) for each in split_names(names)]
    if not targets:
        raise SettingsError("No output file is named.", where="--output_file")
    inputs = {os.path.realpath(each.path) for each in sources}
    real = [os.path.realpath(each) for each in targets]
    for each, place in zip(targets, real, strict=True):
        if real.count(place) > 1:
            wrong = "is named twice"
        elif each.is_dir():
            wrong = "is a folder; name a file in it"
        elif place in inputs:
            wrong = "is an input file as well"
        elif vocabulary is not None and place == os.path.realpath(vocabulary):
            wrong = "is the vocabulary as well"
        else:
            with told_as_ours(each.parent):
                each.parent.mkdir(parents=True, exist_ok=True)
            continue
        raise SettingsError(f"{each} {wrong}.", where="--output_file")
    return targets
