"""Store URLs and the relative paths under them, taken literally.

Names are never globbed and never URL-decoded: ``a b``, ``#1``, ``%41``, ``x=[ab]*`` and non-ASCII
names mean exactly what they say on every backend.
"""

# Paths are plain strings here: pathlib costs more than the system call, and URLs are no Paths.
# ruff: noqa: PTH111

from __future__ import annotations

import os
import re

from provender.errors import StoreError

INCOMING = ".incoming"
"""Top-level folder of a local store for files still being written; no name may begin with it."""

_URL = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+)://")
_LOCAL_SCHEMES = ("file", "local")


def split_scheme(url: str) -> tuple[str, str]:
    """Splits a store URL into (scheme, rest); a plain path has the scheme ``file``.

    >>> split_scheme("gs://bucket/a#b")
    ('gs', 'bucket/a#b')
    """
    match = _URL.match(url)
    if match is None:
        return "file", url
    scheme = match[1].lower()
    return ("file" if scheme in _LOCAL_SCHEMES else scheme), url[match.end() :]


def check_rel(rel: str) -> str:
    """Returns `rel` when it names something inside a store.

    Raises:
        StoreError: for an empty or absolute path, empty or dot components, control characters
            that some backend cannot hold, and the store's own folder for unfinished files.
    """
    parts = rel.split("/")
    if "" in parts or "." in parts or ".." in parts:
        raise _bad(rel, "it must be relative, without empty, '.' or '..' components")
    if "\0" in rel or "\n" in rel or "\r" in rel:
        raise _bad(rel, "it must not hold NUL or line breaks")
    if INCOMING in rel and any(part.startswith(INCOMING) for part in parts):
        raise _bad(rel, f"names in {INCOMING} are kept for files that are being written")
    return rel


def check_directory(rel: str) -> str:
    """Like `check_rel`, but "" is the root of the store."""
    return check_rel(rel) if rel else rel


def join(*parts: str) -> str:
    """Joins parts of a relative path; empty parts vanish."""
    return "/".join(part for part in parts if part)


def local_root(path: str) -> str:
    """The absolute form of a local store's root; ``~`` is the home directory."""
    return os.path.abspath(os.path.expanduser(path))


def _bad(rel: str, why: str) -> StoreError:
    message = f"{rel!r} cannot name a file in a store: {why}"
    return StoreError(message, where=rel, hint="use a path such as datasets/name/1.0.0/file")
