"""Reading a file once for everything that can be known of it: digests, records, offsets."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from provender.errors import DamageError
from provender.store import Digest, Store
from provender.store.files import Digester

_BLOCK = 1 << 20
_INDEX_HEAD = 16


@dataclass(frozen=True, slots=True)
class Reread:
    """What a file was found to be.

    Attributes:
        digest: size, sha256 and crc32c of the whole file.
        records: whole TFRecords up to its end or the first damage; 0 where not asked for.
        damage: what is wrong with the records or their index, or None.
    """

    digest: Digest
    records: int
    damage: str | None


class _Hashing(io.RawIOBase):
    """A readable that hashes all that passes through it."""

    def __init__(self, file: BinaryIO, tell: Callable[[int], None]) -> None:
        self._file = file
        self._tell = tell
        self.digester = Digester()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._file.read(len(buffer))
        buffer[: len(block)] = block
        self.digester.update(block)
        self._tell(len(block))
        return len(block)


def reread(
    store: Store,
    rel: str,
    *,
    records: bool,
    index: str | None,
    tell: Callable[[int], None],
) -> Reread:
    """Reads a file from beginning to end.

    Args:
        store: where it lies.
        rel: the file.
        records: whether it is a TFRecord file whose checksums are to be checked.
        index: its offset index, to be compared with where the records really begin.
        tell: called with the number of bytes read since the last call.

    Raises:
        FileNotFoundError: there is no such file.
        StoreError: the store cannot deliver it.
    """
    with store.open_file(rel) as file:
        source = _Hashing(file, tell)
        stream = io.BufferedReader(source, _BLOCK)
        offsets, damage = _walk(stream) if records else ([], None)
        while stream.read(_BLOCK):  # the digest covers what lies behind a damage too
            pass
        digest = source.digester.digest()
    if records and damage is None and index is not None:
        damage = _compare(store, index, [*offsets, digest.size])
    return Reread(digest, len(offsets), damage)


def _walk(stream: BinaryIO) -> tuple[list[int], str | None]:
    """Where the records begin, in bytes, and the first damage."""
    from provender.records import iter_records

    offsets: list[int] = []
    try:
        for offset, _ in iter_records(stream):
            offsets.append(offset)
    except DamageError as error:
        facts, what = error.facts, error.message.partition(":")[0]
        spot = f"record {facts['record']} at byte {facts['offset']:,}"
        return offsets, f"{what[0].lower()}{what[1:]} ({spot})"
    return offsets, None


def _compare(store: Store, index: str, offsets: list[int]) -> str | None:
    """How an offset index differs from where the records are; None where it does not."""
    from provender.records.offsets import index_header

    try:
        data = store.read(index)
    except FileNotFoundError:
        return None  # it is told as missing by itself
    import numpy as np

    wanted = index_header(len(offsets) - 1) + np.asarray(offsets, dtype="<u8").tobytes()
    if data == wanted:
        return None
    if len(data) != len(wanted) or data[:_INDEX_HEAD] != wanted[:_INDEX_HEAD]:
        return "its offset index is of another file"
    says = np.frombuffer(data, "<u8", offset=_INDEX_HEAD)
    first = int(np.flatnonzero(says != np.asarray(offsets, dtype="<u8"))[0])
    return (
        f"its offset index says that record {first} begins at byte {int(says[first]):,}, "
        f"it begins at byte {offsets[first]:,}"
    )
