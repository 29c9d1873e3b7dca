"""Where the records of a plain TFRecord file begin, found once and remembered.

A file that has an index beside it (``<file>.offsets``, as Provender writes them) is not looked at
again. Others are walked from header to header once; the index is kept in ``<home>/offsets`` under a
name made of the file's path, size, time of change and inode, so that a file written anew is walked
anew. The folder may be removed at any time.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np

from provender.errors import DamageError, MissingFiles, SettingsError
from provender.records.atomic import told_as_ours
from provender.records.offsets import SUFFIX, index_file, read_offsets, write_offsets
from provender.records.tfrecord import HEADER_BYTES, OVERHEAD, parse_header

FOLDER = "offsets"
_PACKED = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""First bytes of gzip and zlib files."""


def offsets_of(path: Path, home: Path) -> np.ndarray:
    """The offsets of a file's records.

    Args:
        path: the TFRecord file.
        home: folder of the project, which keeps what was found.

    Returns:
        ``n + 1`` byte offsets, ``<u8``, the last one being the size of the file.

    Raises:
        MissingFiles: there is no such file.
        SettingsError: the file is compressed, so that its records cannot be read by number.
        DamageError: it is no TFRecord file, or is cut off.
        StoreError: it cannot be read.
    """
    if not path.is_file():
        raise MissingFiles(
            f"There is no file {path.name}.", where=str(path), hint="Check input_path."
        )
    with told_as_ours(path):
        facts = path.stat()
    kept = home / FOLDER / f"{_identity(path, facts)}{SUFFIX}"
    for place in (index_file(path), kept):
        found = _fitting(place, facts)
        if found is not None:
            return found
    found = scan(path)
    with told_as_ours(kept.parent):
        kept.parent.mkdir(parents=True, exist_ok=True)
    write_offsets(kept, found)
    return found


def _identity(path: Path, facts: os.stat_result) -> str:
    text = f"{path.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{facts.st_ino}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _fitting(index: Path, facts: os.stat_result) -> np.ndarray | None:
    """An index that is there, whole, no older than its file, and of a file of this size."""
    with suppress(OSError, DamageError):
        if index.stat().st_mtime_ns >= facts.st_mtime_ns:
            found = read_offsets(index)
            if int(found[-1]) == facts.st_size:
                return found
    return None


def scan(path: Path) -> np.ndarray:
    """Walks a TFRecord file from header to header.

    Args:
        path: the file.

    Returns:
        ``n + 1`` byte offsets, ``<u8``.

    Raises:
        SettingsError: the file is compressed.
        DamageError: a header does not hold, or the file is cut off.
        StoreError: it cannot be read.
    """
    with told_as_ours(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return np.zeros(1, "<u8")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            data.madvise(mmap.MADV_SEQUENTIAL)
            _refuse_compressed(path, data[:HEADER_BYTES])
            offsets = _walk(data, size)
            _check_end(path, data, offsets, size)
    return np.array(offsets, "<u8")


def _walk(data: mmap.mmap, size: int) -> list[int]:
    """Offsets up to the end, or up to the first record that leaves the file."""
    unpack = struct.Struct("<Q").unpack_from
    offsets, at, last = [0], 0, size - OVERHEAD
    while at <= last:
        at += unpack(data, at)[0] + OVERHEAD
        offsets.append(at)
    return offsets


def _check_end(path: Path, data: mmap.mmap, offsets: list[int], size: int) -> None:
    """A damaged length leads to a wrong end nearly always; headers say then where it began."""
    if offsets[-1] == size:
        return
    for record, offset in enumerate(offsets):
        spot = {"name": str(path), "record": record, "offset": offset}
        parse_header(data[offset : offset + HEADER_BYTES], **spot)  # type: ignore[arg-type]
        if record + 1 < len(offsets) and offsets[record + 1] > size:
            raise DamageError(
                f"{path.name} ends inside record {record}.",
                where=str(path),
                hint="Copy or write the file again.",
                facts=spot,
            )


def _refuse_compressed(path: Path, head: bytes) -> None:
    if not head.startswith(_PACKED):
        return
    length, _ = struct.unpack("<QI", head.ljust(HEADER_BYTES, b"\0"))
    if length + OVERHEAD <= path.stat().st_size:
        return  # a record of that length, by chance
    raise SettingsError(
        f"{path.name} is compressed, and records of a compressed file cannot be read by number.",
        where=str(path),
        hint="Write it uncompressed, or set global_shuffle to false.",
    )
