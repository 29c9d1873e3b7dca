"""The bytes of a remote file in order, while several ranges of it are on their way.

Whoever holds the range whose turn it is hands its bytes on as they arrive, in pieces that stay in a core's
cache from the socket to the last one who looks at them. The others gather theirs in memory until it is
their turn. So nothing is copied between threads.

A read begins with one range. Others are asked for as soon as it is seen to wait more than it works: where
the network is the faster side, they would only push each other out of the caches.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

STEP = 256 << 10
"""Bytes handed on at once: a part of the second-level cache of a core."""


class Source(Protocol):
    """A range of a file, read from its beginning to its end."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fills at most `buffer`; returns how many bytes, 0 only at the end."""

    def close(self) -> None:
        """Ends the read."""


OpenRange = Callable[[int, int], Source]
"""``open(start, length)`` of one fixed version of a remote file."""

Take = Callable[[memoryview], None]
"""Called with the next bytes; the view is only good for the call."""


def in_flight() -> int:
    """Ranges of one file to ask for at once: machines with more cores have more network, too."""
    return min(4, max(2, os.cpu_count() or 1))


class _Clock:
    """How much of its time the thread that made it has spent on work."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._worked = time.thread_time()

    def waits(self) -> bool:
        """Whether it was less than half."""
        passed = time.perf_counter() - self._begun
        return time.thread_time() - self._worked < passed / 2


class Relay:
    """One read of the bytes from `start` to `end`.

    Args:
        open_range: opens a range.
        start: first byte.
        end: the byte after the last.
        block: bytes of a range; as many are gathered at most for each range in flight but one.
        take: gets the bytes in order, from one thread at a time.
        at_once: ask for several ranges from the beginning: opening one waits for all of it.
    """

    def __init__(
        self,
        open_range: OpenRange,
        start: int,
        end: int,
        block: int,
        take: Take,
        at_once: bool = False,
    ) -> None:
        self._open = open_range
        self._end = end
        self._block = min(block, max(end - start, 1))
        self._take = take
        self._starts = iter(range(start, end, block))
        self._helpers = [
            threading.Thread(target=self._help, name="provender-read", daemon=True)
            for _ in range(min(in_flight(), -(-(end - start) // block)) - 1)
        ]
        self._at_once = at_once
        self._alone = True
        self._position = start
        self._turn = threading.Condition()
        self._stopped = False
        self._error: BaseException | None = None

    def run(self) -> int:
        """Reads; returns the position after the last byte, before `end` if the file is shorter.

        Raises:
            Exception: what opening, reading or `take` raised first.
        """
        try:
            if self._at_once:
                self._call_helpers()
            self._work(_Clock())
        except BaseException:
            self._stop()
            raise
        finally:
            for helper in self._helpers:
                if helper.ident is not None:
                    helper.join()
        if self._error is not None:
            raise self._error
        return self._position

    def _call_helpers(self) -> None:
        if self._alone:
            self._alone = False
            for helper in self._helpers:
                helper.start()

    def _help(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._stop(error)

    def _stop(self, error: BaseException | None = None) -> None:
        with self._turn:
            self._stopped = True
            self._error = self._error or error
            self._turn.notify_all()

    def _next(self) -> int | None:
        with self._turn:
            return None if self._stopped else next(self._starts, None)

    def _work(self, clock: _Clock | None = None) -> None:
        # Memory of a map is given only where it is touched; of most ranges it is the first step.
        buffer = memoryview(mmap.mmap(-1, self._block))
        while (start := self._next()) is not None:
            length = min(self._block, self._end - start)
            with contextlib.closing(self._open(start, length)) as source:
                held = self._gather(source, buffer[:length], start)
                if not self._comes(start):
                    return
                for at in range(0, held, STEP):
                    self._take(buffer[at : min(at + STEP, held)])
                done = held + self._pass_on(source, buffer[:STEP], length - held, clock)
            self._leave(start + done, short=done < length)

    def _gather(self, source: Source, buffer: memoryview, start: int) -> int:
        """Fills the buffer until it is this range's turn, or all is stopped."""
        held = 0
        while held < len(buffer) and self._position != start and not self._stopped:
            count = source.readinto(buffer[held : held + STEP])
            if not count:
                break
            held += count
        return held

    def _pass_on(
        self, source: Source, buffer: memoryview, length: int, clock: _Clock | None
    ) -> int:
        done = 0
        while done < length and not self._stopped:
            count = source.readinto(buffer[: length - done])
            if not count:
                break
            self._take(buffer[:count])
            done += count
            if clock is not None and self._alone and clock.waits():
                self._call_helpers()
        return done

    def _comes(self, start: int) -> bool:
        """Waits for the range's turn; False if all is stopped."""
        with self._turn:
            self._turn.wait_for(lambda: self._stopped or self._position == start)
            return not self._stopped

    def _leave(self, position: int, short: bool) -> None:
        with self._turn:
            self._position = position
            self._stopped = self._stopped or short
            self._turn.notify_all()
