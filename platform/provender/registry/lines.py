"""Where in a TOML file a key stands: `tomllib` reads values, and forgets their lines."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*\[\[?\s*(?P<path>[^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"\s*(?P<path>[A-Za-z0-9_\-.\"' ]+?)\s*=")
_PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^.\s]+)")


def line_of(source: str, table: tuple[str, ...], key: str | None = None) -> int | None:
    """The line of a key of a table, else of the table, counted from 1.

    Args:
        source: the file's text.
        table: the table's path, e.g. ``("datasets", "own", "airflow")``.
        key: a key of it, or None for the table itself.

    Returns:
        The line, or None where neither is found (it may be written inline).
    """
    wanted = (*table, key) if key else table
    inside: tuple[str, ...] = ()
    best: tuple[int, int] | None = None
    for number, line in enumerate(source.splitlines(), 1):
        if header := _HEADER.match(line):
            path = inside = _parts(header["path"])
        elif found := _KEY.match(line):
            path = (*inside, *_parts(found["path"]))
        else:
            continue
        depth = _common(path, wanted)
        # A key deeper than what is wanted stands in it; one that leaves its path does not.
        if depth == min(len(path), len(wanted)) and (best is None or depth > best[0]):
            best = (depth, number)
    return best[1] if best else None


def _parts(path: str) -> tuple[str, ...]:
    return tuple("".join(each) for each in _PART.findall(path))


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    depth = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        depth += 1
    return depth
