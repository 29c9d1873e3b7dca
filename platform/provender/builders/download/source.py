"""What every place that bytes come from must offer: open at an offset, and say what it is now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from provender.builders.download.urls import scheme_of

if TYPE_CHECKING:
    from provender.builders.download.source_http import HttpSession


@dataclass(frozen=True, slots=True)
class UpstreamIdentity:
    """What tells one state of a URL's content from another without reading the content.

    Attributes:
        token: an entity tag, generation, or modification time with size; equal tokens of one URL
            mean equal bytes as far as upstream promises it.
        size: bytes, where upstream says so.
    """

    token: str
    size: int | None


@dataclass(frozen=True, slots=True)
class PartState:
    """What is known of the content that a partial file holds the beginning of.

    Attributes:
        url: the URL without secrets; a partial file of another URL is never continued.
        identity: `UpstreamIdentity.token`, or None where upstream names none.
        if_range: the HTTP validator for ``If-Range`` (RFC 9110, 13.1.5): a strong entity tag or a
            date; None for other schemes, or where the server sends neither.
        size: bytes of the whole content, where known.
        resumable: whether the bytes stored so far are a prefix of what a later request yields.
    """

    url: str
    identity: str | None
    if_range: str | None
    size: int | None
    resumable: bool


@dataclass(frozen=True, slots=True)
class Opened:
    """An open transfer.

    Attributes:
        start: offset of the first byte of ``chunks``: the offset asked for, or 0 where the source
            could not or would not continue.
        size: bytes of the whole content, where known.
        identity: see `PartState`.
        if_range: see `PartState`.
        resumable: see `PartState`.
        filename: the name upstream gives the content.
        content_type: media type without parameters, lower case.
        chunks: the bytes; raises `Transient` when the connection breaks.
    """

    start: int
    size: int | None
    identity: str | None
    if_range: str | None
    resumable: bool
    filename: str | None
    content_type: str | None
    chunks: Iterator[bytes]


class Source(Protocol):
    """One URL, ready to be read. Its methods raise `Transient` and `Permanent`."""

    def open(self, offset: int, state: PartState | None) -> AbstractContextManager[Opened]:
        """Opens the content at ``offset`` if it still is what ``state`` says, else at 0."""
        ...

    def identity(self) -> UpstreamIdentity | None:
        """The current identity, without reading the content; None where upstream names none."""
        ...


class Transient(Exception):
    """A failure that another try may cure.

    Args:
        reason: what happened, without secrets.
        status: HTTP status, where there was one.
        retry_after: seconds that the server asked to wait.
        restart: the bytes so far are of no use to the next try.
    """

    def __init__(
        self,
        reason: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        restart: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.retry_after = retry_after
        self.restart = restart


class Permanent(Exception):
    """A failure that stays however often it is tried.

    Args:
        reason: what happened, without secrets.
        hint: what the reader can do.
        status: HTTP status, where there was one.
    """

    def __init__(self, reason: str, *, hint: str | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.status = status


def source_for(url: str, session: HttpSession) -> Source:
    """The source that reads a URL's scheme; every scheme without its own goes to fsspec."""
    scheme = scheme_of(url)
    if scheme in ("http", "https"):
        from provender.builders.download.source_http import HttpSource

        return HttpSource(url, session)
    if scheme == "ftp":
        from provender.builders.download.source_ftp import FtpSource

        return FtpSource(url, timeout=session.timeout)
    if scheme == "kaggle":
        from provender.builders.download.source_kaggle import KaggleSource

        return KaggleSource(url)
    from provender.builders.download.source_files import FsspecSource, LocalSource

    return LocalSource(url) if scheme == "file" else FsspecSource(url)
