"""Offset indexes of shards, wherever they lie: one entry by one small range, or all of them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from provender.data.sources.access import DataFile, open_reader, place_of
from provender.errors import DamageError
from provender.records.offsets import MAGIC

if TYPE_CHECKING:
    import numpy as np

_HEAD = 16
_ENTRY = 8
_SMALL = 128 << 10
_KEPT_BYTES = 256 << 20


class Offsets:
    """The index of one shard.

    Args:
        url: its address.
        records: how many records the shard has.
        shard: what stands for the shard's content, so that an index kept in memory is not taken
            for that of a shard that came in its place.
    """

    def __init__(self, url: str, records: int, shard: str | None) -> None:
        self._url = url
        self._records = records
        self._key = f"{url} {records} {shard}"

    def at(self, record: int) -> int | None:
        """The byte at which a record begins; None where there is no index."""
        kept = _kept.get(self._key)
        if kept is not None:
            return int(kept[record])
        file = self._file()
        if file is None:
            return None
        if file.size <= _SMALL:
            values = self.all()
            return None if values is None else int(values[record])
        with open_reader(file) as reader:
            entry = reader.read(_HEAD + _ENTRY * record, _ENTRY)
        return int.from_bytes(entry, "little")

    def all(self) -> np.ndarray | None:
        """Where every record begins, and the file's size last; None where there is no index.

        Returns:
            ``<u8``, shape ``[records + 1]``; memory-mapped where the index is a local file.
        """
        kept = _kept.get(self._key)
        if kept is not None:
            return kept
        import numpy as np

        file = self._file()
        if file is None:
            return None
        with open_reader(file) as reader:
            data = reader.read(0, file.size if reader.is_remote else _HEAD)
        if data[:8] != MAGIC or int.from_bytes(data[8:_HEAD], "little") != self._records:
            raise DamageError(
                "The file is no offset index of this shard.",
                where=file.name,
                hint="rebuild the index: `provender build` of its dataset",
                facts={"file": file.name},
            )
        if len(data) == file.size:
            values = np.frombuffer(data, "<u8", offset=_HEAD)
        else:
            values = np.memmap(file.url, "<u8", "r", offset=_HEAD, shape=(self._records + 1,))
        _kept.put(self._key, values)
        return values

    def _file(self) -> DataFile | None:
        """The index file, if it is there and whole."""
        file = place_of(self._url).stat(self._url)
        if file is None:
            return None
        if file.size != _HEAD + _ENTRY * (self._records + 1):
            raise DamageError(
                f"The offset index is not that of {self._records:,} records ({file.size:,} bytes).",
                where=file.name,
                hint="rebuild the index: `provender build` of its dataset",
                facts={"file": file.name},
            )
        return file


class _Kept:
    """Whole indexes used lately, shared in the process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[str, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        # A thread that does not exist in the child may have held the lock.
        self._lock = threading.Lock()

    def get(self, key: str) -> np.ndarray | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: str, values: np.ndarray) -> None:
        with self._lock:
            self._values[key] = values
            while (
                len(self._values) > 1 and sum(v.nbytes for v in self._values.values()) > self._limit
            ):
                self._values.popitem(last=False)


_kept = _Kept(_KEPT_BYTES)
