"""Records of many TFRecord files, read by number in blocks.

Blocks are read with ``pread`` in the order of the files, which releases Python's lock while the
disk works, and checked all at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from provender.errors import DamageError
from provender.records.atomic import told_as_ours
from provender.records.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    OVERHEAD,
    check_body,
    parse_header,
)

_MASK_DELTA = np.uint32(0xA282EAD8)
_MOST_OPEN = 256
"""Files that stay open; half of what a process may commonly open is the trainer's."""


@dataclass(eq=False)
class RecordFile:
    """Consecutive records of one file.

    Attributes:
        name: the file's name, the same on every machine.
        start: first record.
        stop: one after the last.
        locate: gives the local path and the offsets; called when the file is first read.
    """

    name: str
    start: int
    stop: int
    locate: Callable[[], tuple[Path, np.ndarray]]
    _found: tuple[Path, np.ndarray] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.stop - self.start

    def found(self) -> tuple[Path, np.ndarray]:
        """The local path and the ``n + 1`` offsets of the whole file.

        Raises:
            DamageError: the file has not the size that its index says.
        """
        if self._found is None:
            path, offsets = self.locate()
            with told_as_ours(path):
                size = path.stat().st_size
            if size != int(offsets[-1]):
                raise DamageError(
                    f"{path.name} has {size:,} bytes, its index says {int(offsets[-1]):,}.",
                    where=str(path),
                    hint="Was it written again while it is read? Start anew.",
                    facts={"file": str(path), "size": size, "expected": int(offsets[-1])},
                )
            self._found = path, offsets
        return self._found


class RecordBlocks:
    """The records of files, one after the other, by number. May be used by several threads.

    Args:
        files: in order.
        verify: check the checksums of what is read; lengths are always checked.
    """

    def __init__(self, files: Sequence[RecordFile], verify: bool = True) -> None:
        self.files = tuple(files)
        self._verify = verify
        self._ends = np.cumsum([len(each) for each in self.files], dtype=np.int64)
        self._descriptors: dict[int, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, numbers: np.ndarray) -> list[bytes]:
        """Payloads of records, in the order asked for.

        Args:
            numbers: int64, shape ``[count]``, each at least 0 and below ``len(self)``.

        Raises:
            DamageError: a record is damaged; it says which and where.
            StoreError: a file cannot be read.
        """
        found: list[bytes] = [b""] * len(numbers)
        owners = np.searchsorted(self._ends, numbers, "right")
        for at in np.unique(owners).tolist():
            places = np.flatnonzero(owners == at)
            file = self.files[at]
            before = int(self._ends[at]) - len(file)
            records = numbers[places] - before + file.start
            # In file order, so that the disk is read forwards and neighbours share its pages.
            order = np.argsort(records, kind="stable")
            payloads = self._from_file(at, records[order])
            for place, payload in zip(places[order].tolist(), payloads, strict=True):
                found[place] = payload
        return found

    def _from_file(self, at: int, records: np.ndarray) -> list[bytes]:
        path, offsets = self.files[at].found()
        starts = offsets[records].astype(np.int64)
        sizes = offsets[records + 1].astype(np.int64) - starts
        pread = os.pread
        with told_as_ours(path), self._descriptor(at, path) as fd:
            raw = [
                pread(fd, size, start)
                for size, start in zip(sizes.tolist(), starts.tolist(), strict=True)
            ]
        payloads = [each[HEADER_BYTES:-FOOTER_BYTES] for each in raw]
        if not _holds(raw, payloads, sizes, self._verify):
            _tell_damage(str(path), raw, records.tolist(), starts.tolist())
        return payloads

    @contextmanager
    def _descriptor(self, at: int, path: Path) -> Iterator[int]:
        with self._lock:
            kept = self._descriptors.get(at)
            if kept is None:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                if len(self._descriptors) < _MOST_OPEN:
                    kept = self._descriptors[at] = fd
        if kept is not None:
            yield kept
            return
        try:
            yield fd
        finally:
            os.close(fd)

    def close(self) -> None:
        """Closes the files; reading again opens them again."""
        with self._lock:
            for fd in self._descriptors.values():
                with suppress(OSError):
                    os.close(fd)
            self._descriptors.clear()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files, "verify": self._verify}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["files"], state["verify"])  # type: ignore[misc]


def _holds(
    raw: Sequence[bytes], payloads: Sequence[bytes], sizes: np.ndarray, verify: bool
) -> bool:
    """Whether records are where the index says, whole, and with the right checksums."""
    heads = b"".join([each[:8] for each in raw])
    if len(heads) != 8 * len(raw):
        return False
    if not np.array_equal(np.frombuffer(heads, "<u8").astype(np.int64) + OVERHEAD, sizes):
        return False
    if not verify:
        return True
    footers = np.frombuffer(b"".join([each[-FOOTER_BYTES:] for each in raw]), "<u4")
    crcs = np.array(list(map(google_crc32c.value, payloads)), np.uint32)
    masked = ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + _MASK_DELTA
    return np.array_equal(masked, footers)


def _tell_damage(
    path: str, raw: Sequence[bytes], records: Sequence[int], starts: Sequence[int]
) -> None:
    """Raises for the first of the records that is damaged."""
    for data, record, start in zip(raw, records, starts, strict=True):
        spot: dict[str, Any] = {"name": path, "record": record, "offset": start}
        length = parse_header(data[:HEADER_BYTES], **spot)
        check_body(data[HEADER_BYTES:], length, **spot)
        if length + OVERHEAD != len(data):
            raise DamageError(
                f"Record {record} of {Path(path).name} is not where its index says.",
                where=path,
                hint="Was the file written again while it is read? Start anew.",
                facts={"file": path, "record": record, "offset": start},
            )
