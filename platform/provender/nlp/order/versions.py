"""The shards of a published version as files that are read by number."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from provender.nlp.order.files import RecordFile

if TYPE_CHECKING:
    import numpy as np

    from provender.settings import Settings
    from provender.store import Store
    from provender.training.contents import FileFacts
    from provender.training.shard_cache import HeldShard


def version_files(reference: str, split: str, settings: Settings) -> list[RecordFile]:
    """The records that a split expression means.

    Args:
        reference: a version, see `provender.refs`.
        split: a split expression, ``train[:90%]`` say.
        settings: of the project.

    Returns:
        Files in order. Shards of a remote store come through the shard cache when they are first
        read, and stay in it as long as the files are in use.

    Raises:
        UnknownReference: no such version or split.
    """
    from provender.engine.session import open_catalog
    from provender.refs import DatasetRef
    from provender.store import Store
    from provender.training.contents import contents_of
    from provender.training.feed.plan import pieces_of
    from provender.training.heading import shard_files
    from provender.training.leasing import reading
    from provender.training.splits import resolve_split
    from provender.upkeep import find_version

    catalog = open_catalog(settings)
    version = find_version(catalog, DatasetRef.parse(reference))
    reading(settings.catalog, version.id, "global order")
    store = Store.open(settings.store, scratch=str(settings.scratch))
    names = shard_files(version)
    lengths = {name: [count for _, count in each] for name, each in names.items()}
    shards = _Shards(store, version.path, contents_of(store, version, catalog), settings.home)
    return [
        RecordFile(each.name, each.start, each.stop, partial(shards.locate, each.name))
        for each in pieces_of(resolve_split(split, lengths, where=version.name), names)
    ]


class _Shards:
    """Local copies of a version's shards and indexes."""

    def __init__(self, store: Store, folder: str, facts: dict[str, FileFacts], home: Path) -> None:
        self._store = store
        self._folder = folder
        self._facts = facts
        self._home = home
        self._held: list[HeldShard] = []

    def locate(self, name: str) -> tuple[Path, np.ndarray]:
        """The local path of a shard, and the offsets of its records."""
        from provender.records.offsets import read_offsets
        from provender.training.contents import index_name

        return self._local(name), read_offsets(self._local(index_name(name)))

    def _local(self, name: str) -> Path:
        from provender.training.shard_cache import ShardCache, ShardKey

        rel = f"{self._folder}/{name}"
        local = self._store.local(rel)
        if local is not None:
            return Path(local)
        facts = self._facts[name]
        key = ShardKey(self._store.path(rel), facts.size, facts.sha256, facts.crc32c, facts.token)
        held = ShardCache.current(self._home).hold_from(self._store, rel, key)
        self._held.append(held)
        return held.path

    def __del__(self) -> None:
        for each in self._held:
            each.close()
