"""Records picked from anywhere in shards: near ones by one read, far ones by reads side by side."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.sources.access import RangeReader
from provender.data.sources.access.files import Pending
from provender.data.sources.frames import bad_payloads
from provender.data.sources.offsets import Offsets
from provender.errors import DamageError
from provender.records.tfrecord import FOOTER_BYTES, HEADER_BYTES, damage, masked_crc

if TYPE_CHECKING:
    import numpy as np

_GAP_LOCAL = 16 << 10
_GAP_REMOTE = 256 << 10
_LONGEST = 8 << 20
_SIDE_BY_SIDE = 8

Job = tuple[Callable[[], RangeReader], Any, "np.ndarray", "np.ndarray"]
"""Opens a shard; what is known of it; the records wanted of it; their places in the result."""


def read_records(jobs: Sequence[Job], total: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Payloads of records in the order wanted.

    Args:
        jobs: what is wanted of each shard.
        total: how many records in all.

    Returns:
        Bytes that hold all payloads, and where each begins and how long it is, in the order of
        the result; int64, shape ``[total]``.

    Raises:
        DamageError: a record is damaged, or a shard has no index.
    """
    import numpy as np

    starts = np.zeros(total, np.int64)
    lengths = np.zeros(total, np.int64)
    pieces: list[bytes] = []
    at = 0
    for opened, info, records, places in jobs:
        offsets = Offsets(info.index, info.examples, info.sha256).all()
        if offsets is None:
            raise DamageError(
                f"{info.name} has no offset index, so single records cannot be read.",
                where=info.index,
                hint="rebuild the index: `provender build` of its dataset",
            )
        with opened() as reader:
            low = offsets[records].astype(np.int64)
            high = offsets[records + 1].astype(np.int64)
            order = np.argsort(low, kind="stable")
            gap = _GAP_REMOTE if reader.is_remote else _GAP_LOCAL
            spans, member = _spans(low[order], high[order], gap)
            data = _fetch(reader, spans)
        bases = np.cumsum([0, *(len(each) for each in data)], dtype=np.int64)[:-1] + at
        first = np.array([start for start, _ in spans], np.int64)
        where = np.empty(len(records), np.int64)
        where[order] = low[order] - first[member] + bases[member]
        pieces += data
        at += sum(len(each) for each in data)
        starts[places] = where + HEADER_BYTES
        lengths[places] = high - low - HEADER_BYTES - FOOTER_BYTES
        joined = b"".join(data) if len(data) > 1 else (data[0] if data else b"")
        _check(joined, where - (at - len(joined)), high - low, info, records, low)
    whole = b"".join(pieces) if len(pieces) != 1 else pieces[0]
    return whole, starts, lengths


def _spans(low: np.ndarray, high: np.ndarray, gap: int) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Reads that cover sorted byte ranges, and which of them each range is in."""
    import numpy as np

    if not len(low):
        return [], np.zeros(0, np.int64)
    breaks = low[1:] - high[:-1] > gap
    spans: list[tuple[int, int]] = []
    member = np.zeros(len(low), np.int64)
    for first, last in _runs(breaks, len(low)):
        start = int(low[first])
        for each in range(first, last):
            if int(high[each]) - start > _LONGEST and int(low[each]) > start:
                spans.append((start, int(high[each - 1])))
                start = int(low[each])
            member[each] = len(spans)
        spans.append((start, int(high[last - 1])))
    return spans, member


def _runs(breaks: np.ndarray, total: int) -> list[tuple[int, int]]:
    import numpy as np

    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), total]
    return list(itertools.pairwise(edges))


def _fetch(reader: RangeReader, spans: Sequence[tuple[int, int]]) -> list[bytes]:
    if not reader.is_remote:
        return [reader.read(start, stop - start) for start, stop in spans]
    done: list[bytes] = []
    waiting: deque[Pending] = deque()
    try:
        for start, stop in spans:
            if len(waiting) == _SIDE_BY_SIDE:
                done.append(waiting.popleft().result())
            waiting.append(reader.begin(start, stop - start))
        while waiting:
            done.append(waiting.popleft().result())
    finally:
        for pending in waiting:
            pending.cancel()
    return done


def _check(
    data: bytes, at: np.ndarray, sizes: np.ndarray, info: Any, records: np.ndarray, low: np.ndarray
) -> None:
    """Checks headers and payloads of records that begin at `at` in `data`.

    Raises:
        DamageError: naming the shard, the record and its byte.
    """
    import numpy as np

    if not len(at):
        return
    lengths = sizes - HEADER_BYTES - FOOTER_BYTES
    raw = np.frombuffer(data, np.uint8)
    header = raw[at[:, None] + np.arange(HEADER_BYTES)]
    told = header[:, :8].copy().view("<u8").ravel().astype(np.int64)
    crcs = header[:, 8:].copy().view("<u4").ravel()
    unique, inverse = np.unique(told, return_inverse=True)
    right = np.array(
        [masked_crc(int(n).to_bytes(8, "little", signed=True)) for n in unique], np.uint32
    )
    wrong = np.flatnonzero((told != lengths) | (right[inverse] != crcs))
    what = "The checksum of a record's length does not hold"
    if not len(wrong):
        wrong = bad_payloads(data, at + HEADER_BYTES, lengths)
        what = "The checksum of a record's data does not hold"
    if len(wrong):
        each = int(wrong[0])
        raise damage(what, info.url, int(records[each]), int(low[each]))
