"""Work that waits on a network, begun before a pipeline needs it.

`tf.data` runs a pipeline's functions on as many threads as the host has cores. A function that waits for
a download keeps one of them, and on a small host those that should parse meanwhile find none. So
downloads run on threads of their own; of the pipeline's, only the reader that needs a result waits.

A pipeline goes on in the background until it is destroyed, which for one that is still referred to,
by a traceback for instance, is after the interpreter's end. A call into Python would then never
return, and the process would wait for it for ever. So calls are counted, and the end waits for them.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Generic, TypeVar

from provender.errors import StoreError

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

AHEAD = 2
"""Pieces of work that are begun before they are needed, and done at once."""

_QUIET = 0.1
_LONGEST = 5.0
"""Seconds: without a call until pipelines have nothing more to do, and most that the end waits."""


class Calls:
    """Calls of pipelines into Python, which come to an end before the interpreter does.

    Attributes:
        over: done, once no more calls are answered.
    """

    def __init__(self) -> None:
        self._begin()
        # A forked child has none of the threads whose calls are under way.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.over: Future[None] = Future()
        self._under_way = 0
        self._last = 0.0
        self._lock = threading.Lock()

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its calls counted; once all is over it raises."""

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            with self._lock:
                self._under_way += 1
            try:
                self.check()
                return function(*args)
            finally:
                with self._lock:
                    self._under_way -= 1
                    self._last = time.monotonic()

        return call

    def check(self) -> None:
        """Raises where nobody will take a result any more.

        Raises:
            StoreError: the process ends.
        """
        if self.over.done():
            raise StoreError("The process ends, so nothing more is read.")

    def end(self) -> None:
        """Answers no more calls, and waits for those under way and what they make pipelines do."""
        if not self.over.done():
            self.over.set_result(None)
        deadline = time.monotonic() + _LONGEST
        while time.monotonic() < deadline:
            with self._lock:
                quiet = not self._under_way and time.monotonic() - self._last > _QUIET
            if quiet:
                return
            time.sleep(0.005)


CALLS = Calls()
atexit.register(CALLS.end)


class Ahead(Generic[Key, Result]):
    """Does work in the background and gives each result once.

    Args:
        work: done for each key; what it raises, `take` raises.
    """

    def __init__(self, work: Callable[[Key], Result]) -> None:
        self._work = work
        self._begun: dict[Key, Future[Result]] = {}
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(AHEAD)

    def begin(self, key: Key) -> None:
        """Begins the work, unless its result is there or under way and nobody took it yet."""
        with self._lock:
            if key in self._begun:
                return
            future = self._begun[key] = Future()
        # A process may end in the middle of a download; nothing has to be waited for.
        threading.Thread(
            target=self._run, args=(key, future), name="provender-ahead", daemon=True
        ).start()

    def take(self, key: Key) -> Result:
        """The result; waits for work under way, and does itself what was not begun.

        A pipeline restored from a checkpoint takes what another process began.

        Raises:
            StoreError: the process ends.
        """
        with self._lock:
            future = self._begun.pop(key, None)
        if future is None:
            return self._work(key)
        either: list[Future[Any]] = [future, CALLS.over]
        wait(either, return_when=FIRST_COMPLETED)
        if not future.done():
            CALLS.check()
        return future.result()

    def _run(self, key: Key, future: Future[Result]) -> None:
        with self._slots:
            try:
                future.set_result(self._work(key))
            except BaseException as error:  # noqa: BLE001 - raised where the result is taken
                future.set_exception(error)


def mapped(dataset: Any, begin: Callable[..., Any], take: Callable[..., Any]) -> Any:
    """Elements whose work is begun when they are near, and taken when they are needed.

    Args:
        dataset: a `tf.data.Dataset`.
        begin: begins the work of an element and gives back what `take` needs.
        take: waits for it.
    """
    import tensorflow as tf

    plain = tf.autograph.experimental.do_not_convert
    return dataset.map(plain(begin)).prefetch(AHEAD).map(plain(take))
