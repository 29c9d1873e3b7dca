"""The offset index of a TFRecord file, and random access through it.

File format: 8 bytes magic, u64 number of records ``n``, then ``n + 1`` u64 byte offsets, the last
one being the size of the TFRecord file. Everything little-endian.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from provender.errors import DamageError, UnknownReference
from provender.records.atomic import AtomicFile, told_as_ours
from provender.records.tfrecord import (
    HEADER_BYTES,
    OVERHEAD,
    check_body,
    parse_header,
    whole_payload,
)

MAGIC = b"PVOFFS\x01\n"
SUFFIX = ".offsets"
_HEAD = struct.Struct("<8sQ")


def index_header(records: int) -> bytes:
    """The 16 bytes that begin the index of a file of ``records`` records."""
    return _HEAD.pack(MAGIC, records)


def write_offsets(path: Path, offsets: Sequence[int] | np.ndarray) -> None:
    """Writes an index file.

    Args:
        path: where.
        offsets: ``n + 1`` byte offsets, the last one being the size of the TFRecord file.

    Raises:
        DiskFull, StoreError: the file cannot be written.
    """
    values = np.asarray(offsets, dtype="<u8")
    with AtomicFile(path) as file:
        file.write(index_header(len(values) - 1))
        file.write(values.tobytes())


def read_offsets(path: Path) -> np.ndarray:
    """The ``n + 1`` offsets of an index file as a read-only memory-mapped ``<u8`` array.

    Raises:
        DamageError: the file is not an offset index, or is cut off.
        StoreError: it cannot be read.
    """
    with told_as_ours(path):
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
    if len(head) == _HEAD.size:
        magic, records = _HEAD.unpack(head)
        if magic == MAGIC and size == _HEAD.size + 8 * (records + 1):
            return np.memmap(path, "<u8", "r", offset=_HEAD.size, shape=(records + 1,))
    raise DamageError(
        f"{path.name} is not a whole offset index ({size:,} bytes).",
        where=str(path),
        hint="rebuild it from the shard: `provender build` of its dataset",
        facts={"file": str(path), "size": size},
    )


def index_file(shard: str | Path) -> Path:
    """Where the index of a shard lies when nobody says otherwise: beside it."""
    return Path(f"{shard}{SUFFIX}")


class ShardReader:
    """Random access to the records of one TFRecord file.

    Args:
        shard: path, or an open seekable binary file (which the caller closes).
        offsets: index array, path of an index file, or None for the file beside the shard.
        verify: check each record's checksum.

    Raises:
        DamageError: the index does not belong to a file of this size.
        StoreError: a file cannot be read.
    """

    def __init__(
        self,
        shard: str | Path | BinaryIO,
        offsets: np.ndarray | str | Path | None = None,
        verify: bool = True,
    ) -> None:
        if isinstance(shard, (str, Path)):
            self.name = str(shard)
            path = Path(shard)
            with told_as_ours(path):
                self._file: BinaryIO = path.open("rb", buffering=0)
            self._owned = True
        else:
            self.name = str(getattr(shard, "name", shard))
            self._file = shard
            self._owned = False
        try:
            if offsets is None:
                offsets = index_file(self.name)
            if isinstance(offsets, (str, Path)):
                offsets = read_offsets(Path(offsets))
            self.offsets = offsets
            self._check_size()
            # Four times as fast to index as the array.
            self._count = len(offsets) - 1
            self._bounds: Any = memoryview(np.asarray(offsets, np.uint64))  # type: ignore[arg-type]
        except BaseException:
            self.close()
            raise
        self._verify = verify

    def _check_size(self) -> None:
        size = self._file.seek(0, os.SEEK_END)
        if size != int(self.offsets[-1]):
            raise DamageError(
                f"{Path(self.name).name} has {size:,} bytes, its index says {int(self.offsets[-1]):,}.",
                where=self.name,
                hint="rebuild the shard: `provender build` of its dataset",
                facts={"file": self.name, "size": size, "expected": int(self.offsets[-1])},
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def read(self, i: int) -> bytes:
        """The payload of record ``i`` (from 0).

        Raises:
            UnknownReference: no such record.
            DamageError: the record is damaged.
        """
        if not 0 <= i < self._count:
            raise UnknownReference(
                f"Record {i} was asked for, the file has {len(self)}.",
                where=self.name,
                hint=f"ask for 0 to {len(self) - 1}",
            )
        start, end = self._bounds[i], self._bounds[i + 1]
        if self._owned:
            record = os.pread(self._file.fileno(), end - start, start)
        else:
            self._file.seek(start)
            record = self._file.read(end - start)
        return self._payload(record, i, start)

    def iter(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yields the payloads of records ``start`` to ``end`` (excluded), reading about 1 MiB at a time.

        Raises:
            DamageError: a record is damaged.
        """
        stop = len(self) if end is None else min(end, len(self))
        at = max(start, 0)
        while at < stop:
            first = int(self.offsets[at])
            upto = int(np.searchsorted(self.offsets, first + (1 << 20), "right")) - 1
            upto = min(max(upto, at + 1), stop)
            bounds = self.offsets[at : upto + 1].tolist()
            self._file.seek(first)
            block = self._file.read(bounds[-1] - first)
            for i, (low, high) in enumerate(pairwise(bounds)):
                yield self._payload(block[low - first : high - first], at + i, low)
            at = upto

    def _payload(self, record: bytes, i: int, offset: int) -> bytes:
        if self._verify and (payload := whole_payload(record)) is not None:
            return payload
        spot: dict[str, Any] = {"name": self.name, "record": i, "offset": offset}
        length = parse_header(record[:HEADER_BYTES], **spot)
        if not self._verify:
            return record[HEADER_BYTES : HEADER_BYTES + length]
        if length + OVERHEAD != len(record):
            raise DamageError(
                f"Record {i} of {Path(self.name).name} is not where its index says.",
                where=self.name,
                hint="rebuild the index: `provender build` of its dataset",
                facts={"file": self.name, "record": i, "offset": offset},
            )
        return check_body(record[HEADER_BYTES:], length, **spot)

    def close(self) -> None:
        """Closes the file if this reader opened it."""
        if self._owned:
            self._file.close()

    def __enter__(self) -> ShardReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
