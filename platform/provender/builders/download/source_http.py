"""http and https: ranged requests that never mix two states of one URL."""

from __future__ import annotations

import email.utils
import logging
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from provender.builders.download import drive
from provender.builders.download.source import (
    Opened,
    PartState,
    Permanent,
    Transient,
    UpstreamIdentity,
)
from provender.builders.download.urls import mask_url, scrub, split_userinfo, url_filename

if TYPE_CHECKING:
    import httpx

_RETRIED_STATUS = frozenset({408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 524})
_HINTS = {
    401: "The server wants a login: put user:password@ into the URL, or place the file in manual_dir.",
    403: "The server refuses access: check the licence or login it asks for, or place the file in manual_dir.",
    404: "Check the address in a browser; if the file has moved, correct the URL in the builder or add a mirror.",
    410: "The file was removed upstream: add a mirror, or place the file in manual_dir.",
}
_IDENTITY_CODINGS = ("", "identity")


class HttpSession:
    """A connection pool shared by the threads of one process; opened at first use.

    Args:
        timeout: seconds without a single byte after which a connection counts as dead.
    """

    def __init__(self, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    @property
    def client(self) -> httpx.Client:
        """The httpx client; proxies and certificates come from the usual environment variables."""
        import httpx

        with self._lock:
            if self._client is None:
                _mask_request_log()
                self._client = httpx.Client(
                    follow_redirects=True,
                    timeout=httpx.Timeout(self.timeout, connect=min(self.timeout, 20.0), pool=None),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
                    headers={"user-agent": "provender", "accept-encoding": "identity"},
                )
            return self._client

    def close(self) -> None:
        """Closes the connections; a later use opens new ones."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def __enter__(self) -> HttpSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _MaskUrls(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                mask_url(str(arg)) if type(arg).__name__ == "URL" else arg for arg in record.args
            )
        return True


def _mask_request_log() -> None:
    # httpx logs each request line with its full URL at INFO, the level orchestrators log at.
    logger = logging.getLogger("httpx")
    if not any(isinstance(known, _MaskUrls) for known in logger.filters):
        logger.addFilter(_MaskUrls())


class HttpSource:
    """One http(s) URL.

    Args:
        url: may hold userinfo, which is sent as basic authentication to its own host only.
        session: the connections to use.
    """

    def __init__(self, url: str, session: HttpSession) -> None:
        self._url = url
        self._bare, self._auth = split_userinfo(url)
        self._session = session

    @contextmanager
    def open(self, offset: int, state: PartState | None) -> Iterator[Opened]:
        """See `Source.open`. 206 continues, 200 starts anew, 416 may mean nothing is left."""
        headers = {}
        if offset and state is not None:
            headers["range"] = f"bytes={offset}-"
            if state.if_range:
                headers["if-range"] = state.if_range
        # What the caller raises while it reads must pass unchanged, so the yield stands outside
        # of _errors; the chunks guard themselves.
        with ExitStack() as stack:
            with self._errors():
                response = stack.enter_context(self._stream("GET", self._bare, headers))
                if drive.is_interstitial(response):
                    target = self._confirm_drive(response)
                    response = stack.enter_context(self._stream("GET", target, headers))
                    if drive.is_interstitial(response):
                        self._confirm_drive(response)
                opened = self._opened(response, offset, state)
            yield opened

    def identity(self) -> UpstreamIdentity | None:
        """See `Source.identity`: HEAD, or a one-byte GET where HEAD is not served."""
        with self._errors():
            with self._stream("HEAD", self._bare, {}) as response:
                if response.status_code == 200:
                    return _identity(response, _content_length(response))
            with self._stream("GET", self._bare, {"range": "bytes=0-0"}) as response:
                self._check_status(response)
                size = _range_total(response) if response.status_code == 206 else None
                return _identity(response, size or _content_length(response))

    @contextmanager
    def _stream(self, method: str, url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        extra: dict[str, Any] = {"auth": self._auth} if self._auth and url == self._bare else {}
        with self._session.client.stream(method, url, headers=headers, **extra) as response:
            yield response

    def _opened(self, response: httpx.Response, offset: int, state: PartState | None) -> Opened:
        if response.status_code == 416 and offset:
            # Nothing lies beyond the offset: either all of it is here, or it has shrunk.
            if state is not None and state.size == offset == _range_total(response):
                return self._describe(response, offset, offset, iter(()), state)
            raise Transient("the server's file has shrunk", status=416, restart=True)
        self._check_status(response)
        if response.status_code == 206:
            start = _range_start(response)
            if start != offset:
                raise Transient(
                    f"the server answered from byte {start} instead of {offset}", restart=True
                )
            return self._describe(
                response, start, _range_total(response), self._raw(response), state
            )
        if response.headers.get("content-encoding", "").lower() not in _IDENTITY_CODINGS:
            # The coding is the transport's, the decoded bytes are the file (and what TFDS's
            # registered checksums are of); offsets into them cannot be asked for.
            return self._describe(response, 0, None, self._decoded(response), None, resumable=False)
        return self._describe(response, 0, _content_length(response), self._raw(response), None)

    def _describe(
        self,
        response: httpx.Response,
        start: int,
        size: int | None,
        chunks: Iterator[bytes],
        state: PartState | None,
        *,
        resumable: bool = True,
    ) -> Opened:
        identity = _identity(response, size)
        validator = _if_range(response)
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Opened(
            start=start,
            size=size if size is not None else (state.size if state else None),
            identity=identity.token if identity else (state.identity if state else None),
            if_range=validator or (state.if_range if state else None),
            resumable=resumable,
            filename=_filename(response, self._url),
            content_type=content_type or None,
            chunks=chunks,
        )

    def _raw(self, response: httpx.Response) -> Iterator[bytes]:
        with self._errors():
            yield from response.iter_raw()

    def _decoded(self, response: httpx.Response) -> Iterator[bytes]:
        with self._errors():
            yield from response.iter_bytes()

    def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if status in (200, 206):
            return
        reason = f"HTTP {status} {response.reason_phrase}".rstrip()
        if status in _RETRIED_STATUS:
            raise Transient(reason, status=status, retry_after=retry_after(response.headers))
        raise Permanent(reason, status=status, hint=_HINTS.get(status))

    def _confirm_drive(self, response: httpx.Response) -> str:
        response.read()
        return drive.confirmed_url(str(response.url), response.text)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.TimeoutException, httpx.NetworkError, httpx.ProtocolError) as err:
            if _is_certificate_error(err):
                raise Permanent(
                    self._describe_error(err),
                    hint="The server's certificate is not trusted: set SSL_CERT_FILE to your authority's bundle.",
                ) from None
            raise Transient(self._describe_error(err)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as err:
            raise Permanent(self._describe_error(err)) from None

    def _describe_error(self, err: Exception) -> str:
        return scrub(f"{type(err).__name__}: {err}".removesuffix(": "), self._url)


def _identity(response: httpx.Response, size: int | None) -> UpstreamIdentity | None:
    if etag := response.headers.get("etag"):
        return UpstreamIdentity(f"etag:{etag}", size)
    if modified := response.headers.get("last-modified"):
        return UpstreamIdentity(f"modified:{modified};size:{size}", size)
    return None


def _if_range(response: httpx.Response) -> str | None:
    etag = response.headers.get("etag", "")
    if etag.startswith('"'):
        return etag
    return response.headers.get("last-modified")


def _content_length(response: httpx.Response) -> int | None:
    text = response.headers.get("content-length", "")
    return int(text) if text.isdigit() else None


def _range_start(response: httpx.Response) -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
    return int(found[1]) if found else None


def _range_total(response: httpx.Response) -> int | None:
    found = re.search(r"/(\d+)$", response.headers.get("content-range", ""))
    return int(found[1]) if found else None


def _filename(response: httpx.Response, url: str) -> str | None:
    """The name in Content-Disposition (RFC 6266: ``filename*`` first), else the URL's.

    The URL as written comes before the one that redirects led to: that is often a name of the day
    in some delivery network. It must look like a file's name, though.
    """
    disposition = response.headers.get("content-disposition", "")
    if found := re.search(r"filename\*\s*=\s*([\w-]*)'[^']*'([^;\s]+)", disposition, re.IGNORECASE):
        try:
            return unquote(found[2], encoding=found[1] or "utf-8")
        except LookupError:
            pass
    if found := re.search(
        r"filename\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^;\s]+))", disposition, re.IGNORECASE
    ):
        return next(name for name in found.groups() if name is not None) or None
    written = url_filename(url)
    return written if "." in written else (url_filename(str(response.url)) or written or None)


def retry_after(headers: httpx.Headers) -> float | None:
    """Seconds asked for by a Retry-After header, given as seconds or as a date (RFC 9110, 10.2.3)."""
    text = headers.get("retry-after", "").strip()
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _is_certificate_error(err: BaseException | None) -> bool:
    while err is not None:
        if isinstance(err, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY" in str(err):
            return True
        err = err.__cause__ or err.__context__
    return False
