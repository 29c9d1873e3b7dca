"""Records of a local shard by number, from a memory map.

A read of a page that is in memory costs no system call then. Shards are made for it: a published file
is never changed nor cut in its place, only replaced as a whole, and one that is removed lives on as
long as it is mapped.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provender.records import ShardReader
from provender.records.tfrecord import whole_payload


class MappedShard:
    """Random access to the records of a file that does not change.

    Args:
        shard: path of the TFRecord file.
        index: path of its offset index.

    Raises:
        DamageError: the index does not belong to a file of this size.
        StoreError: a file cannot be read.
    """

    def __init__(self, shard: str, index: str) -> None:
        self._reader = ShardReader(shard, index)
        self._bounds: list[int] = self._reader.offsets.tolist()
        self._map: Any = b""  # what cannot be mapped: a file without a byte
        if self._bounds[-1]:
            with Path(shard).open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._map.madvise(mmap.MADV_RANDOM)

    def read(self, number: int) -> bytes:
        """The payload of a record, counted from 0, checked.

        Raises:
            DamageError: it is damaged; the message says which and where.
        """
        bounds = self._bounds
        payload = whole_payload(self._map[bounds[number] : bounds[number + 1]])
        # The reader says what is wrong.
        return self._reader.read(number) if payload is None else payload

    def iter(self, start: int, stop: int) -> Iterator[bytes]:
        """The payloads of the records from ``start`` to ``stop`` (excluded), read in large blocks.

        Raises:
            DamageError: a record is damaged.
        """
        return self._reader.iter(start, stop)

    def close(self) -> None:
        """Closes the file and lets go of the map."""
        self._reader.close()
        if self._map:
            self._map.close()
