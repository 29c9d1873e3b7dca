"""Every error Provender raises, as one tree.

Each error carries three facts for the reader: what was wrong (the message), where (``where``:
a file, key, split, URL ...), and what to do next (``hint``). The command line prints all three
and exits with ``exit_code``.

    ProvenderError                 1
    ├── UnknownReference           3   a dataset, version, run ... that does not exist or cannot be read as one
    │   ├── UnknownSplit           3   a split that a dataset does not have
    │   └── MissingPath            3   a path or URL at which there is nothing
    ├── SettingsError              2   provender.toml, environment or option that makes no sense
    ├── BuilderError               4   the builder cannot be loaded, or broke while it ran
    │   ├── ExampleError           4   one example cannot be stored
    │   ├── DuplicateKeyError      4   two examples share one key
    │   └── SplitError             4   a split name or an empty split
    ├── InputError                 4   what comes from outside is missing or wrong
    │   ├── MissingFiles           4   files that were to be read are not there
    │   ├── ManualFilesMissing     4
    │   ├── DownloadError          4
    │   │   └── ChecksumMismatch   4
    │   └── ArchiveError           4
    ├── ConflictError              5   a published number with other content
    ├── DamageError                6   bytes are not what the catalog recorded
    ├── StoreError                 7   the store cannot be reached or written
    │   └── DiskFull               7
    ├── CatalogError               7   the catalog cannot be reached, or is of another revision
    │   └── StatementRefused       2   a statement that the catalog's database refuses
    ├── WorkerDied                 8   a worker process ended without an answer
    └── ChecksFailed               9   a version is not what the project's checks ask for

SettingsError, SplitError and UnknownSplit are a ValueError as well, MissingFiles and MissingPath a
FileNotFoundError, so that code which caught those goes on working.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any


class ProvenderError(Exception):
    """Base of all errors raised on purpose.

    Args:
        message: what was wrong, one sentence, values included.
        where: the file, key, split, URL or option it was found in.
        hint: what to do next, best a command that can be pasted.
        facts: machine-readable detail, shown under ``--json``.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.facts = dict(facts or {})

    def __str__(self) -> str:
        lines = [self.message]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  next:  {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.where, self.hint, self.facts))

    def to_json(self) -> dict[str, Any]:
        """The error as a JSON-ready dict: ``type, message, where, hint, facts``."""
        return {
            "type": type(self).__name__,
            "message": self.message,
            "where": self.where,
            "hint": self.hint,
            "facts": self.facts,
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> ProvenderError:
        """Rebuilds the error that `to_json` described; an unknown type becomes the base class."""
        kind = _by_name().get(doc.get("type", ""), ProvenderError)
        return _rebuild(kind, doc["message"], doc.get("where"), doc.get("hint"), doc.get("facts"))


def _rebuild(
    kind: type[ProvenderError],
    message: str,
    where: str | None,
    hint: str | None,
    facts: Mapping[str, Any] | None,
) -> ProvenderError:
    return kind(message, where=where, hint=hint, facts=facts)


def _by_name() -> dict[str, type[ProvenderError]]:
    found: dict[str, type[ProvenderError]] = {}
    todo: list[type[ProvenderError]] = [ProvenderError]
    while todo:
        kind = todo.pop()
        # A class made while running, of an error's class and a builtin one, has its name.
        found.setdefault(kind.__name__, kind)
        todo.extend(kind.__subclasses__())
    return found


class UnknownReference(ProvenderError):
    """A dataset, version, run or stage that does not exist, or a reference that cannot be parsed."""

    exit_code = 3


class UnknownSplit(UnknownReference, ValueError):
    """A split that a dataset does not have; ``facts['splits']`` names those that it has."""


class _Missing(ProvenderError, FileNotFoundError):
    """What `MissingFiles` and `MissingPath` share: the attributes of an OSError."""

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint, facts=facts)
        self.errno = errno.ENOENT
        self.strerror = os.strerror(errno.ENOENT)
        self.filename = where


class MissingPath(UnknownReference, _Missing):
    """A path or URL at which there is nothing."""


class SettingsError(ProvenderError, ValueError):
    """provender.toml, the environment or an option holds a value that makes no sense."""

    exit_code = 2


class BuilderError(ProvenderError):
    """The builder cannot be loaded, breaks the contract, or raised while it ran."""

    exit_code = 4


class ExampleError(BuilderError):
    """One example cannot be encoded or stored; ``where`` names its key and feature."""


class DuplicateKeyError(BuilderError):
    """Two examples of one split share a key; ``facts`` holds both."""


class SplitError(BuilderError, ValueError):
    """A split name that cannot be used, or a split without examples."""


class InputError(ProvenderError):
    """Something from outside is missing or is not what was expected."""

    exit_code = 4


class MissingFiles(InputError, _Missing):
    """Files that were to be read are not there; ``where`` is the path or pattern."""


class ManualFilesMissing(InputError):
    """Files that people must place in manual_dir are not there; all of them are named."""


class DownloadError(InputError):
    """A URL could not be fetched. ``facts['transient']`` is True where trying again may help."""


class ChecksumMismatch(DownloadError):
    """The bytes fetched are not those registered; ``facts`` holds both size and sha256 pairs."""


class ArchiveError(InputError):
    """An archive is damaged, of an unknown kind, or tries to write outside its folder."""


class ConflictError(ProvenderError):
    """A published version number stands for other content than what would be built now."""

    exit_code = 5


class DamageError(ProvenderError):
    """Bytes in the store are not those that the catalog recorded."""

    exit_code = 6


class StoreError(ProvenderError):
    """The store cannot be reached, read or written."""

    exit_code = 7


class DiskFull(StoreError):
    """No space is left where bytes had to be written."""


class CatalogError(ProvenderError):
    """The catalog cannot be reached, or its schema is older or newer than this code."""

    exit_code = 7


class StatementRefused(CatalogError):
    """A SQL statement that would do more than read, that makes no sense, or that took too long."""

    exit_code = 2


class WorkerDied(ProvenderError):
    """A worker process ended without an answer (killed, out of memory, crashed)."""

    exit_code = 8


class ChecksFailed(ProvenderError):
    """A version that was about to be published fails checks; ``facts`` lists all of them."""

    exit_code = 9
