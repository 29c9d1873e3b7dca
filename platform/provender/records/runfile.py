"""Run files: the sorted pieces in which a part of a split waits to be merged into shards.

A run is a few files with one stem, e.g. ``part-00000-of-00002.run-0003``:

- ``.rec``: TFRecords, sorted by key digest;
- ``.idx``: one row of five little-endian u64 a record, in file order: digest (high, low half),
  generator position, byte offset of the record, payload size;
- ``.keys``: the keys in generation order, one Python list literal a line (only read to name keys);
- ``.stats``: what whoever asked for the run made of its records, where somebody did;
- ``.json``: what `Run` holds. It is written last, so a run without it does not exist.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from provender.errors import DamageError
from provender.records.atomic import AtomicFile, told_as_ours, write_json
from provender.records.keys import DIGEST_BYTES
from provender.records.tfrecord import FOOTER_BYTES, OVERHEAD

INDEX_COLUMNS = 5
HIGH, LOW, POSITION, OFFSET, SIZE = range(INDEX_COLUMNS)
ROW_BYTES = 8 * INDEX_COLUMNS
SUFFIXES = (".rec", ".idx", ".keys", ".stats", ".json")

Summarize = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], bytes | None]
"""Makes the ``.stats`` file of a run, or None for none: takes a buffer (uint8), where each payload
begins in it and its bytes (int64), in generation order, and both halves of its key's digest (u64)."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ChunkDigest:
    """Content of a chunk of consecutive examples: its number, count, and xxh3-128 in hex."""

    number: int
    examples: int
    digest: str


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of one run.

    Attributes:
        name: stem of its files.
        examples: number of records.
        payload_bytes: serialized examples, without framing.
        files: suffix -> (size in bytes, xxh3-128 in hex).
        chunks: the chunks that end in this run.
        complete: the run ends where a chunk ends.
    """

    name: str
    examples: int
    payload_bytes: int
    files: dict[str, tuple[int, str]]
    chunks: tuple[ChunkDigest, ...]
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {**asdict(self), "chunks": [[c.number, c.examples, c.digest] for c in self.chunks]}

    @classmethod
    def from_json(cls, doc: dict[str, Any]) -> Run:
        """Reads what `to_json` wrote."""
        files = {
            suffix: (int(size), str(digest)) for suffix, (size, digest) in doc["files"].items()
        }
        chunks = tuple(ChunkDigest(*chunk) for chunk in doc["chunks"])
        return cls(**{**doc, "files": files, "chunks": chunks})


def verify_run(directory: Path, run: Run) -> None:
    """Re-reads a run's files.

    Raises:
        DamageError: a file is missing, cut off, or holds other bytes than were written.
    """
    for suffix, (size, digest) in run.files.items():
        path = directory / (run.name + suffix)
        found = _file_digest(path)
        if found != (size, digest):
            if found is None:
                what = "is missing"
            elif found[0] != size:
                what = f"has {found[0]:,} bytes, {size:,} were written"
            else:
                what = "holds other bytes than were written"
            raise DamageError(
                f"{path.name} {what}.",
                where=str(path),
                hint="run the build again; the part is encoded anew from there",
                facts={"file": str(path), "expected": [size, digest], "found": found},
            )


def _file_digest(path: Path) -> tuple[int, str] | None:
    state = xxhash.xxh3_128()
    size = 0
    buffer = bytearray(_BLOCK)
    view = memoryview(buffer)
    with told_as_ours(path):
        try:
            file = path.open("rb", buffering=0)
        except FileNotFoundError:
            return None
        with file:
            while count := file.readinto(buffer):
                state.update(view[:count])
                size += count
    return size, state.hexdigest()


def sort_order(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Positions that sort 128-bit digests given as two u64 arrays; equal ones keep their order."""
    order = np.argsort(high)
    in_order = high[order]
    if (in_order[1:] == in_order[:-1]).any():
        return np.lexsort((low, high))
    return order


@dataclass(slots=True)
class _Batch:
    digests: bytes
    sizes: list[int]
    first: int
    keys: str


@dataclass(slots=True)
class RunBuffer:
    """Framed records of one run in memory, until they are sorted and written.

    One preallocated block holds the bytes: fresh memory costs more than the copy.

    Args:
        capacity: bytes of framed records that it holds.
    """

    capacity: int
    used: int = 0
    records: int = 0
    payload_bytes: int = 0
    _batches: list[_Batch] = field(default_factory=list)
    _marked: tuple[int, int, int, int] = (0, 0, 0, 0)
    _view: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self._view = np.empty(self.capacity, np.uint8).data

    def add(self, framed: bytes, sizes: list[int], digests: bytes, first: int, keys: str) -> None:
        """Appends consecutive examples.

        Args:
            framed: their TFRecords, joined.
            sizes: their payload sizes.
            digests: their key digests, joined.
            first: generator position of the first.
            keys: their keys as one list literal.
        """
        end = self.used + len(framed)
        if end > self.capacity:
            self._grow(end)
        self._view[self.used : end] = framed
        self.used = end
        self.records += len(sizes)
        self.payload_bytes += len(framed) - OVERHEAD * len(sizes)
        self._batches.append(_Batch(digests, sizes, first, keys))

    def _grow(self, capacity: int) -> None:
        larger = np.empty(capacity, np.uint8).data
        larger[: self.used] = self._view[: self.used]
        self._view = larger
        self.capacity = capacity

    def mark(self) -> None:
        """Remembers the end of a whole chunk."""
        self._marked = (self.used, self.records, self.payload_bytes, len(self._batches))

    def drop_unmarked(self) -> None:
        """Forgets everything after the last mark."""
        self.used, self.records, self.payload_bytes, batches = self._marked
        del self._batches[batches:]

    def clear(self, capacity: int) -> None:
        """Empties the buffer, and gives back memory beyond ``capacity`` bytes."""
        self.used = self.records = self.payload_bytes = 0
        self._batches.clear()
        self.mark()
        if self.capacity > capacity:
            self.capacity = capacity
            self._view = np.empty(capacity, np.uint8).data

    def write(
        self,
        directory: Path,
        name: str,
        chunks: tuple[ChunkDigest, ...],
        complete: bool,
        summarize: Summarize | None = None,
    ) -> Run:
        """Sorts the records and writes them as a run.

        Raises:
            DiskFull, StoreError: it cannot be written.
        """
        halves, sizes = self._contents()
        index, starts, framed = self._index(halves, sizes)
        files = {
            ".rec": self._write_records(directory / f"{name}.rec", starts, framed),
            ".idx": _write_whole(directory / f"{name}.idx", index.tobytes()),
            ".keys": _write_whole(
                directory / f"{name}.keys", "\n".join(b.keys for b in self._batches).encode()
            ),
        }
        if summarize is not None and (made := self._summary(summarize, halves, sizes)) is not None:
            files[".stats"] = _write_whole(directory / f"{name}.stats", made)
        run = Run(name, self.records, self.payload_bytes, files, chunks, complete)
        write_json(directory / f"{name}.json", run.to_json())
        return run

    def _contents(self) -> tuple[np.ndarray, np.ndarray]:
        """In generation order: both halves of the key digests, and the payload sizes."""
        halves = np.frombuffer(b"".join([b.digests for b in self._batches]), ">u8")
        halves = halves.astype(np.uint64).reshape(-1, DIGEST_BYTES // 8)
        return halves, np.concatenate([np.array(b.sizes, np.int64) for b in self._batches])

    def _summary(self, summarize: Summarize, halves: np.ndarray, sizes: np.ndarray) -> bytes | None:
        starts = np.cumsum(sizes + OVERHEAD) - sizes - FOOTER_BYTES
        buffer = np.frombuffer(self._view, np.uint8, self.used)
        return summarize(buffer, starts, sizes, halves[:, 0], halves[:, 1])

    def _index(
        self, halves: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """In sorted order: the index rows, where each record begins in the buffer, its framed size."""
        positions = np.concatenate(
            [np.arange(b.first, b.first + len(b.sizes)) for b in self._batches]
        )
        framed = sizes + OVERHEAD
        order = sort_order(halves[:, 0], halves[:, 1])
        index = np.empty((len(order), INDEX_COLUMNS), "<u8")
        index[:, HIGH : LOW + 1] = halves[order]
        index[:, POSITION] = positions[order]
        index[:, SIZE] = sizes[order]
        sorted_framed = framed[order]
        index[:, OFFSET] = np.cumsum(sorted_framed) - sorted_framed
        return index, (np.cumsum(framed) - framed)[order], sorted_framed

    def _write_records(self, path: Path, starts: np.ndarray, framed: np.ndarray) -> tuple[int, str]:
        state = xxhash.xxh3_128()
        with AtomicFile(path) as file:
            for block in gather(self._view, starts, framed):
                state.update(block)
                file.write(block)
        return file.size, state.hexdigest()


def gather(view: memoryview, starts: np.ndarray, sizes: np.ndarray) -> Iterator[bytes]:
    """Yields the pieces ``view[start : start + size]``, joined to blocks of about 1 MiB.

    Args:
        view: the bytes.
        starts: int64 array, in output order.
        sizes: int64 array of the same length.
    """
    mean = max(1, int(sizes.sum()) // max(1, len(sizes)))
    step = max(1, _BLOCK // mean)
    ends = starts + sizes
    for first in range(0, len(starts), step):
        lows = starts[first : first + step].tolist()
        highs = ends[first : first + step].tolist()
        yield b"".join([view[low:high] for low, high in zip(lows, highs, strict=True)])


def _write_whole(path: Path, data: bytes) -> tuple[int, str]:
    with AtomicFile(path) as file:
        file.write(data)
    return len(data), xxhash.xxh3_128_hexdigest(data)


def keys_literal(keys: list[Any]) -> str:
    """Keys as one line that `find_key` reads."""
    if set(map(type, keys)) <= {str, int, bytes}:
        return repr(keys)
    return repr([key.item() if isinstance(key, np.ndarray) else str(key) for key in keys])


def find_key(directory: Path, run: Run, position: int) -> Any:
    """The key of the example at a generator position that lies in ``run``.

    Raises:
        StoreError: a file of the run cannot be read.
    """
    index = directory / f"{run.name}.idx"
    with told_as_ours(index):
        rows = np.fromfile(index, "<u8").reshape(-1, INDEX_COLUMNS)
        lines = (directory / f"{run.name}.keys").read_text().split("\n")
    place = int((rows[:, POSITION] < position).sum())
    for line in lines:
        keys = ast.literal_eval(line)
        if place < len(keys):
            return keys[place]
        place -= len(keys)
    return None
