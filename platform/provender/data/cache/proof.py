"""Proving that segments hold what was written, and remembering the proof as long as it holds.

A file that was proven is known by device, inode, size, modification and change time. The change
time cannot be set back by a program, so flipped bytes under a restored modification time are
noticed. Small results are read again each time: that costs less than being sure without it.
"""

from __future__ import annotations

import functools
import mmap
import os
import time
from collections.abc import Iterable
from typing import Any

from provender.data.cache.files import read_json, write_json
from provender.data.cache.layout import Segment
from provender.errors import ProvenderError

ALWAYS_READ_BYTES = 64 << 20
"""An entry up to this size is read and digested at every use."""

MEMO = "proven.json"
_BLOCK = 8 << 20
# A file changed twice within one tick of its file system's clock looks the same both times, so the
# proof of a file that is this young is not remembered.
_RACY_NS = 2_000_000_000


def damaged(folder: str, segments: Iterable[Segment], *, thorough: bool = False) -> list[Segment]:
    """The segments whose files are not what was written.

    Args:
        folder: the entry's folder.
        segments: what should be there.
        thorough: read every byte, whatever was proven before.

    Returns:
        Those whose file is gone, has another size or another content.
    """
    todo = list(segments)
    looks = [_looks(os.path.join(folder, each.file)) for each in todo]
    total = sum(each.size for each in todo)
    memo = {} if thorough or total <= ALWAYS_READ_BYTES else _recall(folder)
    bad: list[Segment] = []
    proven: dict[str, Any] = {}
    read_any = False
    for segment, look in zip(todo, looks, strict=True):
        if look is None or look[2] != segment.size:
            bad.append(segment)
        elif memo.get(segment.file) == look:
            proven[segment.file] = look
        else:
            read_any = True
            path = os.path.join(folder, segment.file)
            if digest_of(path) != segment.digest:
                bad.append(segment)
            elif _looks(path) == look and time.time_ns() - max(look[3], look[4]) > _RACY_NS:
                proven[segment.file] = look
    if read_any and total > ALWAYS_READ_BYTES and proven:
        _remember(folder, proven)
    return bad


def digest_of(path: str) -> str | None:
    """XXH3, 128 bits, of a file; None where it cannot be read."""
    import xxhash

    hasher = xxhash.xxh3_128()
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                return hasher.hexdigest()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                if hasattr(mapped, "madvise"):
                    mapped.madvise(mmap.MADV_SEQUENTIAL)
                with memoryview(mapped) as view:
                    for at in range(0, size, _BLOCK):
                        hasher.update(view[at : at + _BLOCK])
    except (OSError, ValueError):
        return None
    return hasher.hexdigest()


def _looks(path: str) -> list[int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _recall(folder: str) -> dict[str, Any]:
    doc = read_json(os.path.join(folder, MEMO)) or {}
    files = doc.get("files")
    # What was written before a crash of the machine may never have reached the disk.
    return files if doc.get("boot") == _boot() and isinstance(files, dict) else {}


def _remember(folder: str, proven: dict[str, Any]) -> None:
    try:
        write_json(os.path.join(folder, MEMO), {"boot": _boot(), "files": proven})
    except ProvenderError:
        pass  # read-only or full: it is proven anew next time


@functools.lru_cache(maxsize=1)
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
