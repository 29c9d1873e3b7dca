"""What stands for a file's content: what the other side says it is, or a digest of the bytes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.data.sources.access.files import DataFile, open_reader
from provender.store.paths import split_scheme

if TYPE_CHECKING:
    from provender.builders.download import DigestMemory

WHOLE = 64 << 20
"""Larger local files are sampled where a quick answer is wanted."""

_BLOCK = 4 << 20
_SAMPLES = 64
_SAMPLE = 64 << 10
# A file changed twice within a tick of the file system's clock looks the same both times.
_YOUNG_NS = 2_000_000_000
_MOST = 100_000
_remembered: dict[tuple[Any, ...], str] = {}


def content_of(file: DataFile, *, quick: bool = False, memory: DigestMemory | None = None) -> str:
    """A short text that stands for a file's content.

    Object stores say it themselves (crc32c, ETag; together with the size). Local files are read
    and the digest is remembered as long as path, inode, size and both times stay what they are.

    Args:
        file: the file.
        quick: take the size and 64 samples of a large local file instead of reading it whole.
            Good for telling that a saved position belongs to the file, not for a cache.
        memory: where digests are remembered.
    """
    if file.content:
        return f"{file.size}:{file.content}"
    if split_scheme(file.url)[0] == "file" and "::" not in file.url:
        return _local(file, quick, memory)
    if file.token and not file.token.endswith("|"):
        return f"{file.size}:{file.token}"
    return f"{file.size}:{_digest(file, quick)}"


def _local(file: DataFile, quick: bool, memory: DigestMemory | None) -> str:
    if quick or memory is None:
        info = Path(file.url).stat()
        looks = (file.url, quick, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
        found = _remembered.get(looks)
        if found is None:
            found = f"{file.size}:{_digest(file, quick)}"
            if time.time_ns() - info.st_ctime_ns > _YOUNG_NS:
                _remembered[looks] = found
                while len(_remembered) > _MOST:
                    del _remembered[next(iter(_remembered))]
        return found
    return f"{file.size}:sha256:{memory.digest(Path(file.url)).sha256}"


def _digest(file: DataFile, quick: bool) -> str:
    import xxhash

    hasher = xxhash.xxh3_128()
    with open_reader(file) as reader:
        if quick and file.size > WHOLE:
            last = file.size - _SAMPLE
            for number in range(_SAMPLES):
                hasher.update(reader.read(last * number // (_SAMPLES - 1), _SAMPLE))
            return f"sampled:{hasher.hexdigest()}"
        for start in range(0, reader.size, _BLOCK):
            hasher.update(reader.read(start, min(_BLOCK, reader.size - start)))
    return f"xxh3:{hasher.hexdigest()}"
