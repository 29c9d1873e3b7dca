"""Downloads from Google Cloud Storage that touch every byte once.

The event loop of gcsfs gathers an answer in pieces of a few KiB and joins them, which costs a client more
than all that is done with the bytes afterwards. Here they go from the socket to where they are wanted.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode, urlsplit

from provender.store.faults import guarded

if TYPE_CHECKING:
    from provender.store.gcs_filesystem import Filesystem

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0
_IDLE = 16
_WHOLE, _PARTIAL = 200, 206


class Downloads:
    """The connections of one file system for downloads, kept for the next.

    Args:
        fs: gives credentials, and says how often to try.
    """

    def __init__(self, fs: Filesystem) -> None:
        self.fs = fs
        self._idle: list[http.client.HTTPConnection] = []

    @staticmethod
    def serve(fs: Filesystem) -> bool:
        """Whether connections of its own are right for a file system.

        Not where the user set up gcsfs's sessions (proxies, certificates, connectors).
        """
        return not fs.session_kwargs and not getattr(fs, "_use_client_cert", False)

    def ask(
        self, url: str, headers: dict[str, str]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Sends a GET; returns the connection and the answer, of which the body is to be read.

        Raises:
            ConnectionError: there is no answer.
        """
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}"
        while True:
            kept = self._kept()
            connection = kept or _connection(parts.scheme, parts.netloc)
            try:
                if kept is None:
                    connection.connect()
                    cast("socket.socket", connection.sock).settimeout(_READ_SECONDS)
                connection.request("GET", target, headers=headers)
                return connection, connection.getresponse()
            except (OSError, http.client.HTTPException) as exc:
                connection.close()
                # The service closes connections that were idle for long; that is no failure.
                if kept is None:
                    raise ConnectionError(str(exc) or type(exc).__name__) from exc

    def _kept(self) -> http.client.HTTPConnection | None:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        return None

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Takes back a connection whose answer was read to its end."""
        if len(self._idle) < _IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def __del__(self) -> None:
        # At the end of the process modules may be gone, so nothing of theirs is used.
        while self._idle:
            self._idle.pop().close()


def _connection(scheme: str, host: str) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, timeout=_CONNECT_SECONDS)
    return http.client.HTTPConnection(host, timeout=_CONNECT_SECONDS)


class MediaRange:
    """A range of one generation of an object, read in order.

    A read that is refused for a while or cut off goes on at the byte where it broke; it is given up
    after as many attempts in a row without a new byte as the file system's `Retry` allows.

    Args:
        downloads: the connections.
        url: of the object's media, without a query.
        generation: the one that is meant.
        start: first byte.
        length: number of bytes.
        where: the object's address, for messages.
    """

    def __init__(
        self, downloads: Downloads, url: str, generation: str, start: int, length: int, where: str
    ) -> None:
        self._downloads = downloads
        self._url = url
        self._generation = generation
        self._at = start
        self._end = start + length
        self._where = where
        self._connection: http.client.HTTPConnection | None = None
        self._answer: http.client.HTTPResponse | None = None
        self._retry_after: str | None = None

    def readinto(self, buffer: memoryview, /) -> int:
        """Fills the buffer, or what of it the range fills; returns 0 at the range's end.

        Raises:
            FileNotFoundError: the object was replaced or removed.
            StoreError: it cannot be read.
        """
        if self._at >= self._end:
            return 0
        with guarded("read", self._where):
            count = self._persistently(buffer[: self._end - self._at])
        self._at += count
        if self._at >= self._end:
            self._finish()
        return count

    def close(self) -> None:
        """Ends the read; a connection in the middle of an answer is closed."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._answer = None

    def _finish(self) -> None:
        if self._connection is not None and self._answer is not None and self._answer.isclosed():
            self._downloads.keep(self._connection)
            self._connection = self._answer = None
        self.close()

    def _persistently(self, buffer: memoryview) -> int:
        from provender.store.gcs_filesystem import is_transient

        retry, attempt = self._downloads.fs.retry, 0
        while True:
            self._retry_after = None
            try:
                if self._answer is None:
                    self._ask()
                return self._some(buffer)
            except Exception as exc:
                self.close()
                if attempt == retry.attempts - 1 or not is_transient(exc):
                    raise
            time.sleep(retry.wait(attempt, self._retry_after))
            attempt += 1

    def _ask(self) -> None:
        """Asks for what is still missing."""
        from gcsfs.retry import validate_response

        from provender.store.gcs_filesystem import RETRIABLE, refusal

        fs = self._downloads.fs
        params = fs._get_params({"alt": "media", "generation": self._generation})
        headers = {"Range": f"bytes={self._at}-{self._end - 1}", "Accept-Encoding": "identity"}
        found = self._downloads.ask(f"{self._url}?{urlencode(params)}", fs._get_headers(headers))
        self._connection, answer = found
        if answer.status == _PARTIAL or (answer.status == _WHOLE and self._at == 0):
            self._answer = answer
            return
        self._retry_after = answer.headers.get("Retry-After")
        body = _body(answer)
        if answer.status in RETRIABLE:
            raise refusal(answer.status, body)
        validate_response(answer.status, body, self._url)
        message = f"the service answered {answer.status} when it was asked for a range"
        raise ConnectionError(message)

    def _some(self, buffer: memoryview) -> int:
        assert self._answer is not None
        try:
            count = self._answer.readinto(buffer)
        except (OSError, http.client.HTTPException) as exc:
            raise ConnectionError(str(exc) or type(exc).__name__) from exc
        if not count:
            message = f"the connection ended {self._end - self._at:,} bytes early"
            raise ConnectionError(message)
        return count


def _body(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read()
    except (OSError, http.client.HTTPException) as exc:
        raise ConnectionError(str(exc) or type(exc).__name__) from exc
