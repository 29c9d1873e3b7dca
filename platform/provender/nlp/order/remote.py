"""Remote files on the local disk, through the cache that holds remote shards of versions."""

from __future__ import annotations

from pathlib import Path

from provender.errors import MissingFiles
from provender.training.shard_cache import HeldShard


def local_copy(url: str, home: Path) -> HeldShard:
    """A local copy of a remote file, fetched unless it is there.

    Args:
        url: any fsspec address.
        home: of the project, which holds the cache.

    Returns:
        The copy, which stays in the cache while the object lives.

    Raises:
        MissingFiles: there is no such file.
        CacheFull: the cache has no room for it.
        StoreError: it cannot be fetched.
    """
    from provender.data.sources.access.files import open_reader
    from provender.data.sources.access.places import place_of
    from provender.store import ranges
    from provender.store.values import Identity
    from provender.training.shard_cache import ShardCache, ShardKey

    file = place_of(url).stat(url)
    if file is None:
        raise MissingFiles("There is no such file.", where=url, hint="Check input_path.")
    kind, _, digest = file.content.partition(":")
    crc32c = digest if kind == "crc32c" else None
    part = ranges.Part(
        file.name, Identity(file.size, file.token), int(crc32c, 16) if crc32c else None
    )
    key = ShardKey(file.name, file.size, None, crc32c, file.token)

    def fetch(path: Path) -> None:
        with open_reader(file) as reader:
            ranges.fetch(reader.read, part, str(path))

    return ShardCache.current(home).hold(key, fetch)
