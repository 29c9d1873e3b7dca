"""Work that waits on a network, begun before a pipeline needs it.

`tf.data` runs a pipeline's functions on as many threads as the host has cores. A function that waits for
a download keeps one of them, and on a small host those that should parse meanwhile find none. So
downloads run on threads of their own; of the pipeline's, only the reader that needs a result waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

AHEAD = 2
"""Pieces of work that are begun before they are needed, and done at once."""


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
        """
        with self._lock:
            future = self._begun.pop(key, None)
        return self._work(key) if future is None else future.result()

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
