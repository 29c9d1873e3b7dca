"""One background thread that keeps all claims of a process alive."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from provender.catalog.processes import Owner
from provender.errors import ProvenderError

_log = logging.getLogger(__name__)
_BEATS_PER_TTL = 3

Renew = Callable[[Iterable[str], Owner, float], set[str]]


@dataclass(frozen=True, slots=True)
class _Held:
    owner: Owner
    ttl: float
    lost: threading.Event


class Heartbeat:
    """Renews claims for as long as there are any.

    The thread ends with the last claim, and being a daemon it never keeps a process alive.

    Args:
        renew: ``(keys, owner, ttl_seconds) -> keys still held``.
    """

    def __init__(self, renew: Renew) -> None:
        self._renew = renew
        self._changed = threading.Condition()
        self._held: dict[str, _Held] = {}
        self._due = 0.0
        self._beating = False

    def add(self, key: str, owner: Owner, ttl: float, lost: threading.Event) -> None:
        """Starts renewing a claim; ``lost`` is set if it turns out to be taken over."""
        with self._changed:
            self._held[key] = _Held(owner, ttl, lost)
            self._due = min(self._due, _next_beat(ttl)) if self._beating else _next_beat(ttl)
            if not self._beating:
                self._beating = True
                threading.Thread(target=self._run, name="provender-heartbeat", daemon=True).start()
            self._changed.notify()

    def remove(self, key: str) -> None:
        """Stops renewing a claim."""
        with self._changed:
            self._held.pop(key, None)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._held and (left := self._due - time.monotonic()) > 0:
                    self._changed.wait(left)
                if not self._held:
                    self._beating = False
                    return
                held = dict(self._held)
                self._due = min(_next_beat(one.ttl) for one in held.values())
            self._beat(held)

    def _beat(self, held: dict[str, _Held]) -> None:
        groups: dict[tuple[Owner, float], list[str]] = {}
        for key, one in held.items():
            groups.setdefault((one.owner, one.ttl), []).append(key)
        for (owner, ttl), keys in groups.items():
            try:
                kept = self._renew(keys, owner, ttl)
            except ProvenderError as err:
                _log.warning("Claims could not be renewed, trying again: %s", err.message)
                continue
            for key in set(keys) - kept:
                # A claim given back since the copy was made is not lost, just gone.
                if self._held.get(key) is held[key]:
                    held[key].lost.set()


def _next_beat(ttl: float) -> float:
    return time.monotonic() + ttl / _BEATS_PER_TTL
