"""Holding a claim while working: waiting for it, keeping it alive, giving it back."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provender.catalog.processes import Owner, this_process
from provender.catalog.records import ClaimRecord
from provender.errors import CatalogError

if TYPE_CHECKING:
    from provender.catalog.claims import Claims

_FIRST_WAIT = 0.02
_LONGEST_WAIT = 1.0


@dataclass(slots=True)
class Claim:
    """A claim that is held and kept alive.

    Attributes:
        record: as it was acquired.
        waited: seconds spent until it was acquired; above 0 the work may be done already.
    """

    record: ClaimRecord
    waited: float
    _lost: threading.Event = field(default_factory=threading.Event)

    @property
    def lost(self) -> bool:
        """Whether another process took it over, e.g. after this one was suspended."""
        return self._lost.is_set()

    def check(self) -> None:
        """To be called before results are made visible.

        Raises:
            CatalogError: the claim is lost.
        """
        if self.lost:
            message = f"The claim on {self.record.key} was lost to another process."
            raise CatalogError(message, hint="Run again: what the other one made is reused.")


@contextmanager
def claimed(
    catalog: Claims,
    key: str,
    ttl: float = 30,
    on_wait: Callable[[ClaimRecord], None] | None = None,
    timeout: float | None = None,
    note: str = "",
) -> Iterator[Claim]:
    """Holds a claim for the length of a ``with`` block.

    One background thread a catalog renews all claims of the process, three times per ``ttl``.

    Args:
        catalog: where claims are kept.
        key: what is claimed.
        ttl: seconds until others may take it over from a process that cannot be proven dead.
        on_wait: called with the holder's claim, once for each holder waited for.
        timeout: seconds to wait at most; None waits for ever, 0 tries once.
        note: what it is for, shown to those who wait.

    Yields:
        The claim. When it was waited for, look again whether there is anything left to do.

    Raises:
        CatalogError: the timeout passed; it names the holder.
    """
    owner = this_process(note)
    began = time.monotonic()
    record = catalog.acquire(key, owner, ttl)
    if record is None:
        record = _wait(catalog, key, owner, ttl, on_wait, timeout)
        claim = Claim(record, time.monotonic() - began)
    else:
        claim = Claim(record, 0.0)
    heartbeat = catalog.heartbeat()
    heartbeat.add(key, owner, ttl, claim._lost)
    try:
        yield claim
    finally:
        heartbeat.remove(key)
        catalog.release(key, owner)


def _wait(
    catalog: Claims,
    key: str,
    owner: Owner,
    ttl: float,
    on_wait: Callable[[ClaimRecord], None] | None,
    timeout: float | None,
) -> ClaimRecord:
    began = time.monotonic()
    pause = _FIRST_WAIT
    told: tuple[Owner, object] | None = None
    while True:
        # Reading first spares SQLite's only write lock; `acquire` decides by itself once more.
        held = catalog.blocker(key, owner)
        if held is None:
            record = catalog.acquire(key, owner, ttl)
            if record is not None:
                return record
        elif told != (held.owner, held.acquired):
            told = (held.owner, held.acquired)
            if on_wait is not None:
                on_wait(held)
        left = None if timeout is None else began + timeout - time.monotonic()
        if left is not None and left <= 0:
            raise _timed_out(key, held, timeout or 0)
        wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads the waiters, no secret
        time.sleep(wait if left is None else min(wait, left))
        pause = min(pause * 1.5, _LONGEST_WAIT)


def _timed_out(key: str, held: ClaimRecord | None, timeout: float) -> CatalogError:
    who = f"It is held by {held.owner}" if held else "It was held"
    return CatalogError(
        f"{key} could not be claimed within {timeout:g} s. {who}.",
        hint="Wait for that process, or end it: its claim is then taken over.",
    )
