"""Merges the runs of a split into shards, each shard independent of the others.

`plan_order` goes through the sorted indexes once, in windows of some megabytes of records bounded
by sampled pivots, and finds duplicate keys before anything is written. It leaves an `Order`: for
each window, where it begins in each run. With it any range of ranks, so any shard for any number
of shards, can be written alone, by whatever process, in bounded memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import google_crc32c
import numpy as np

from provender.errors import BuilderError, DamageError, DuplicateKeyError
from provender.records.atomic import AtomicFile, told_as_ours, write_json
from provender.records.offsets import index_file, index_header
from provender.records.runfile import (
    HIGH,
    INDEX_COLUMNS,
    LOW,
    OFFSET,
    POSITION,
    ROW_BYTES,
    SIZE,
    Run,
    find_key,
    gather,
    sort_order,
    verify_run,
)
from provender.records.runs import PartResult, check_parts
from provender.records.tfrecord import FOOTER_BYTES, HEADER_BYTES, OVERHEAD

_WINDOW_BYTES = 8 << 20
_MAX_WINDOW_BYTES = 48 << 20
# With many runs a window must still read a worthwhile piece of each.
_BYTES_PER_RUN = 16 << 10
_WINDOW_RECORDS = 1 << 17
_SAMPLES_PER_WINDOW = 16
_OPEN_FILES = 256
_ORDER = "order.json"
_CUTS = "order.npy"


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a split's examples, spread over its runs.

    Attributes:
        directory: where the runs are.
        runs: the runs, columns of ``cuts``.
        examples: number of examples.
        payload_bytes: their serialized size, without framing (TFDS's ``num_bytes``).
        cuts: int64 ``[windows + 1, runs]``: how many records of each run precede each window.
    """

    directory: Path
    runs: tuple[Run, ...]
    examples: int
    payload_bytes: int
    cuts: np.ndarray

    @classmethod
    def load(cls, directory: str | Path) -> Order:
        """Reads the order that `plan_order` left in a run directory.

        Raises:
            StoreError: there is none, or it cannot be read.
        """
        home = Path(directory)
        with told_as_ours(home / _ORDER):
            doc = json.loads((home / _ORDER).read_bytes())
            cuts = np.load(home / _CUTS, mmap_mode="r")
        runs = tuple(map(Run.from_json, doc["runs"]))
        return cls(home, runs, doc["examples"], doc["payload_bytes"], cuts)

    def save(self) -> None:
        """Writes the order beside the runs."""
        path = self.directory / _CUTS
        with AtomicFile(path) as file:
            header = {"descr": "<i8", "fortran_order": False, "shape": self.cuts.shape}
            np.lib.format.write_array_header_1_0(_Appender(file), header)
            file.write(self.cuts.astype("<i8").tobytes())
        write_json(
            self.directory / _ORDER,
            {
                "examples": self.examples,
                "payload_bytes": self.payload_bytes,
                "runs": [run.to_json() for run in self.runs],
            },
        )


class _Appender:
    def __init__(self, file: AtomicFile) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        self._file.write(data)
        return len(data)


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A finished shard and its offset index.

    Attributes:
        name: file name.
        size: bytes.
        sha256: hex.
        crc32c: hex of the big-endian value, 8 digits (what GCS shows in base64).
        examples: records.
        payload_bytes: serialized examples, without framing.
        index_name: file name of the offset index.
        index_size: bytes.
        index_sha256: hex.
    """

    name: str
    size: int
    sha256: str
    crc32c: str
    examples: int
    payload_bytes: int
    index_name: str
    index_size: int
    index_sha256: str

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, doc: dict[str, Any]) -> ShardFile:
        """Reads what `to_json` wrote."""
        return cls(**doc)


# --- planning ----------------------------------------------------------------------------------


def plan_order(run_dir: str | Path, results: Sequence[PartResult], verify: bool = True) -> Order:
    """Finds the order of all examples of a split, and writes it beside the runs.

    Args:
        run_dir: where the runs of all parts are.
        results: all parts, in any order.
        verify: re-read the runs and compare their digests first.

    Raises:
        DuplicateKeyError: two examples have one key; ``facts`` hold both: position, key, values.
        DamageError: a run is missing or is not what was written.
        BuilderError: parts are missing or disagree.
    """
    check_parts(results)
    directory = Path(run_dir)
    ordered = sorted(results, key=lambda result: result.part)
    runs = tuple(run for result in ordered for run in result.runs)
    if verify:
        for run in runs:
            verify_run(directory, run)
    with _RunFiles(directory, runs) as files:
        cuts = _cut(files, _window_records(runs))
        _refuse_duplicates(files, cuts)
    order = Order(
        directory,
        runs,
        sum(run.examples for run in runs),
        sum(run.payload_bytes for run in runs),
        cuts,
    )
    order.save()
    return order


def _window_records(runs: Sequence[Run]) -> int:
    """How many records a window should hold."""
    records = sum(run.examples for run in runs)
    framed = sum(run.payload_bytes for run in runs) + records * (OVERHEAD + ROW_BYTES)
    window = min(max(_WINDOW_BYTES, len(runs) * _BYTES_PER_RUN), _MAX_WINDOW_BYTES)
    return max(1, min(_WINDOW_RECORDS, window * max(records, 1) // max(framed, 1)))


def _cut(files: _RunFiles, window: int) -> np.ndarray:
    """Where each window begins in each run: ``[windows + 1, runs]``."""
    runs = files.runs
    pivots = _pivots(files, window)
    cuts = np.zeros((len(pivots) + 2, len(runs)), np.int64)
    for column, run in enumerate(runs):
        cuts[-1, column] = run.examples
        if len(pivots):
            cuts[1:-1, column] = _search(files.index(column, 0, run.examples), pivots)
    return cuts


def _pivots(files: _RunFiles, window: int) -> np.ndarray:
    """Digests (as rows of two u64) that cut all records into windows of about equal count."""
    stride = max(1, window // _SAMPLES_PER_WINDOW)
    samples = []
    phase = stride // 2
    for column, run in enumerate(files.runs):
        rows = files.index(column, 0, run.examples)
        samples.append(rows[phase::stride, HIGH : LOW + 1])
        phase = (phase - run.examples) % stride
    drawn = np.concatenate(samples) if samples else np.zeros((0, 2), np.uint64)
    drawn = drawn[sort_order(drawn[:, 0], drawn[:, 1])]
    every = max(1, window // stride)
    return drawn[every::every]


def _search(rows: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """For each pivot the number of rows below it."""
    high = np.ascontiguousarray(rows[:, HIGH])
    found = np.searchsorted(high, pivots[:, 0], "left")
    upto = np.searchsorted(high, pivots[:, 0], "right")
    for i in np.flatnonzero(upto > found).tolist():
        low = rows[found[i] : upto[i], LOW]
        found[i] += np.searchsorted(low, pivots[i, 1], "left")
    return found


def _refuse_duplicates(files: _RunFiles, cuts: np.ndarray) -> None:
    pairs = 0
    first: tuple[int, int, np.ndarray, np.ndarray] | None = None
    for window in range(len(cuts) - 1):
        rows, owners, order = _window(files, cuts[window], cuts[window + 1])
        high, low = rows[order, HIGH], rows[order, LOW]
        same = np.flatnonzero((high[1:] == high[:-1]) & (low[1:] == low[:-1]))
        pairs += len(same)
        if len(same) and first is None:
            a, b = sorted(
                order[same[0] : same[0] + 2].tolist(), key=lambda i: int(rows[i, POSITION])
            )
            first = int(owners[a]), int(owners[b]), rows[a].copy(), rows[b].copy()
    if first is not None:
        raise _duplicate(files, pairs, *first)


def _duplicate(
    files: _RunFiles, pairs: int, run_a: int, run_b: int, row_a: np.ndarray, row_b: np.ndarray
) -> DuplicateKeyError:
    both = []
    for column, row in ((run_a, row_a), (run_b, row_b)):
        position = int(row[POSITION])
        both.append(
            {
                "position": position,
                "key": find_key(files.directory, files.runs[column], position),
                "example": _describe(files.record(column, int(row[OFFSET]), int(row[SIZE]))),
            }
        )
    keys = [one["key"] for one in both]
    named = (
        f"the key {keys[0]!r}" if keys[0] == keys[1] else f"one key, {keys[0]!r} and {keys[1]!r}"
    )
    more = f" ({pairs - 1} more like these)" if pairs > 1 else ""
    return DuplicateKeyError(
        f"Examples {both[0]['position']} and {both[1]['position']} share {named}{more}.",
        where="; ".join(f"example {one['position']}: {one['example']}" for one in both),
        hint="make the keys that _generate_examples yields unique within the split",
        facts={
            "digest": f"{int(row_a[HIGH]):016x}{int(row_a[LOW]):016x}",
            "first": both[0],
            "second": both[1],
            "pairs": pairs,
        },
    )


def _describe(payload: bytes) -> str:
    """An example's values in a few words."""
    from tensorflow_datasets.proto import tf_example_pb2

    feature_map = tf_example_pb2.Example.FromString(payload).features.feature
    shown = []
    for name in sorted(feature_map):
        kind = feature_map[name].WhichOneof("kind")
        values = list(getattr(feature_map[name], kind).value[:4]) if kind else []
        texts = [repr(v[:60] if isinstance(v, bytes) else v) for v in values]
        shown.append(f"{name}={', '.join(texts)}")
    text = "{" + "; ".join(shown) + "}"
    return text if len(text) <= 300 else text[:299] + "…"


# --- writing -----------------------------------------------------------------------------------


def write_shard(
    order: Order,
    start_rank: int,
    end_rank: int,
    path: str | Path,
    index_path: str | Path | None = None,
) -> ShardFile:
    """Writes the examples of ranks ``start_rank`` to ``end_rank`` (excluded) as one TFRecord file.

    The file and its offset index appear whole or not at all.

    Args:
        order: from `plan_order` or `Order.load`.
        start_rank: first rank, see `provender.records.shard_bounds`.
        end_rank: rank after the last.
        path: the shard; its directory must exist.
        index_path: the offset index; beside the shard when None.

    Raises:
        BuilderError: no such ranks.
        DamageError: a run was cut off since the order was planned.
        DiskFull, StoreError: a file cannot be written.
    """
    if not 0 <= start_rank <= end_rank <= order.examples:
        raise BuilderError(
            f"Ranks {start_rank} to {end_rank} were asked for, there are {order.examples} examples."
        )
    target = Path(path)
    index_target = index_file(target) if index_path is None else Path(index_path)
    sha, index_sha = hashlib.sha256(), hashlib.sha256()
    crc = 0
    with (
        _RunFiles(order.directory, order.runs) as files,
        AtomicFile(target) as shard,
        AtomicFile(index_target) as index,
    ):
        head = index_header(end_rank - start_rank) + bytes(8)
        index.write(head)
        index_sha.update(head)
        for sizes, blocks in _pieces(files, order, start_rank, end_rank):
            ends = (np.cumsum(sizes) + shard.size).astype("<u8").tobytes()
            index.write(ends)
            index_sha.update(ends)
            for block in blocks:
                sha.update(block)
                crc = google_crc32c.extend(crc, block)
                shard.write(block)
    examples = end_rank - start_rank
    return ShardFile(
        target.name,
        shard.size,
        sha.hexdigest(),
        f"{crc:08x}",
        examples,
        shard.size - OVERHEAD * examples,
        index_target.name,
        index.size,
        index_sha.hexdigest(),
    )


def _pieces(
    files: _RunFiles, order: Order, start: int, end: int
) -> Iterator[tuple[np.ndarray, Iterator[bytes]]]:
    """Yields, window by window, the framed sizes of the records and the blocks that hold them."""
    ranks = order.cuts.sum(axis=1)
    window = max(0, int(np.searchsorted(ranks, start, "right")) - 1)
    buffer = np.empty(0, np.uint8)
    while window < len(ranks) - 1 and ranks[window] < end:
        rows, owners, by_key = _window(files, order.cuts[window], order.cuts[window + 1])
        first = max(0, start - int(ranks[window]))
        chosen = by_key[first : end - int(ranks[window])]
        window += 1
        if not len(chosen):
            continue
        rows, owners = rows[chosen], owners[chosen]
        sizes = rows[:, SIZE].astype(np.int64) + OVERHEAD
        total = int(sizes.sum())
        if total > 2 * _MAX_WINDOW_BYTES:
            yield sizes, _one_by_one(files, rows, owners)
            continue
        if len(buffer) < total:
            buffer = np.empty(total, np.uint8)
        starts = _load(files, rows, owners, buffer.data)
        yield sizes, gather(buffer.data, starts, sizes)


def _load(files: _RunFiles, rows: np.ndarray, owners: np.ndarray, view: memoryview) -> np.ndarray:
    """Reads the records of ``rows`` into ``view``, one piece a run; returns where each begins.

    The rows are consecutive in the order of the split, so those of one run are consecutive in it.
    """
    runs = len(files.runs)
    offsets = rows[:, OFFSET].astype(np.int64)
    ends = offsets + rows[:, SIZE].astype(np.int64) + OVERHEAD
    low = np.full(runs, np.iinfo(np.int64).max)
    high = np.zeros(runs, np.int64)
    np.minimum.at(low, owners, offsets)
    np.maximum.at(high, owners, ends)
    shift = np.zeros(runs, np.int64)
    base = 0
    for run in np.flatnonzero(high > 0).tolist():
        size = int(high[run] - low[run])
        files.read(run, int(low[run]), view[base : base + size])
        shift[run] = base - low[run]
        base += size
    return offsets + shift[owners]


def _one_by_one(files: _RunFiles, rows: np.ndarray, owners: np.ndarray) -> Iterator[bytes]:
    """Reads very large records each alone, so that memory does not hold a window of them."""
    for owner, offset, size in zip(
        owners.tolist(), rows[:, OFFSET].tolist(), rows[:, SIZE].tolist(), strict=True
    ):
        record = bytearray(size + OVERHEAD)
        files.read(owner, offset, memoryview(record))
        yield bytes(record)


def _window(
    files: _RunFiles, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A window's index rows run after run, the run of each, and the permutation that sorts them."""
    present = np.flatnonzero(high > low).tolist()
    parts = [files.index(run, int(low[run]), int(high[run])) for run in present]
    rows = np.concatenate(parts) if parts else np.zeros((0, INDEX_COLUMNS), np.uint64)
    owners = np.repeat(np.array(present, np.int64), [len(part) for part in parts])
    return rows, owners, sort_order(rows[:, HIGH], rows[:, LOW])


class _RunFiles:
    """The runs' files, of which a bounded number is open at a time."""

    def __init__(self, directory: Path, runs: Sequence[Run]) -> None:
        self.directory = directory
        self.runs = runs
        self._open: OrderedDict[str, int] = OrderedDict()

    def index(self, run: int, start: int, end: int) -> np.ndarray:
        """Rows ``start`` to ``end`` of a run's index, as ``[n, 5]`` u64."""
        rows = np.empty((end - start, INDEX_COLUMNS), "<u8")
        if end > start:
            view = rows.data.cast("B")
            self._fill(self.runs[run].name + ".idx", start * ROW_BYTES, view)
        return rows

    def read(self, run: int, offset: int, view: memoryview) -> None:
        """Fills ``view`` with a run's record bytes from ``offset``."""
        self._fill(self.runs[run].name + ".rec", offset, view)

    def record(self, run: int, offset: int, size: int) -> bytes:
        """The payload of the record at ``offset``."""
        record = bytearray(size + OVERHEAD)
        self.read(run, offset, memoryview(record))
        return bytes(record[HEADER_BYTES:-FOOTER_BYTES])

    def _fill(self, name: str, offset: int, view: memoryview) -> None:
        path = self.directory / name
        with told_as_ours(path):
            fd = self._fd(name, path)
            done = 0
            while done < len(view):
                count = os.preadv(fd, [view[done:]], offset + done)
                if count == 0:
                    raise DamageError(
                        f"{name} ends before byte {offset + len(view):,}.",
                        where=str(path),
                        hint="run the build again; the part is encoded anew from there",
                        facts={"file": str(path)},
                    )
                done += count

    def _fd(self, name: str, path: Path) -> int:
        fd = self._open.get(name)
        if fd is None:
            if len(self._open) >= _OPEN_FILES:
                os.close(self._open.popitem(last=False)[1])
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._open[name] = fd
        else:
            self._open.move_to_end(name)
        return fd

    def __enter__(self) -> _RunFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._open:
            os.close(self._open.popitem()[1])
