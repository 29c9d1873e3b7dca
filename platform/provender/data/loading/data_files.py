"""Which files belong to which split: names, globs, braces, lists, and what file names tell."""

from __future__ import annotations

import difflib
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provender.builders.download.urls import mask_url
from provender.data.sources.access import DataFile, place_of
from provender.errors import InputError, MissingFiles, MissingPath
from provender.store.paths import split_scheme

DataFiles = str | os.PathLike[str] | Sequence[Any] | Mapping[str, Any]
Splits = dict[str, list[DataFile]]

DEFAULT_SPLIT = "train"
MOST_BRACES = 1_000_000
_KEYWORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SEPARATORS = r"[-._ 0-9]"
_SHARDED = re.compile(r"(?:.*/)?data/(\w+(?:\.\w+)*)-[0-9]{5}-of-[0-9]{5}[^/]*\.[^/]*")
_IGNORED = {
    "README.md", "config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json",
    "dummy_data.zip", "features.json", "state.json", "checksums.tsv",
}  # fmt: skip


def resolve(
    data_files: DataFiles,
    base: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Splits:
    """The files of each split.

    Args:
        data_files: a path, URL, glob or list of them (all of it is the split ``train``), or a dict
            of those by split name. ``{a,b}`` and ``{00..63}`` are written out.
        base: folder that relative ones are looked for in.
        options: arguments for fsspec (``storage_options``).

    Raises:
        MissingFiles: something matches no file.
        InputError: nothing was named.
    """
    if isinstance(data_files, Mapping):
        if not data_files:
            raise InputError("No data files were given.", where="data_files")
        return {str(split): _files(each, base, options or {}) for split, each in data_files.items()}
    return {DEFAULT_SPLIT: _files(data_files, base, options or {})}


def _files(given: Any, base: str | None, options: Mapping[str, Any]) -> list[DataFile]:
    patterns = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    found: dict[str, DataFile] = {}
    for pattern in patterns:
        for each in expand_braces(_joined(base, os.fspath(pattern))):
            for file in _matches(each, options):
                found.setdefault(file.url, file)
    if not found:
        raise InputError("No data files were given.", where="data_files")
    return list(found.values())


def _joined(base: str | None, pattern: str) -> str:
    absolute = "://" in pattern or pattern.startswith(("/", "~"))
    if base is None or absolute:
        return pattern
    return f"{base.rstrip('/')}/{pattern}"


def _matches(pattern: str, options: Mapping[str, Any]) -> list[DataFile]:
    place = place_of(pattern, options)
    found = place.find(pattern)
    if len(found) > 1 or (found and found[0].url != pattern):
        visible = [file for file in found if not _hidden(file.url, pattern)]
        found = visible or found
    if not found and place.is_folder(pattern):
        found = list(_below(pattern, options))
    if not found:
        raise _nothing(pattern, options)
    return found


def _nothing(pattern: str, options: Mapping[str, Any]) -> MissingFiles:
    """The error for a pattern without files, with what lies beside them."""
    folder, _, name = pattern.rpartition("/")
    near: list[str] = []
    if not re.search(r"[*?\[]", folder):
        try:
            beside = [file.stem for file in place_of(pattern, options).find(f"{folder or '.'}/*")]
            near = difflib.get_close_matches(name, beside, 3, 0.5) or sorted(beside)[:5]
        except Exception:  # noqa: BLE001 - it only serves the hint
            near = []
    return MissingFiles(
        "No file matches.",
        where=mask_url(pattern),
        hint=f"Beside it there are: {', '.join(near)}." if near else "Check the path.",
        facts={"pattern": mask_url(pattern), "near": near},
    )


def expand_braces(pattern: str) -> list[str]:
    """Writes ``{a,b}`` and ``{000..063}`` out; nested ones too.

    >>> expand_braces("part-{08..10}.{csv,tsv}")[:3]
    ['part-08.csv', 'part-08.tsv', 'part-09.csv']

    Raises:
        InputError: a range of more than a million names.
    """
    start = pattern.find("{")
    while start >= 0:
        end = _closing(pattern, start)
        if end > 0:
            options = _alternatives(pattern[start + 1 : end])
            if options is not None:
                head = pattern[:start]
                tails = expand_braces(pattern[end + 1 :])
                inner = [each for option in options for each in expand_braces(option)]
                return [f"{head}{each}{tail}" for each in inner for tail in tails]
        start = pattern.find("{", start + 1)
    return [pattern]


def _closing(pattern: str, start: int) -> int:
    depth = 0
    for at in range(start, len(pattern)):
        depth += {"{": 1, "}": -1}.get(pattern[at], 0)
        if depth == 0:
            return at
    return -1


def _alternatives(inner: str) -> list[str] | None:
    """What stands between braces: names by commas, or a range of numbers; None for neither."""
    span = re.fullmatch(r"(\d+)\.\.(\d+)", inner)
    if span:
        low, high = int(span[1]), int(span[2])
        if abs(high - low) > MOST_BRACES:
            raise InputError(f"{{{inner}}} stands for too many names.", where="data_files")
        width = len(span[1]) if span[1].startswith("0") else 0
        step = 1 if high >= low else -1
        return [str(number).zfill(width) for number in range(low, high + step, step)]
    parts, depth, last = [], 0, 0
    for at, char in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(inner[last:at])
            last = at + 1
    return [*parts, inner[last:]] if parts else None


def in_folder(folder: str, options: Mapping[str, Any] | None = None) -> Splits:
    """The data files of a folder by split, as their names and those of folders tell.

    The first rule that some file follows counts for all: ``data/SPLIT-00000-of-00002.ext``; a
    folder named train, validation or test (or training, valid, dev, val, testing, eval,
    evaluation), alone or followed by a separator or digit; such a word in a file's name, between
    separators; else every file is ``train``.

    Raises:
        MissingFiles: there is no data file.
    """
    files = _below(folder, options or {})
    prefix = len(_normal(folder)) + 1
    names = {file.url: file.url[prefix:] for file in files}
    for rule in (_by_shard_name, _by_folder, _by_name):
        splits: Splits = {}
        for file in files:
            split = rule(names[file.url])
            if split:
                splits.setdefault(split, []).append(file)
        if splits:
            order = [*_KEYWORDS, *sorted(set(splits) - set(_KEYWORDS))]
            return {name: splits[name] for name in order if name in splits}
    if not files:
        raise MissingFiles(
            "The folder holds no data files.",
            where=mask_url(folder),
            hint="Hidden files and README.md do not count.",
        )
    return {DEFAULT_SPLIT: files}


def _below(folder: str, options: Mapping[str, Any]) -> list[DataFile]:
    found = place_of(folder, options).find(f"{folder.rstrip('/')}/**")
    return [file for file in found if not _hidden(file.url, folder) and file.stem not in _IGNORED]


def _hidden(url: str, below: str) -> bool:
    """Whether a name, or a folder that the pattern does not name, begins with ``.`` or ``__``."""
    named = set(below.split("/"))
    parts = [part for part in url.split("://", 1)[-1].split("/") if part not in named]
    return any(part.startswith((".", "__")) for part in parts if part not in ("", ".", ".."))


def _normal(folder: str) -> str:
    scheme, _ = split_scheme(folder)
    if scheme == "file":
        from provender.data.sources.access.local import local_path

        return local_path(folder)
    return folder.rstrip("/")


def _by_shard_name(name: str) -> str | None:
    found = _SHARDED.fullmatch(name)
    return found[1] if found else None


def _by_folder(name: str) -> str | None:
    for part in posixpath.dirname(name).split("/"):
        for split, words in _KEYWORDS.items():
            if any(
                re.fullmatch(rf"(?:.*{_SEPARATORS})?{word}(?:{_SEPARATORS}.*)?", part)
                for word in words
            ):
                return split
    return None


def _by_name(name: str) -> str | None:
    base = posixpath.basename(name)
    for split, words in _KEYWORDS.items():
        if any(re.fullmatch(rf"(?:.*{_SEPARATORS})?{word}{_SEPARATORS}.*", base) for word in words):
            return split
    return None


def all_files(splits: Mapping[str, Sequence[DataFile]]) -> Iterator[DataFile]:
    """Every file of every split."""
    for files in splits.values():
        yield from files


def no_folder(path: str) -> MissingPath:
    """The error for a path at which there is nothing."""
    return MissingPath(
        "There is no such file or folder.",
        where=mask_url(path),
        hint="Check the path, or give a format's name.",
    )
