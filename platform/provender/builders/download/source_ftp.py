"""ftp: one passive transfer, continued with REST (RFC 3659)."""

from __future__ import annotations

import ftplib
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import unquote

from provender.builders.download.source import (
    Opened,
    PartState,
    Permanent,
    Transient,
    UpstreamIdentity,
)
from provender.builders.download.urls import scrub, split_userinfo, url_filename

_CHUNK = 1 << 16


class FtpSource:
    """One ftp URL; without userinfo the login is anonymous.

    Args:
        url: ``ftp://[user:password@]host[:port]/path``, the path percent-encoded.
        timeout: seconds without a byte after which the connection counts as dead.
    """

    def __init__(self, url: str, *, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        bare, self._auth = split_userinfo(url)
        authority, _, path = bare.partition("://")[2].partition("/")
        found = re.fullmatch(r"(\[[^\]]+\]|[^:]*)(?::(\d+))?", authority)
        self._host = found[1].strip("[]") if found else authority
        self._port = int(found[2]) if found and found[2] else ftplib.FTP_PORT
        # A line break would end the command and begin another one of the URL's choosing.
        self._path = "/" + unquote(path)
        if re.search(r"[\r\n]", self._path):
            raise Permanent("the path holds a line break")

    @contextmanager
    def open(self, offset: int, state: PartState | None) -> Iterator[Opened]:
        """See `Source.open`."""
        # The yield stands outside of _errors, which would take the caller's OSErrors for the server's.
        with ExitStack() as stack:
            with self._errors():
                ftp = stack.enter_context(self._connect())
                now = _describe(ftp, self._path)
                token = now.token if now else None
                unchanged = state is not None and token in (None, state.identity)
                start = offset if unchanged else 0
                connection, announced = ftp.ntransfercmd(f"RETR {self._path}", rest=start or None)
                stack.enter_context(connection)
            size = now.size if now else None
            if size is None and announced is not None:
                size = announced + start
            yield Opened(
                start=start,
                size=size,
                identity=token,
                if_range=None,
                resumable=True,
                filename=url_filename(self._url) or None,
                content_type=None,
                chunks=self._chunks(ftp, connection),
            )

    def identity(self) -> UpstreamIdentity | None:
        """See `Source.identity`: SIZE and MDTM."""
        with self._errors(), self._connect() as ftp:
            return _describe(ftp, self._path)

    def _chunks(self, ftp: ftplib.FTP, connection: socket.socket) -> Iterator[bytes]:
        with self._errors():
            while chunk := connection.recv(_CHUNK):
                yield chunk
            connection.close()
            ftp.voidresp()

    @contextmanager
    def _connect(self) -> Iterator[ftplib.FTP]:
        ftp = ftplib.FTP(timeout=self._timeout, encoding="utf-8")  # noqa: S321 - the URL's scheme
        try:
            ftp.connect(self._host, self._port)
            user, password = self._auth or ("", "")
            ftp.login(user, password)
            ftp.voidcmd("TYPE I")
            yield ftp
        finally:
            ftp.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ftplib.error_perm as err:
            hint = None
            if str(err).startswith("530"):
                hint = "The server wants a login: put user:password@ into the URL."
            raise Permanent(scrub(f"FTP: {err}", self._url), hint=hint) from None
        except (OSError, EOFError, ftplib.Error) as err:
            raise Transient(scrub(f"FTP: {err or type(err).__name__}", self._url)) from None


def _describe(ftp: ftplib.FTP, path: str) -> UpstreamIdentity | None:
    """SIZE and MDTM where the server knows them; a file that is missing fails at RETR."""
    try:
        size = ftp.size(path)
        modified = ftp.voidcmd(f"MDTM {path}").split()[-1]
    except ftplib.error_perm as err:
        if str(err).startswith(("500", "502", "504")):
            return None
        raise
    return UpstreamIdentity(f"modified:{modified};size:{size}", size)
