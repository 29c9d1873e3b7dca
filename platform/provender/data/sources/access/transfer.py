"""Range requests that survive refusals and cut connections, run on fsspec's event loop.

A request is a coroutine on the one loop that fsspec keeps for all its file systems: it needs no
thread of its own, and giving it up cancels it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

from provender.data.sources.access.files import DataFile, changed, gone
from provender.errors import StoreError

RETRIABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT = 60.0

Request = Callable[[Mapping[str, str]], Any]
"""Called with headers, gives an async context manager of an aiohttp response."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often in a row, and after how many seconds, a read without progress is tried again.

    Attributes:
        attempts: tries without one new byte after which it is given up.
        first: seconds before the second try; doubled each time.
        ceiling: most seconds.
    """

    attempts: int = 7
    first: float = 0.25
    ceiling: float = 16.0

    def wait(self, attempt: int, retry_after: str | None = None) -> float:
        """Seconds to wait after failure number `attempt`, from 0; drawn from the upper half."""
        drawn = min(self.ceiling, self.first * 2**attempt) * random.uniform(0.5, 1.0)  # noqa: S311
        if retry_after and retry_after.isdigit():
            return min(_LONGEST_WAIT, max(drawn, float(retry_after)))
        return drawn


RETRY = Retry()


class NoRanges(Exception):
    """The server answers range requests with whole files."""


class LoopPending:
    """A coroutine on its way on the loop.

    Args:
        future: what it will give.
        file: named in errors.
    """

    def __init__(self, future: Future[bytes], file: DataFile) -> None:
        self._future = future
        self._file = file

    def result(self) -> bytes:
        try:
            return self._future.result()
        except CancelledError:
            raise StoreError("The read was given up.", where=self._file.name) from None
        except BaseException:
            self._future.cancel()
            raise

    def cancel(self) -> None:
        self._future.cancel()


def submit(coroutine: Coroutine[Any, Any, bytes], loop: Any, file: DataFile) -> LoopPending:
    """Starts a coroutine on an event loop that runs in another thread."""
    return LoopPending(asyncio.run_coroutine_threadsafe(coroutine, loop), file)


async def ranged(
    request: Request,
    file: DataFile,
    start: int,
    length: int,
    retry: Retry | None = None,
    check: Callable[[Any], None] | None = None,
) -> bytes:
    """The bytes of a range over http; what came before a cut is kept.

    Args:
        request: sends one request.
        file: what is read, for messages and for noticing that it changed.
        start: first byte.
        length: number of bytes, at least 1.
        retry: when to give up; by default `RETRY`.
        check: looks at the headers of each answer and raises where it is another version.

    Raises:
        StoreError: it changed, is missing, or cannot be read.
        NoRanges: the server does not know ranges.
    """
    import aiohttp

    retry = retry or RETRY
    got = bytearray()
    failures = 0
    while len(got) < length:
        before = len(got)
        retry_after: str | None = None
        headers = {
            "Range": f"bytes={start + len(got)}-{start + length - 1}",
            "Accept-Encoding": "identity",
        }
        try:
            async with request(headers) as answer:
                if answer.status in RETRIABLE:
                    retry_after = answer.headers.get("Retry-After")
                    raise aiohttp.ClientPayloadError(f"the server answered {answer.status}")
                await _refuse(answer, file)
                if check is not None:
                    check(answer)
                if answer.status == 200 and (start + len(got) > 0 or length < file.size):
                    raise NoRanges
                async for part in answer.content.iter_any():
                    got += part
                    if len(got) >= length:
                        break
            if len(got) < length:
                raise aiohttp.ClientPayloadError("the connection ended early")
        except (TimeoutError, aiohttp.ClientError, ConnectionError) as error:
            failures = 0 if len(got) > before else failures + 1
            if failures >= retry.attempts:
                raise _given_up(file, start + len(got), retry.attempts, error) from error
            await asyncio.sleep(retry.wait(failures, retry_after))
    return bytes(got[:length])


async def _refuse(answer: Any, file: DataFile) -> None:
    """Raises for an answer that more tries would not better."""
    if answer.status in (200, 206):
        return
    if answer.status in (412, 416):
        raise changed(file, f"the server answered {answer.status}")
    if answer.status == 404:
        raise changed(file, "this version is gone") if file.token else gone(file.name)
    text = ""
    with contextlib.suppress(Exception):
        text = (await answer.text())[:300].strip()
    hint = "Check the address, then load it again."
    if answer.status in (401, 403):
        hint = "Give credentials: storage_options={...}, or those of the environment."
    raise StoreError(
        f"The server refuses the file: {answer.status} {text}".rstrip(), where=file.name, hint=hint
    )


async def repeated(
    attempt: Callable[[], Awaitable[bytes]], file: DataFile, start: int, retry: Retry | None = None
) -> bytes:
    """Tries a read of another file system again while it fails for reasons that may pass.

    Raises:
        StoreError: it is missing, or kept failing.
    """
    retry = retry or RETRY
    for number in range(retry.attempts):
        try:
            return await attempt()
        except FileNotFoundError:
            raise gone(file.name) from None
        except Exception as error:
            if number == retry.attempts - 1 or not may_pass(error):
                raise _given_up(file, start, number + 1, error) from error
        await asyncio.sleep(retry.wait(number))
    raise AssertionError  # the last attempt returned or raised


def may_pass(error: BaseException) -> bool:
    """Whether an error of a file system is worth another try."""
    if isinstance(
        error, (PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
    ):
        return False
    if isinstance(error, (OSError, EOFError, asyncio.TimeoutError)):
        return True
    return type(error).__module__.partition(".")[0] in ("aiohttp", "botocore", "azure", "paramiko")


def _given_up(file: DataFile, at: int, tries: int, error: BaseException) -> StoreError:
    reason = str(error) or type(error).__name__
    return StoreError(
        f"The file cannot be read at byte {at:,} ({tries} tries): {reason}",
        where=file.name,
        hint="Check the connection; a saved state goes on from where it stopped.",
        facts={"byte": at, "cause": type(error).__name__},
    )
