"""One URL to one file: continued where it stopped, tried again where that helps, checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from provender.builders.download.checksums import Checksum, mismatch
from provender.builders.download.disk import disk_errors, ensure_space
from provender.builders.download.html import refuse_html
from provender.builders.download.part import PartFile
from provender.builders.download.retry import Backoff, Cancelled, sleep
from provender.builders.download.source import (
    Opened,
    PartState,
    Permanent,
    Source,
    Transient,
    UpstreamIdentity,
    source_for,
)
from provender.builders.download.source_http import HttpSession
from provender.builders.download.urls import mask_url, public_url, safe_filename, url_filename
from provender.errors import DownloadError

Progress = Callable[[str, int, "int | None"], None]
"""Called with the masked URL, the bytes so far, and the total where known."""

_PROGRESS_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that arrived.

    Attributes:
        url: the URL asked for, without secrets.
        path: the file.
        sha256: hex digest of its content.
        size: bytes.
        filename: the name upstream gives it, made safe; not where it was put.
        identity: `UpstreamIdentity.token` of the content, or None.
        resumed_bytes: bytes that an earlier process had already brought.
        via: the masked URL that the bytes came from.
    """

    url: str
    path: Path
    sha256: str
    size: int
    filename: str
    identity: str | None
    resumed_bytes: int
    via: str

    @property
    def checksum(self) -> Checksum:
        """Size, digest and name, as a checksum file keeps them."""
        return Checksum(self.sha256, self.size, self.filename)


def fetch(
    url: str,
    dest: Path,
    *,
    expected: Checksum | None = None,
    dataset: str = "NAME",
    progress: Progress | None = None,
    retries: int = 6,
    timeout: float = 60.0,
    backoff: float = 0.5,
    session: HttpSession | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Fetched:
    """Fetches a URL into a file that appears whole and checked, or not at all.

    A killed or broken transfer leaves ``<dest>.part`` and ``<dest>.part.json``; the next call goes
    on from there if upstream still serves the same content, and starts anew if not. One caller at
    a time per ``dest``.

    Args:
        url: http, https, ftp, file, kaggle or any scheme that fsspec knows, or a plain path.
        dest: the file to make; its folder is made too.
        expected: refuse any other content.
        dataset: named in the command that a checksum mismatch suggests.
        progress: see `Progress`; called at most ten times a second and at the end.
        retries: tries in a row without a new byte before giving up.
        timeout: seconds without a byte after which a connection counts as dead.
        backoff: seconds before the first retry, then doubled.
        session: connections to share with other calls; by default the call has its own.
        cancelled: asked between blocks; True ends the call with `Cancelled`, the part stays.

    Raises:
        DownloadError: the URL cannot be had; ``facts["transient"]`` tells whether later may help.
        ChecksumMismatch: the content is not ``expected``.
        DiskFull: no space; the part stays for the next call.
        StoreError: ``dest`` cannot be written.
    """

    def judge(got: Checksum) -> None:
        if expected is not None and not expected.matches(got):
            raise mismatch(url, expected, got, dataset)

    return transfer(
        url,
        dest,
        expected=expected,
        judge=judge,
        progress=progress,
        backoff=Backoff(retries=retries, base=backoff),
        timeout=timeout,
        session=session,
        cancelled=cancelled,
    )


def transfer(
    url: str,
    dest: Path,
    *,
    expected: Checksum | None = None,
    judge: Callable[[Checksum], None] | None = None,
    progress: Progress | None = None,
    backoff: Backoff,
    timeout: float = 60.0,
    session: HttpSession | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Fetched:
    """As `fetch`, but what to do about content other than ``expected`` is left to the caller.

    ``expected`` still helps: a continued part that does not come out right is fetched anew, and a
    web page in place of the file is recognised. ``judge`` sees the checksum before the file takes
    its place; when it raises, the file is thrown away.
    """
    active = session or HttpSession(timeout)
    try:
        with _reported(url):
            source = source_for(url, active)
            return _Transfer(url, dest, source, expected, progress, backoff, cancelled).run(judge)
    finally:
        if session is None:
            active.close()


def probe(
    url: str, *, timeout: float = 20.0, session: HttpSession | None = None
) -> UpstreamIdentity | None:
    """What a URL's content is now, without reading it: one small request.

    Returns:
        The identity, whose token equals that of a fetch of the same content; None where upstream
        answers but names none.

    Raises:
        DownloadError: the URL cannot be reached, or is gone.
    """
    active = session or HttpSession(timeout)
    backoff, failures = Backoff(retries=2), 0
    try:
        with _reported(url):
            source = source_for(url, active)
            while True:
                try:
                    return source.identity()
                except Transient as err:
                    failures += 1
                    delay = backoff.delay(failures, err.retry_after)
                    if delay is None:
                        raise
                    sleep(delay, None)
    finally:
        if session is None:
            active.close()


@contextmanager
def _reported(url: str) -> Iterator[None]:
    """Turns the verdicts of sources into errors for people."""
    shown = mask_url(url)
    try:
        yield
    except Permanent as err:
        raise DownloadError(
            f"{shown} cannot be fetched: {err.reason}.",
            where=shown,
            hint=err.hint,
            facts={"url": public_url(url), "status": err.status, "transient": False},
        ) from None
    except Transient as err:
        wait = "" if err.retry_after is None else f", asked to wait {err.retry_after:.0f} s"
        raise DownloadError(
            f"{shown} could not be fetched, also not when tried again: {err.reason}{wait}.",
            where=shown,
            hint="Run the same command again later: it goes on where it stopped.",
            facts={"url": public_url(url), "status": err.status, "transient": True},
        ) from None


class _Transfer:
    """The tries that bring one URL into one partial file, and the file into its place."""

    def __init__(
        self,
        url: str,
        dest: Path,
        source: Source,
        expected: Checksum | None,
        progress: Progress | None,
        backoff: Backoff,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self._url = url
        self._dest = dest
        self._source = source
        self._expected = expected
        self._progress = progress
        self._backoff = backoff
        self._cancelled = cancelled
        self._shown = mask_url(url)
        self._part = PartFile(dest, public_url(url), trust_unversioned=expected is not None)
        self._resumed = self._part.size
        self._continued = False
        self._filename = ""
        self._last_report = 0.0

    def run(self, judge: Callable[[Checksum], None] | None) -> Fetched:
        """Tries until the file is there, or until trying again does not help."""
        try:
            self._try_until_complete()
        except Permanent:
            if not self._part.size:
                self._part.discard()
            raise
        got = Checksum(self._part.sha256, self._part.size)
        if self._expected and not self._expected.matches(got) and self._continued:
            # The part may have been of other content than upstream's validators made believe.
            self._part.reset()
            self._try_until_complete()
            got = Checksum(self._part.sha256, self._part.size)
        if judge is not None:
            try:
                judge(got)
            except BaseException:
                self._part.discard()
                raise
        state, size, sha256 = self._part.state, self._part.size, self._part.sha256
        self._part.finish(self._dest)
        self._report(size, size, last=True)
        return Fetched(
            url=public_url(self._url),
            path=self._dest,
            sha256=sha256,
            size=size,
            filename=safe_filename(self._filename or url_filename(self._url)),
            identity=state.identity if state else None,
            resumed_bytes=self._resumed,
            via=self._shown,
        )

    def _try_until_complete(self) -> None:
        failures, furthest = 0, self._part.size
        while True:
            try:
                self._attempt()
            except Transient as err:
                if err.restart:
                    self._part.reset()
                failures = 1 if self._part.size > furthest else failures + 1
                furthest = max(furthest, self._part.size)
                delay = self._backoff.delay(failures, err.retry_after)
                if delay is None:
                    raise
                sleep(delay, self._cancelled)
            else:
                return

    def _attempt(self) -> None:
        offset = self._part.resume_offset()
        with self._source.open(offset, self._part.state) as opened:
            self._continued = opened.start > 0
            if not self._continued:
                self._part.reset()
                self._resumed = 0
            elif not _is_continuation(opened, self._part.state):
                raise Transient("the file has changed upstream", restart=True)
            self._part.describe(
                PartState(
                    url=public_url(self._url),
                    identity=opened.identity,
                    if_range=opened.if_range,
                    size=opened.size,
                    resumable=opened.resumable,
                )
            )
            self._filename = opened.filename or self._filename
            if opened.size is not None:
                ensure_space(self._part.path, opened.size - self._part.size)
            self._receive(opened)
        if opened.size is not None and self._part.size != opened.size:
            raise Transient(
                f"the connection ended after {self._part.size:,} of {opened.size:,} bytes",
                restart=self._part.size > opened.size,
            )

    def _receive(self, opened: Opened) -> None:
        with disk_errors(self._part.path, opened.size), self._part.path.open("ab") as file:
            for chunk in opened.chunks:
                if self._cancelled and self._cancelled():
                    raise Cancelled
                if not self._part.size:
                    refuse_html(self._url, opened, chunk, self._expected)
                self._part.append(chunk, file)
                self._report(self._part.size, opened.size)

    def _report(self, done: int, total: int | None, *, last: bool = False) -> None:
        now = time.monotonic()
        if self._progress and (last or now - self._last_report >= _PROGRESS_SECONDS):
            self._last_report = now
            self._progress(self._shown, done, total)


def _is_continuation(opened: Opened, state: PartState | None) -> bool:
    """Whether a partial answer is of the content the part began with; servers may ignore If-Range."""
    return state is not None and (
        opened.identity == state.identity and (state.size is None or opened.size == state.size)
    )
