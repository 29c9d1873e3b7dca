"""How a pipeline reaches a version's files.

auto    local files as they are; remote ones through the local shard cache.
cache   always through the local shard cache: one verified download a shard and host.
native  the store's own address is handed to TensorFlow (``gs://`` on TPU hosts).
stream  records are read from the store as they are needed; nothing is kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from provender.errors import StoreError

if TYPE_CHECKING:
    from provender.catalog import VersionRecord
    from provender.store import Store

Address = Callable[[str], str]


def router(store: Store, version: VersionRecord, route: str) -> Address:
    """What a file's name becomes.

    Args:
        store: where the version lies.
        version: the version.
        route: see the module.

    Returns:
        File name in the version's folder -> address for `tf.data.TFRecordDataset`.

    Raises:
        StoreError: the route does not fit the store.
    """
    folder = store.path(version.path)
    if route == "native" or (route == "auto" and store.is_local):
        return lambda name: f"{folder}/{name}"
    raise StoreError(f"route={route!r} is not there yet.", where=folder)
