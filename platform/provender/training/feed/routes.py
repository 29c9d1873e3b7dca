"""How a pipeline reaches a version's files.

auto    local files as they are; remote ones through the local shard cache
cache   through the local shard cache: one verified download a shard and host, ahead of the reader;
        where the cache has no room, the shard is streamed and a warning says so once
stream  records are read from the store as they are needed; nothing is kept on disk
native  the store's own address is handed to TensorFlow (``gs://`` on TPU hosts)
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import StoreError
from provender.training.contents import FileFacts
from provender.training.feed.ahead import AHEAD, CALLS, Ahead, mapped
from provender.training.feed.options import FeedOptions
from provender.training.feed.plan import Piece
from provender.training.feed.ranges import RecordRanges, refuse_missing, refuse_replaced
from provender.training.shard_cache import CacheFull, HeldShard, ShardCache, ShardKey

if TYPE_CHECKING:
    from provender.catalog import VersionRecord
    from provender.store import Store

Dataset = Any
_LOG = logging.getLogger("provender.training")
_READ_BYTES = 1 << 22
_CHUNK_BYTES = 4 << 20
"""Bytes that one request of the stream route asks for, about."""


class Route:
    """Files as they can be opened, by address.

    Args:
        address: file name -> what `tf.data.TFRecordDataset` opens.

    Attributes:
        in_blocks: whether `blocks` cost less than the same records one by one.
    """

    in_blocks = False

    def __init__(self, address: Callable[[str], str]) -> None:
        self.address = address

    def records(self, pieces: Sequence[Piece]) -> Dataset | None:
        """All records of whole files by one reader, or None where that cannot be."""
        import tensorflow as tf

        if not all(each.whole for each in pieces):
            return None
        names = [self.address(each.name) for each in pieces]
        return tf.data.TFRecordDataset(names, buffer_size=_READ_BYTES)

    def files(self, dataset: Dataset) -> Dataset:
        """What is done to (name, start, count) elements before their records are read."""
        return dataset

    def names(self, pieces: Sequence[Piece]) -> list[str]:
        """What stands for each piece's file in a dataset."""
        return [self.address(each.name) for each in pieces]

    def read(self, name: Any, start: Any, count: Any, whole: bool = False) -> Dataset:
        """The records of one piece.

        Args:
            name: the file, as `names` and `files` made it.
            start: its first record.
            count: how many.
            whole: whether these are all records of the file.
        """
        return _records_of(name, start, count, whole)

    def blocks(self, name: Any, start: Any, count: Any, size: int, whole: bool = False) -> Dataset:
        """The records of one piece, several in each element: about ``size``, or what is read at once.

        Whatever single records are handed through costs about what reading them costs.
        """
        return self.read(name, start, count, whole).batch(size)


def _records_of(path: Any, start: Any, count: Any, whole: bool) -> Dataset:
    """Records of a file that TensorFlow opens."""
    import tensorflow as tf

    records = tf.data.TFRecordDataset(path, buffer_size=_READ_BYTES)
    # Each of the two costs a record about a tenth of its parsing.
    return records if whole else records.skip(start).take(count)


class StreamRoute(Route):
    """Records read from the store by ranges.

    Args:
        ranges: reads them.
        sizes: file name -> bytes and number of records.
    """

    in_blocks = True

    def __init__(self, ranges: RecordRanges, sizes: Mapping[str, tuple[int, int]]) -> None:
        super().__init__(lambda name: name)
        self.ranges = ranges
        mean = max(sum(size for size, _ in sizes.values()), 1) / max(
            sum(count for _, count in sizes.values()), 1
        )
        self.chunk = max(1, min(int(_CHUNK_BYTES / mean), 65_536))
        self._chunks = Ahead(self._fetch)

    def records(self, pieces: Sequence[Piece]) -> Dataset | None:
        """None: there are no files to open."""
        del pieces
        return None

    def read(self, name: Any, start: Any, count: Any, whole: bool = False) -> Dataset:
        """The records of one piece."""
        return self._chunks_of(name, start, count).unbatch()

    def blocks(self, name: Any, start: Any, count: Any, size: int, whole: bool = False) -> Dataset:
        """The records of one piece, as they are fetched."""
        return self._chunks_of(name, start, count)

    def _chunks_of(self, name: Any, start: Any, count: Any) -> Dataset:
        """Arrays of records, each a function of its number.

        So an iterator goes on from a checkpoint at any chunk without reading those before it.
        """
        import tensorflow as tf

        def begin(number: Any) -> Any:
            first = start + number * self.chunk
            last = tf.minimum(first + self.chunk, start + count)
            return tf.numpy_function(
                CALLS.counted(self._begin_chunk), [name, first, last], [tf.int64] * 2
            )

        def take(first: Any, last: Any) -> Any:
            records = tf.numpy_function(CALLS.counted(self._chunk), [name, first, last], tf.string)
            return tf.ensure_shape(records, [None])

        chunks = tf.data.Dataset.range((count + self.chunk - 1) // self.chunk)
        return mapped(chunks, begin, take)

    def _fetch(self, chunk: tuple[str, int, int]) -> list[bytes]:
        return self.ranges.read(*chunk)

    def _begin_chunk(self, name: bytes, start: int, stop: int) -> tuple[int, int]:
        self._chunks.begin((name.decode(), int(start), int(stop)))
        return start, stop

    def _chunk(self, name: bytes, start: int, stop: int) -> Any:
        import numpy as np

        return np.array(self._chunks.take((name.decode(), int(start), int(stop))), dtype=object)


class CacheRoute(StreamRoute):
    """Shards in the local cache, or streamed where it has no room.

    Args:
        cache: the cache of this host.
        ranges: reads what is not in it.
        facts: file name -> what was recorded of each shard.
        sizes: file name -> bytes and number of records.
        keep: shards that may be open or about to be opened at once.
    """

    def __init__(
        self,
        cache: ShardCache,
        ranges: RecordRanges,
        facts: Mapping[str, FileFacts],
        sizes: Mapping[str, tuple[int, int]],
        keep: int,
    ) -> None:
        super().__init__(ranges, sizes)
        self.cache = cache
        self.facts = facts
        self._held: deque[HeldShard] = deque(maxlen=keep + 2 * AHEAD)
        self._shards = Ahead(self._download)
        self._lock = threading.Lock()
        self._warned = False

    def files(self, dataset: Dataset) -> Dataset:
        """Names become the local path, or nothing where the shard is to be streamed."""
        import tensorflow as tf

        def begin(name: Any, start: Any, count: Any) -> Any:
            begun = tf.numpy_function(CALLS.counted(self._begin), [name], tf.string)
            return tf.ensure_shape(begun, []), start, count

        def take(name: Any, start: Any, count: Any) -> Any:
            path = tf.ensure_shape(
                tf.numpy_function(CALLS.counted(self._hold), [name], tf.string), []
            )
            return tf.stack([name, path]), start, count

        return mapped(dataset, begin, take)

    def read(self, name: Any, start: Any, count: Any, whole: bool = False) -> Dataset:
        """The records of one piece: from the local file, else from the store."""
        return self._either(
            name,
            lambda path: _records_of(path, start, count, whole),
            lambda shard: self._chunks_of(shard, start, count).unbatch(),
        )

    def blocks(self, name: Any, start: Any, count: Any, size: int, whole: bool = False) -> Dataset:
        """The records of one piece in blocks: from the local file, else from the store."""
        return self._either(
            name,
            lambda path: _records_of(path, start, count, whole).batch(size),
            lambda shard: self._chunks_of(shard, start, count),
        )

    def _either(
        self, name: Any, local: Callable[[Any], Dataset], remote: Callable[[Any], Dataset]
    ) -> Dataset:
        import tensorflow as tf

        # Branches, not a concatenation of what is local and what is not: whatever a record passes
        # through on its way costs about what reading it costs.
        shard, path = name[0], name[1]
        return tf.cond(tf.strings.length(path) > 0, lambda: local(path), lambda: remote(shard))

    def _begin(self, name: bytes) -> bytes:
        self._shards.begin(name.decode())
        return name

    def _hold(self, name: bytes) -> bytes:
        held = self._shards.take(name.decode())
        if held is None:
            return b""
        with self._lock:
            # A shard that falls out was opened long ago: what is open outlives its removal.
            self._held.append(held)
        return str(held.path).encode()

    def is_whole(self) -> bool:
        """Whether all shards are in the cache."""
        return all(
            self.cache.has(self._key(name)) for name, each in self.facts.items() if each.split
        )

    def _key(self, shard: str) -> ShardKey:
        facts, path = self.facts[shard], self.ranges.store.path(f"{self.ranges.folder}/{shard}")
        return ShardKey(path, facts.size, facts.sha256, facts.crc32c, facts.token)

    def _download(self, shard: str) -> HeldShard | None:
        """Brings a shard into the cache; None where that has no room."""
        rel = f"{self.ranges.folder}/{shard}"
        try:
            return self.cache.hold_from(self.ranges.store, rel, self._key(shard))
        except CacheFull as error:
            if not self._warned:
                self._warned = True
                _LOG.warning("%s Shards are streamed instead.", error)
            return None


def router(
    store: Store,
    version: VersionRecord,
    facts: Mapping[str, FileFacts],
    options: FeedOptions,
    home: Path | None = None,
) -> Route:
    """The way to a version's files.

    Args:
        store: where the version lies.
        version: the version.
        facts: what was recorded of its files.
        options: of the pipeline; ``route`` says which way.
        home: of the project, which holds the shard cache.

    Raises:
        StoreError: ``native`` for a store that TensorFlow cannot open; or there are no credentials
            for the store, and not all shards are in the cache.
        DamageError: ``native``, and a shard is not the one that was published; or a local shard is
            missing or has another size.
    """
    folder = store.path(version.path)
    route = options.route
    if route == "native" and not store.is_local and not folder.startswith("gs://"):
        raise StoreError(
            "TensorFlow opens local files and gs:// only.",
            where=folder,
            hint="Use route='cache'.",
        )
    if route == "native" and not store.is_local:
        # Without credentials TensorFlow would only say that it cannot resolve a host.
        store.connect()
        if folder == version.uri:
            # TensorFlow knows nothing of generations, so they are compared before it opens anything. A
            # copy elsewhere has generations of its own.
            refuse_replaced(store, version.path, facts)
    if store.is_local and route in ("native", "auto"):
        # TensorFlow would say at which byte a file breaks off, but not of which file.
        refuse_missing(store, version.path, facts)
    if route == "native" or (route == "auto" and store.is_local):
        return Route(lambda name: f"{folder}/{name}")
    ranges = RecordRanges(store, version.path, facts)
    sizes = {
        name: (each.size, each.examples)
        for name, each in facts.items()
        if each.examples is not None
    }
    found: StreamRoute = StreamRoute(ranges, sizes)
    if route != "stream":
        found = CacheRoute(ShardCache.current(home), ranges, facts, sizes, options.cycle_length)
    if not isinstance(found, CacheRoute) or not found.is_whole():
        # Missing credentials are told here, not with the first batch and inside TensorFlow's error.
        store.connect()
    return found
