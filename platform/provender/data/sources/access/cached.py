"""Remote files read from the local shard cache, or from where they lie when it has no room."""

from __future__ import annotations

from pathlib import Path

from provender.data.sources.access.files import DataFile, RangeReader, open_reader
from provender.data.sources.access.local import LocalReader
from provender.store.paths import split_scheme
from provender.store.values import Identity
from provender.training.shard_cache import CacheFull, HeldShard, ShardCache, ShardKey, warn_once


def open_cached(file: DataFile, sha256: str | None = None) -> RangeReader:
    """A reader of a file through the cache.

    Args:
        file: the file; a local one is read where it is.
        sha256: what its content must be, where that is known.
    """
    if split_scheme(file.url)[0] == "file" and "::" not in file.url:
        return open_reader(file)
    reader = open_reader(file)
    if not reader.is_remote:  # it is being kept in a temporary file as it is
        return reader
    crc32c = file.content.removeprefix("crc32c:") if file.content.startswith("crc32c:") else None
    key = ShardKey(file.name, file.size, sha256, crc32c, file.token)
    try:
        held = ShardCache.current().hold(key, lambda path: _fetch(file, reader, crc32c, path))
    except CacheFull as error:
        warn_once(error)
        return reader
    except BaseException:
        reader.close()
        raise
    reader.close()
    return CachedReader(file, held)


def _fetch(file: DataFile, reader: RangeReader, crc32c: str | None, path: Path) -> None:
    from provender.store import ranges

    part = ranges.Part(
        file.name, Identity(file.size, file.token), int(crc32c, 16) if crc32c else None
    )
    ranges.fetch(reader.read, part, str(path))


class CachedReader(LocalReader):
    """Reads a cached copy, which stays in the cache until it is closed."""

    def __init__(self, file: DataFile, held: HeldShard) -> None:
        super().__init__(DataFile(str(held.path), file.size))
        self._shown = file
        self._held = held

    @property
    def name(self) -> str:
        return self._shown.name

    def close(self) -> None:
        super().close()
        if hasattr(self, "_held"):
            self._held.close()
