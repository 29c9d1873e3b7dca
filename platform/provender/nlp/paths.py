"""The files that an input path means."""

from __future__ import annotations

import difflib
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from provender.errors import MissingFiles, SettingsError

if TYPE_CHECKING:
    from provender.data.sources.access import DataFile

_LOG = logging.getLogger("provender.nlp")
_MAGIC = re.compile(r"[*?]")
_AT_ONCE = 32
"""Literal paths whose existence is asked for at once."""

_USAGE = (
    "Give a path or a pattern ('data/train-*.tfrecord'), several by commas ('a.tfrecord, "
    "b.tfrecord'), a list of those, or a dict of those by source name."
)


class NoMatch(MissingFiles, ValueError):
    """An input path that stands for no file; a ValueError, too, as such code has always raised."""


@overload
def match_files(value: str | list[str] | tuple[str, ...]) -> list[str]: ...
@overload
def match_files(value: Mapping[str, Any]) -> dict[str, list[str]]: ...
def match_files(value: Any) -> list[str] | dict[str, list[str]]:
    """The files that an input path means, on any fsspec address.

    Only ``*`` and ``?`` make a pattern; brackets and braces are taken literally. The files of a
    pattern come sorted, entries in the order given. A file that is named twice is read twice, and
    a warning says so.

    Args:
        value: a path, a pattern, several of them by commas, a list of those, or a dict of those.

    Returns:
        Addresses, or a dict of them by name in the order of the names.

    Raises:
        NoMatch: a pattern matches nothing, or there is no such file.
        SettingsError: nothing is named, or the value is of another kind.
    """
    if isinstance(value, Mapping):
        return {str(name): match_files(each) for name, each in value.items()}
    return [str(each.url) for each in matching(value)]


def matching(value: str | list[str] | tuple[str, ...]) -> list[DataFile]:
    """The files that an input path without names means, each with its size; see `match_files`."""
    entries = _entries(value)
    literal = [each for each in entries if not _is_pattern(each)]
    there = dict(zip(literal, _literals(literal), strict=True))
    found: list[DataFile] = []
    for each in entries:
        found += [there[each]] if each in there else _glob(each)
    _warn_of_duplicates([each.name for each in found])
    return found


def _is_pattern(entry: str) -> bool:
    # A question mark in a web address begins the query.
    return bool(re.search(r"\*" if entry.startswith(("http://", "https://")) else _MAGIC, entry))


def _entries(value: Any) -> list[str]:
    if isinstance(value, str):
        raw = [value]
    elif isinstance(value, (list, tuple)):
        raw = list(value)
    else:
        raise SettingsError(
            f"An input path cannot be {type(value).__name__}.", where="input_path", hint=_USAGE
        )
    for each in raw:
        if not isinstance(each, str):
            raise SettingsError(
                f"An input path cannot hold {each!r}.", where="input_path", hint=_USAGE
            )
    found = [part.strip() for each in raw for part in each.split(",")]
    found = [each for each in found if each]
    if not found:
        raise SettingsError(
            f"The input path {raw[-1] if raw else value!r} names no file.",
            where="input_path",
            hint=_USAGE,
        )
    return found


def _literals(paths: Iterable[str]) -> list[DataFile]:
    """Files that must be there."""
    from concurrent.futures import ThreadPoolExecutor

    paths = list(paths)
    if len(paths) < 2 or all("://" not in each for each in paths):
        return [_literal(each) for each in paths]
    with ThreadPoolExecutor(min(len(paths), _AT_ONCE)) as pool:
        return list(pool.map(_literal, paths))


def _literal(path: str) -> DataFile:
    from provender.data.sources.access import place_of

    place = place_of(path)
    file = place.stat(path)
    if file is not None:
        return file
    if place.is_folder(path):
        raise NoMatch(f"{path} is a folder.", where=path, hint=f"Write {path.rstrip('/')}/*.")
    raise NoMatch(f"There is no file {path}.", where=path, hint=_beside(path))


def _glob(pattern: str) -> list[DataFile]:
    from provender.data.sources.access import place_of

    # What finds files takes brackets as a set of characters; here they are part of the name.
    found = place_of(pattern).find(pattern.replace("[", "[[]"))
    if not found:
        raise NoMatch(f"{pattern} does not match any files.", where=pattern, hint=_beside(pattern))
    return sorted(found, key=lambda file: str(file.url))


def _beside(path: str) -> str:
    """What lies in the folder, nearest name first: the hint for a path without files."""
    from provender.data.sources.access import place_of

    folder, _, name = path.rpartition("/")
    if not _MAGIC.search(folder):
        try:
            inside = [each.stem for each in place_of(path).find(f"{folder or '.'}/*")]
        except Exception:  # noqa: BLE001 - it only serves the hint
            inside = []
        near = difflib.get_close_matches(name, inside, 3, 0.5) or sorted(inside)[:5]
        if near:
            return f"Beside it there are: {', '.join(near)}."
    return "Check the path: is the folder there, and is it written as the store has it?"


def _warn_of_duplicates(files: list[str]) -> None:
    twice = [name for name, count in Counter(files).items() if count > 1]
    if twice:
        more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
        _LOG.warning(
            "Files that are named more than once are read as often: %s%s.",
            ", ".join(twice[:3]),
            more,
        )
