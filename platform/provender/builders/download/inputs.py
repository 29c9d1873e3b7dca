"""What builders hand to a download manager: nested dicts and lists of URLs, paths and resources.

A ``tfds.download.Resource`` is known by its attributes, so that TFDS need not be imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provender.errors import BuilderError


def leaves(tree: Any) -> Iterator[Any]:
    """The values in a nested structure, depth first, in its order."""
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from leaves(value)
    else:
        yield tree


def map_leaves(fn: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with each value replaced by ``fn(value)``; named tuples stay such."""
    if isinstance(tree, Mapping):
        mapped = {key: map_leaves(fn, value) for key, value in tree.items()}
        return mapped if type(tree) is dict else type(tree)(mapped)  # type: ignore[call-arg]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(fn, value) for value in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(map_leaves(fn, value) for value in tree)
    return fn(tree)


def url_of(leaf: Any) -> str:
    """The URL of a ``str``, a path or a ``Resource``.

    Raises:
        BuilderError: it is none of these.
    """
    if hasattr(leaf, "extract_method"):
        leaf = leaf.url
    if isinstance(leaf, str | os.PathLike):
        return os.fspath(leaf)
    raise _unknown(leaf)


def path_of(leaf: Any) -> Path:
    """The local path of a ``str``, a path or a ``Resource``; errors as `url_of`."""
    if hasattr(leaf, "extract_method"):
        leaf = leaf.path
    if isinstance(leaf, str | os.PathLike):
        return Path(leaf)
    raise _unknown(leaf)


def method_of(leaf: Any) -> Any:
    """How a ``Resource`` says that it is to be unpacked; None where its file name is to tell."""
    # The public property guesses where nothing was said, knowing fewer kinds than this package.
    return getattr(leaf, "_extract_method", None)


@dataclass(frozen=True)
class FileList:
    """The files at or below some paths, sorted, walked anew at each iteration.

    Files and folders whose names begin with a dot or with two underscores are left out.

    Attributes:
        roots: files and folders.
    """

    roots: tuple[Path, ...]

    def __iter__(self) -> Iterator[str]:
        for root in self.roots:
            if root.is_file():
                yield str(root)
                continue
            for where, folders, names in os.walk(root):
                folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
                for name in sorted(names):
                    if not name.startswith((".", "__")):
                        yield os.path.join(where, name)


def _unknown(leaf: Any) -> BuilderError:
    return BuilderError(
        f"{leaf!r} is neither a URL nor a path.",
        where="dl_manager",
        hint="Hand in a str, a path, a tfds.download.Resource, or dicts and lists of these.",
    )
