"""Records of a version read by number, through the offset indexes: one range of bytes a request."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from provender.errors import DamageError, StoreError
from provender.training.contents import FileFacts, index_name

if TYPE_CHECKING:
    import numpy as np

    from provender.store import Store

_INDEXES = 64
"""Indexes kept in memory; eight bytes a record each."""

_BLOCK_BYTES = 4 << 20
"""Bytes that one request for many records asks for, about."""


class RecordRanges:
    """Reads consecutive records of a version's shards.

    Args:
        store: where the version lies.
        folder: the version's path in the store.
        facts: file name -> what was recorded of each file when it was published.
    """

    def __init__(
        self, store: Store, folder: str, facts: Mapping[str, FileFacts] | None = None
    ) -> None:
        self.store = store
        self.folder = folder
        self.facts = facts or {}
        self._indexes: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def offsets(self, name: str) -> np.ndarray:
        """The ``n + 1`` byte offsets of a shard's records, ``<u8``.

        Raises:
            StoreError: the version has no index for it.
            DamageError: the index is not one, or the shard was replaced since it was published.
        """
        import numpy as np

        from provender.records.offsets import MAGIC

        with self._lock:
            if name in self._indexes:
                self._indexes.move_to_end(name)
                return self._indexes[name]
        self._refuse_replaced(name)
        rel = f"{self.folder}/{index_name(name)}"
        try:
            data = self.store.read(rel)
        except FileNotFoundError as error:
            raise StoreError(
                f"{name} has no offset index, so its records cannot be read by number.",
                where=self.store.path(rel),
                hint="Use route='cache', which reads whole shards.",
            ) from error
        head = len(MAGIC) + 8
        count = int.from_bytes(data[len(MAGIC) : head], "little")
        if not data.startswith(MAGIC) or len(data) != head + 8 * (count + 1):
            raise DamageError(
                f"The offset index of {name} is not whole.",
                where=self.store.path(rel),
                hint="`provender verify` says what else is damaged.",
            )
        found = np.frombuffer(data, "<u8", offset=head)
        with self._lock:
            self._indexes[name] = found
            while len(self._indexes) > _INDEXES:
                self._indexes.popitem(last=False)
        return found

    def _refuse_replaced(self, name: str) -> None:
        known = self.facts.get(name)
        if known is None or not known.token:
            return
        rel = f"{self.folder}/{name}"
        now = self.store.stat(rel)
        if now is None or now.token != known.token:
            raise _replaced(self.store.path(rel), known.token, now.token if now else None)

    def read(self, name: str, start: int, stop: int) -> list[bytes]:
        """The payloads of the records ``start`` to ``stop`` of a shard, checked.

        Raises:
            DamageError: a record is damaged, or the shard ends early; it says which and where.
            StoreError: the shard cannot be read.
        """
        from provender.records.tfrecord import HEADER_BYTES, check_body, parse_header

        offsets = self.offsets(name)[start : stop + 1]
        rel = f"{self.folder}/{name}"
        begin = int(offsets[0])
        try:
            data = self.store.read_range(rel, begin, int(offsets[-1]) - begin)
        except FileNotFoundError as error:
            raise DamageError(
                f"{name} is missing.",
                where=self.store.path(rel),
                hint="`provender verify` says what else is.",
            ) from error
        where = self.store.path(rel)
        found = []
        for at, offset in enumerate((offsets[:-1] - offsets[0]).tolist()):
            spot: dict[str, Any] = {"name": where, "record": start + at, "offset": begin + offset}
            length = parse_header(data[offset : offset + HEADER_BYTES], **spot)
            body = data[offset + HEADER_BYTES : offset + HEADER_BYTES + length + 4]
            found.append(check_body(body, length, **spot))
        return found


class RangedShard:
    """Random access to the records of a shard that lies in its store.

    Args:
        ranges: reads them.
        name: the shard.
    """

    def __init__(self, ranges: RecordRanges, name: str) -> None:
        self._ranges, self._name = ranges, name

    def read(self, number: int) -> bytes:
        """The payload of a record, counted from 0, checked; see `RecordRanges.read`."""
        return self._ranges.read(self._name, number, number + 1)[0]

    def iter(self, start: int, stop: int) -> Iterator[bytes]:
        """The payloads of the records from ``start`` to ``stop`` (excluded), some MiB at a time."""
        offsets = self._ranges.offsets(self._name)
        while start < stop:
            end = int(offsets.searchsorted(int(offsets[start]) + _BLOCK_BYTES, "right")) - 1
            end = min(max(end, start + 1), stop)
            yield from self._ranges.read(self._name, start, end)
            start = end

    def close(self) -> None:
        """Nothing is open."""


def refuse_replaced(store: Store, folder: str, facts: Mapping[str, FileFacts]) -> None:
    """Looks once whether all shards of a version are the files that were published.

    Args:
        store: where the version lies.
        folder: the version's path in the store.
        facts: file name -> what was recorded of each file.

    Raises:
        DamageError: a shard is missing, or was replaced.
    """
    tokens = {f"{folder}/{name}": f.token for name, f in facts.items() if f.split and f.token}
    for rel, now in store.stat_many(list(tokens)).items():
        if now is None or now.token != tokens[rel]:
            raise _replaced(store.path(rel), tokens[rel], now.token if now else None)


def refuse_missing(store: Store, folder: str, facts: Mapping[str, FileFacts]) -> None:
    """Looks once whether all shards of a version are there, as large as they were published.

    Args:
        store: where the version lies.
        folder: the version's path in the store.
        facts: file name -> what was recorded of each file.

    Raises:
        DamageError: a shard is missing, or has another size.
    """
    sizes = {f"{folder}/{name}": f.size for name, f in facts.items() if f.split}
    for rel, now in store.stat_many(list(sizes)).items():
        if now is None or now.size != sizes[rel]:
            published, found = f"{sizes[rel]:,} bytes", f"{now.size:,} bytes" if now else None
            raise _replaced(store.path(rel), published, found)


def _replaced(where: str, published: str, found: str | None) -> DamageError:
    name = where.rpartition("/")[2]
    return DamageError(
        f"{name} is {'missing' if found is None else 'not the file that was published'}.",
        where=where,
        hint="`provender verify` says whether its content is; it notes a good copy.",
        facts={"published": published, "found": found},
    )
