"""Leases for whoever reads a version and has no open catalog at hand: training, streams.

Nothing here waits: the catalog is opened, and the lease taken, by a thread. Where the catalog is
away, reading goes on and the lease is taken once it is back.
"""

from __future__ import annotations

import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.catalog.leases import Keeper, Lease
    from provender.catalog.processes import Owner
    from provender.errors import ProvenderError


class _Door:
    """A catalog that is opened when it is first needed, by the thread that needs it."""

    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def catalog(self) -> Catalog:
        from provender.catalog import Catalog

        return Catalog.open(self._url)

    def put(self, leases: list[Lease]) -> dict[str, ProvenderError | None]:
        return self.catalog._put(leases)

    def take(self, key: str, owner: Owner) -> bool:
        return self.catalog._take(key, owner)


_lock = threading.Lock()
_keepers: dict[tuple[int, str], Keeper] = {}


def lease(url: str, version_id: str, purpose: str) -> Lease:
    """Keeps a version from being removed until the lease is closed or the process ends.

    Args:
        url: the catalog's.
        version_id: the version that is read.
        purpose: what reads it, shown by ``provender leases``.

    Returns:
        The lease, asked for; a context manager.
    """
    from provender.catalog.leases import Keeper, Lease

    key = (os.getpid(), url)
    with _lock:
        keeper = _keepers.get(key)
        if keeper is None:
            door = _Door(url)
            keeper = _keepers[key] = Keeper(door.put, door.take)
    found = Lease(keeper, version_id, purpose)
    keeper.add(found)
    return found


_reading: dict[tuple[int, str, str], Lease] = {}


def reading(url: str, version_id: str, purpose: str) -> None:
    """Leases a version until the process ends, once however often it is opened.

    For readers that nobody closes: `tf.data` pipelines, streams, sources that a sampler holds.

    Args:
        url: the catalog's.
        version_id: the version that is read.
        purpose: what reads it, shown by ``provender leases``.
    """
    key = (os.getpid(), url, version_id)
    if key not in _reading:
        _reading[key] = lease(url, version_id, purpose)
