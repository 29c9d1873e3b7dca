"""What constructor arguments stand for, where that is more than their value.

A builder class says it of its arguments by name:

    class Examples(tfds.core.ShardBasedBuilder):
        ARGUMENTS = {"vocab_file": "file", "source": "version", "dataset": "name"}

``file``
    A file, a pattern, or a list of them; relative to the provender.toml that gives it, else to the
    working directory. It counts by content, wherever it lies. The constructor gets absolute paths,
    a list for a pattern or a list.
``folder``
    A folder, or names of several: ``{"glue/cola" = "data/cola"}``. It counts by the files in it, hidden
    ones left out, by their names within it and their content, wherever it lies. The constructor gets
    absolute paths.
``version``
    A published version, ``name[/config]:number`` or ``name@alias``; without either it is ``latest``.
    It counts by fingerprint, and becomes a parent of what is built. The constructor gets a mapping:
    ``name`` with the number, ``fingerprint``, ``store`` and ``path`` of the files, and ``splits``:
    name -> ``bytes`` and ``shards``, the names of the files, and ``lengths``, their examples. The
    version is leased while a piece of the build is at work. Several have names, as folders do, and the
    constructor gets a mapping of such mappings.
``name``
    What the project calls the dataset, for one class that serves under several names.

Where only the builder's facts are asked for, the constructor gets the arguments as they were written; so it
must not read what they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provender.errors import BuilderError

FILE = "file"
FOLDER = "folder"
VERSION = "version"
NAME = "name"
_KINDS = (FILE, FOLDER, VERSION, NAME)


def arguments_of(cls: type) -> dict[str, str]:
    """What a builder class says of its arguments: argument -> kind.

    Raises:
        BuilderError: it names a kind that does not exist.
    """
    found: Mapping[str, str] = getattr(cls, "ARGUMENTS", {})
    for argument, kind in found.items():
        if kind not in _KINDS:
            raise BuilderError(
                f"ARGUMENTS says that {argument!r} is a {kind!r}.",
                where=f"{cls.__module__}.{cls.__name__}.ARGUMENTS",
                hint=f"There are: {', '.join(_KINDS)}.",
            )
    return dict(found)


def named(cls: type, name: str | None) -> dict[str, Any]:
    """The arguments that give a builder its name, where it asks for one and the project has one."""
    if name is None:
        return {}
    return {argument: name for argument, kind in arguments_of(cls).items() if kind == NAME}
