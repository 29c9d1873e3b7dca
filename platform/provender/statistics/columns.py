"""Columns of serialized ``tf.train.Example`` records, many records at a time, with numpy alone.

    Example   { Features features = 1; }
    Features  { map<string, Feature> feature = 1; }      entry { string key = 1; Feature value = 2; }
    Feature   { oneof: BytesList 1, FloatList 2, Int64List 3; }      each with repeated `value = 1`

(tensorflow/core/example/feature.proto). The records of a version come from one deterministic
encoder, so they hold the same keys in the same order: one cursor a record moves through all of
them in step. Where records differ (an optional feature is absent) the group is split; a record
that fits no group is read by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

BYTES, FLOAT, INT = 1, 2, 3
"""Kinds of lists, by their field numbers."""

PADDING = 16
"""Bytes that must follow the last record in a buffer: cursors look ahead."""

_LEN = 0x0A  # field 1, length-delimited
_VALUE = 0x12  # field 2, length-delimited
_KINDS = {0x0A: BYTES, 0x12: FLOAT, 0x1A: INT}
_FEW = 32
_SHORT = 64
_MOST_GROUPS = 64


@dataclass(slots=True)
class Column:
    """One feature of a group of records.

    Attributes:
        kind: `BYTES`, `FLOAT` or `INT`; 0 where no record has a list.
        counts: int64, number of values of each record.
        starts: int64, where each value begins in the buffer; `BYTES` only.
        sizes: int64, its bytes; `BYTES` only.
        values: float32 or int64, the values of all records in order; the other kinds.
    """

    kind: int
    counts: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    values: np.ndarray


@dataclass(slots=True)
class Group:
    """Records with the same keys in the same order.

    Attributes:
        rows: int64, which of the records given.
        columns: feature name -> its values, aligned with ``rows``.
    """

    rows: np.ndarray
    columns: dict[str, Column]


_Spans = list[tuple[bytes, int, np.ndarray, np.ndarray]]
"""Key, kind, and where the list of each record begins and ends."""

_NO_INTS = np.empty(0, np.int64)


@dataclass(slots=True)
class Spans:
    """Records with the same keys in the same order, their lists not yet read.

    Attributes:
        rows: int64, which of the records given.
        lists: feature name -> kind of its lists, and where each begins and ends in the buffer.
    """

    rows: np.ndarray
    lists: dict[str, tuple[int, np.ndarray, np.ndarray]]


def read_columns(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[Group]:
    """Takes records apart.

    Args:
        buffer: uint8; ends with `PADDING` bytes that belong to no record.
        starts: int64, where each record begins.
        ends: int64, where each record ends.

    Returns:
        Groups that together hold every record once.

    Raises:
        ValueError: a record is no ``tf.train.Example``.
    """
    return [
        Group(each.rows, {key: _decode(buffer, *lists) for key, lists in each.lists.items()})
        for each in read_spans(buffer, starts, ends)
    ]


def read_spans(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[Spans]:
    """Finds the lists of records: as `read_columns`, without reading their values."""
    groups, odd = _in_step(buffer, starts, ends)
    found = [
        Spans(rows, {key.decode(): (kind, lo, hi) for key, kind, lo, hi in spans})
        for rows, spans in groups
    ]
    return [*found, *_one_by_one(buffer, odd, starts, ends)] if len(odd) else found


# -- all records in step ----------------------------------------------------------------------------


def _in_step(
    buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[list[tuple[np.ndarray, _Spans]], np.ndarray]:
    """Groups of records and their lists; and the rows that fit none."""
    odd: list[np.ndarray] = []
    rows = np.arange(len(starts), dtype=np.int64)
    empty = starts == ends
    done: list[tuple[np.ndarray, _Spans]] = [(rows[empty], [])] if empty.any() else []
    rows = rows[~empty]
    tag = buffer[starts[rows]] == _LEN
    size, at = _varint(buffer, starts[rows] + 1)
    good = tag & (at + size == ends[rows])
    odd.append(rows[~good])
    rows, at = rows[good], at[good]
    todo: list[tuple[np.ndarray, np.ndarray, _Spans]] = [(rows, at, [])] if len(rows) else []
    splits = 0
    while todo:
        rows, at, spans = todo.pop()
        end = ends[rows]
        over = at >= end
        if over.all():
            done.append((rows, spans))
            continue
        keep, entry = _entry(buffer, at, end)
        if over.any():
            todo.append((rows[over], at[over], _picked(spans, over)))
            keep &= ~over
        if entry is None or (key := entry[0]) in {each[0] for each in spans}:
            odd.append(rows[~over])
            continue
        rest = ~keep & ~over
        if rest.any():
            # The first record always fits itself, so every round takes at least one away.
            splits += 1
            if splits > _MOST_GROUPS:
                odd.append(rows[rest])
            else:
                todo.append((rows[rest], at[rest], _picked(spans, rest)))
        _, kind, lo, hi = entry
        if not keep.all():
            rows, lo, hi, spans = rows[keep], lo[keep], hi[keep], _picked(spans, keep)
        todo.append((rows, hi, [*spans, (key, kind, lo, hi)]))
    return [each for each in done if len(each[0])], np.concatenate(odd)


def _picked(spans: _Spans, mask: np.ndarray) -> _Spans:
    return [(key, kind, lo[mask], hi[mask]) for key, kind, lo, hi in spans]


def _entry(
    buffer: np.ndarray, at: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, tuple[bytes, int, np.ndarray, np.ndarray] | None]:
    """The map entry at each cursor, where it has the key and kind of the first one that is not over.

    Returns:
        Which records have it; its key, its kind, and the spans of its lists. None for an entry
        that is laid out in a way which is not known here.
    """
    last = len(buffer) - PADDING
    first = int(np.argmax(at < end))
    good = buffer[at] == _LEN
    size, p = _varint(buffer, at + 1)
    stop = p + size
    good &= stop <= end
    # A wild length must not lead out of the buffer.
    np.minimum(stop, last, out=stop)
    good &= buffer[p] == _LEN
    length = int(buffer[int(p[first]) + 1])
    begin = int(p[first]) + 2
    if not good[first] or length >= 0x80 or begin + length > int(stop[first]):
        return good, None
    key = buffer[begin : begin + length]
    good &= (buffer[p + 1] == length) & (p + 2 + length <= stop)
    p = np.minimum(p + 2, last - length)
    for i in range(length):
        good &= buffer[p + i] == key[i]
    p = p + length
    if int(p[first]) == int(stop[first]):  # no value at all
        return good & (p == stop), (key.tobytes(), 0, p, stop)
    good &= buffer[p] == _VALUE
    size, p = _varint(buffer, p + 1)
    good &= p + size == stop
    p = np.minimum(p, last)
    if int(p[first]) == int(stop[first]):
        return good & (p == stop), (key.tobytes(), 0, p, stop)
    tag = int(buffer[int(p[first])])
    good &= buffer[p] == tag
    size, p = _varint(buffer, p + 1)
    good &= p + size == stop
    if tag not in _KINDS or not good[first]:
        return good, None
    return good, (key.tobytes(), _KINDS[tag], p, stop)


def _varint(buffer: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The varints at the cursors, at most 35 bits, and the cursors behind them."""
    byte = buffer[at]
    more = byte >= 0x80
    value = byte.astype(np.int64)
    if not more.any():
        return value, at + 1
    value &= 0x7F
    length = np.ones(len(at), np.int64)
    for shift in range(7, 35, 7):
        byte = buffer[at + length]
        value |= np.where(more, (byte & 0x7F).astype(np.int64) << shift, 0)
        length += more
        more = more & (byte >= 0x80)
        if not more.any():
            break
    return value, at + length


# -- lists --------------------------------------------------------------------------------------------


def _decode(buffer: np.ndarray, kind: int, lo: np.ndarray, hi: np.ndarray) -> Column:
    """The values of each record's list."""
    if kind == 0:
        return Column(0, np.zeros(len(lo), np.int64), _NO_INTS, _NO_INTS, _NO_INTS)
    if kind == BYTES:
        return _decode_bytes(buffer, lo, hi)
    size, begin = _varint(buffer, lo + 1)
    packed = (buffer[lo] == _LEN) & (begin + size == hi)
    packed |= lo == hi
    begin = np.where(lo == hi, hi, begin)
    if not packed.all():
        parts = [
            _numbers(buffer, kind, a, b) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)
        ]
        counts = np.fromiter(map(len, parts), np.int64, len(parts))
        return Column(kind, counts, _NO_INTS, _NO_INTS, np.concatenate(parts))
    data = _joined(buffer, begin, hi)
    if kind == FLOAT:
        return Column(kind, (hi - begin) >> 2, _NO_INTS, _NO_INTS, data.view("<f4"))
    values, counts = _varints(data, hi - begin)
    return Column(kind, counts, _NO_INTS, _NO_INTS, values)


def _joined(buffer: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """The bytes of all spans, one after the other."""
    sizes = hi - lo
    total = int(sizes.sum())
    if total > _SHORT * len(lo):
        return np.concatenate([buffer[a:b] for a, b in zip(lo.tolist(), hi.tolist(), strict=True)])
    if total == len(lo) and (sizes == 1).all():
        return buffer[lo]
    ahead = np.cumsum(sizes) - sizes
    return buffer[np.repeat(lo - ahead, sizes) + np.arange(total)]


def _varints(data: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Signed 64-bit numbers from concatenated varints.

    Args:
        data: uint8, the varints of all records.
        sizes: int64, the bytes of each record.

    Returns:
        The numbers, and how many each record has.
    """
    last = data < 0x80
    if last.all():
        return data.astype(np.int64), sizes
    before = np.concatenate(([0], np.cumsum(last)))
    edges = np.concatenate(([0], np.cumsum(sizes)))
    counts = before[edges[1:]] - before[edges[:-1]]
    ends = np.flatnonzero(last)
    begins = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    place = np.arange(len(data)) - np.repeat(begins, ends - begins + 1)
    if len(place) and int(place.max()) > 9:
        raise ValueError("a varint does not end")
    bits = (data & 0x7F).astype(np.uint64) << (place * 7).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, begins).view(np.int64), counts


def _decode_bytes(buffer: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> Column:
    some = lo < hi
    size, begin = _varint(buffer, lo + 1)
    single = some & (buffer[lo] == _LEN) & (begin + size == hi)
    if single.all():
        return Column(BYTES, np.ones(len(lo), np.int64), begin, size, _NO_INTS)
    counts = np.zeros(len(lo), np.int64)
    owners: list[np.ndarray] = []
    starts: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    rows = np.flatnonzero(some)
    at = lo[rows]
    while len(rows) >= _FEW:
        size, begin = _varint(buffer, at + 1)
        if not ((buffer[at] == _LEN) & (begin + size <= hi[rows])).all():
            raise ValueError("a list of bytes holds something else")
        owners.append(rows)
        starts.append(begin)
        sizes.append(size)
        counts[rows] += 1
        at = begin + size
        left = at < hi[rows]
        rows, at = rows[left], at[left]
    data = buffer.data
    for row, place in zip(rows.tolist(), at.tolist(), strict=True):
        spans = list(_values(data, place, int(hi[row])))
        owners.append(np.full(len(spans), row, np.int64))
        starts.append(np.array([a for a, _ in spans], np.int64))
        sizes.append(np.array([b - a for a, b in spans], np.int64))
        counts[row] += len(spans)
    if not owners:
        return Column(BYTES, counts, _NO_INTS, _NO_INTS, _NO_INTS)
    order = np.argsort(np.concatenate(owners), kind="stable")
    return Column(
        BYTES, counts, np.concatenate(starts)[order], np.concatenate(sizes)[order], _NO_INTS
    )


def _values(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the values of a list of bytes begin and end."""
    for number, lo, hi in _fields(data, at, end):
        if number == 1:
            yield lo, hi


# -- one record at a time -----------------------------------------------------------------------------


def _one_by_one(
    buffer: np.ndarray, rows: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> list[Spans]:
    """Groups of records that are laid out in a way of their own."""
    data = buffer.data
    alike: dict[tuple[tuple[bytes, int], ...], list[tuple[int, list[tuple[int, int]]]]] = {}
    for row in rows.tolist():
        found_here: dict[bytes, tuple[int, int, int]] = {}
        for _, lo, hi in _fields(data, int(starts[row]), int(ends[row]), only=1):
            for _, a, b in _fields(data, lo, hi, only=1):
                key, value = _pair(data, a, b)
                found_here[key] = value
        layout = tuple((key, kind) for key, (kind, _, _) in found_here.items())
        spans = [(lo, hi) for _, lo, hi in found_here.values()]
        alike.setdefault(layout, []).append((row, spans))
    found = []
    for layout, members in alike.items():
        lists: dict[str, tuple[int, np.ndarray, np.ndarray]] = {}
        for i, (key, kind) in enumerate(layout):
            begins = np.array([spans[i][0] for _, spans in members], np.int64)
            ends_here = np.array([spans[i][1] for _, spans in members], np.int64)
            lists[key.decode()] = (kind, begins, ends_here)
        found.append(Spans(np.array([row for row, _ in members], np.int64), lists))
    return found


def _pair(data: memoryview, at: int, end: int) -> tuple[bytes, tuple[int, int, int]]:
    """A map entry: its key, and kind and span of its list; of several the last counts."""
    key, value = b"", (at, at)
    for number, lo, hi in _fields(data, at, end):
        if number == 1:
            key = bytes(data[lo:hi])
        elif number == 2:
            value = (lo, hi)
    kind, lo, hi = 0, value[0], value[0]
    for number, a, b in _fields(data, *value):
        if number in (BYTES, FLOAT, INT):
            kind, lo, hi = number, a, b
    return key, (kind, lo, hi)


def _numbers(buffer: np.ndarray, kind: int, at: int, end: int) -> np.ndarray:
    """The numbers of one list, packed or not."""
    data = buffer.data
    parts: list[bytes] = [bytes(data[lo:hi]) for _, lo, hi in _fields(data, at, end, only=1)]
    joined = np.frombuffer(b"".join(parts), np.uint8)
    if kind == FLOAT:
        return joined.view("<f4")
    return _varints(joined, np.array([len(joined)], np.int64))[0]


def _fields(
    data: memoryview | Sequence[int], at: int, end: int, only: int = 0
) -> Iterator[tuple[int, int, int]]:
    """Field number and span of every field; of a number the span of its bytes."""
    while at < end:
        tag, at = _number(data, at)
        kind = tag & 7
        if kind == 0:
            _, stop = _number(data, at)
        elif kind == 2:
            size, at = _number(data, at)
            stop = at + size
        elif kind in (1, 5):
            stop = at + (8 if kind == 1 else 4)
        else:
            message = f"wire type {kind}"
            raise ValueError(message)
        if stop > end:
            raise ValueError("a field is cut off")
        if only in (0, tag >> 3):
            yield tag >> 3, at, stop
        at = stop


def _number(data: memoryview | Sequence[int], at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a varint does not end")
