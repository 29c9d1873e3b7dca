"""Files by address: what one is, how it is found, and a reader of ranges of exactly that version."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from provender.errors import StoreError


@dataclass(frozen=True, slots=True)
class DataFile:
    """One version of one file.

    Attributes:
        url: the address: an absolute local path or a URL. It may hold secrets: show `name`.
        size: bytes.
        token: changes whenever the bytes may have changed; "" where nothing tells.
        content: digest of the content where the other side knows one, e.g. ``crc32c:...``; else "".
        options: what fsspec needs to reach it, e.g. credentials; never shown, never fingerprinted.
    """

    url: str
    size: int
    token: str = ""
    content: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The address without secrets."""
        from provender.builders.download.urls import mask_url

        return mask_url(self.url)

    @property
    def stem(self) -> str:
        """The last part of the address, without query."""
        return self.url.split("?", 1)[0].rstrip("/").rpartition("/")[2]


class Pending(Protocol):
    """A read that is on its way."""

    def result(self) -> bytes:
        """Waits for the bytes.

        Raises:
            StoreError, DamageError: see `RangeReader.read`.
        """
        ...

    def cancel(self) -> None:
        """Gives the read up without waiting."""
        ...


class RangeReader(abc.ABC):
    """Reads ranges of one version of a file; may be used by several threads.

    Args:
        file: what is read.
    """

    is_remote = True
    """Whether a read costs a request, so that reading ahead pays."""

    def __init__(self, file: DataFile) -> None:
        self.file = file
        self.size = file.size

    @property
    def name(self) -> str:
        """What to call the file in messages."""
        return self.file.name

    @abc.abstractmethod
    def begin(self, start: int, length: int) -> Pending:
        """Begins to read `length` bytes from byte `start`; there must be as many."""

    def read(self, start: int, length: int) -> bytes:
        """The bytes asked for, all of them.

        Reads that broke go on at the byte where they broke; refusals that may pass are waited out.

        Raises:
            StoreError: the file cannot be read, or is no longer the version it was.
        """
        return self.begin(start, length).result() if length > 0 else b""

    def close(self) -> None:  # noqa: B027 - most readers hold nothing
        """Gives back what the reader holds."""

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def changed(file: DataFile, how: str = "") -> StoreError:
    """The error for a file that is no longer the version that was opened."""
    return StoreError(
        f"The file changed while it was in use{': ' + how if how else ''}.",
        where=file.name,
        hint="Load the dataset again to read the new content; publish versions to keep old ones.",
        facts={"url": file.name, "token": file.token, "size": file.size},
    )


def gone(name: str) -> StoreError:
    """The error for a file that is not there."""
    return StoreError(
        "The file is missing.",
        where=name,
        hint='Put it back, or pass on_error="skip" to go on without it.',
        facts={"missing": name},
    )


def is_missing(error: BaseException) -> bool:
    """Whether an error is one of `gone`."""
    return isinstance(error, StoreError) and "missing" in error.facts


def open_reader(file: DataFile) -> RangeReader:
    """A reader of a file, whatever its address.

    Raises:
        StoreError: it is missing, changed, or cannot be reached.
    """
    from provender.data.sources.access.places import place_of

    return place_of(file.url, file.options).reader(file)
