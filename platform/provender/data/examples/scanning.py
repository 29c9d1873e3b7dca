"""Reading the wire bytes of many ``tf.train.Example`` in lockstep.

The wire format is described in `provender.training.wire`. One map entry of an example is

    0a <entry> 0a <key> KEY 12 <feature> TT <list> BODY        TT: 0a bytes, 12 floats, 1a ints

where <x> is the length of x as a varint; all lengths but the key's differ from record to record.
BODY of bytes is ``0a <value> VALUE`` repeated, that of numbers ``0a <packed> PACKED`` or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from provender.data.examples.stored import BYTES, FLOATS, INTS, NOTHING, Stored
from provender.errors import DamageError

Layout = tuple[tuple[bytes, int], ...]
"""The entries of an example in order: key and kind of list."""

Regions = tuple[np.ndarray, np.ndarray]
"""Where values begin and end, a pair for each record."""

_FIELD_1, _FIELD_2 = 0x0A, 0x12
_KINDS = {0x0A: BYTES, 0x12: FLOATS, 0x1A: INTS}
_TAGS = {kind: tag for tag, kind in _KINDS.items()}
_MOST_SHIFT = 35


def layout_of(record: bytes) -> Layout | None:
    """The layout of a record, or None where it is not of the usual form."""
    try:
        return _layout(record)
    except (IndexError, ValueError):
        return None


def _layout(record: bytes) -> Layout | None:
    at, end = _expect_field(record, 0, _FIELD_1)
    if end != len(record):
        return None
    entries: list[tuple[bytes, int]] = []
    while at < end:
        at, stop = _expect_field(record, at, _FIELD_1)
        key_at, key_end = _expect_field(record, at, _FIELD_1)
        list_at, feature_end = _expect_field(record, key_end, _FIELD_2)
        if feature_end != stop or stop > end:
            return None
        kind = NOTHING if list_at == stop else _KINDS.get(record[list_at])
        if kind is None:
            return None
        record[key_at:key_end].decode("utf-8")
        entries.append((record[key_at:key_end], kind))
        at = stop
    keys = [key for key, _ in entries]
    return tuple(entries) if len(set(keys)) == len(keys) else None


def _expect_field(record: bytes, at: int, tag: int) -> tuple[int, int]:
    """Begin and end of a length-delimited field's content."""
    if record[at] != tag:
        raise ValueError
    at += 1
    length = shift = 0
    while True:
        byte = record[at]
        at += 1
        length |= (byte & 127) << shift
        if byte < 128:
            return at, at + length
        shift += 7


class Cursors:
    """A cursor in each of many records.

    Args:
        data: all bytes, uint8.
        at: where each cursor stands, int64; taken over.

    Attributes:
        fits: which records have followed the layout so far; the cursors of others are anywhere.
    """

    def __init__(self, data: np.ndarray, at: np.ndarray) -> None:
        self.data = data
        self.at = at
        self.fits = np.ones(len(at), bool)

    def expect(self, text: bytes) -> None:
        """Moves over constant bytes."""
        size = len(text)
        if size == 1:
            found = self.data.take(self.at, mode="clip") == text[0]
        else:
            # A view of every run of ``size`` bytes, so that numpy copies and compares whole runs.
            # (Bytes at the end that are zero would not count; these texts never end so.)
            runs = max(len(self.data) - size + 1, 0)
            if not runs:
                self.fits[:] = False
                return
            view = np.ndarray((runs,), f"S{size}", buffer=self.data, strides=(1,))
            found = view[np.minimum(self.at, runs - 1)] == text
        self.fits &= found
        self.at += size

    def varint(self) -> np.ndarray:
        """Moves over varints of lengths, below 2**35; their values, int64."""
        first = self.data.take(self.at, mode="clip")
        value = first.astype(np.int64)
        self.at += 1
        if int(first.max(initial=0)) < 128:
            return value
        rest = np.flatnonzero(first > 127)
        value[rest] &= 127
        shift = 7
        while rest.size:
            byte = self.data.take(self.at[rest], mode="clip").astype(np.int64)
            self.at[rest] += 1
            value[rest] |= (byte & 127) << shift
            rest = rest[byte > 127]
            shift += 7
            if shift > _MOST_SHIFT:
                self.fits[rest] = False
                break
        return value


def scan(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray, layout: Layout, wanted: set[bytes]
) -> tuple[np.ndarray, dict[bytes, Regions]]:
    """Finds the values in records of one layout.

    Args:
        data: all bytes, uint8.
        starts: where each record begins, int64.
        ends: where each record ends, int64.
        layout: what the records are expected to hold.
        wanted: keys whose values are wanted.

    Returns:
        Which records have that layout, and for each wanted key where its values lie: the elements
        of a bytes list, the packed numbers of others. Only those of fitting records mean anything.
    """
    cursors = Cursors(data, starts.copy())
    cursors.expect(bytes([_FIELD_1]))
    length = cursors.varint()
    cursors.fits &= cursors.at + length == ends
    found: dict[bytes, Regions] = {}
    for key, kind in layout:
        cursors.expect(bytes([_FIELD_1]))
        stop = cursors.varint()
        stop += cursors.at
        cursors.expect(bytes([_FIELD_1]) + _varint(len(key)) + key + bytes([_FIELD_2]))
        if key not in wanted or kind == NOTHING:
            if kind == NOTHING:
                cursors.expect(b"\0")
                cursors.fits &= cursors.at == stop
            cursors.fits &= stop <= ends
            cursors.at = stop.copy()
            continue
        found[key] = _list_region(cursors, kind, stop)
        cursors.fits &= stop <= ends
        cursors.at = stop.copy()
    cursors.fits &= cursors.at == ends
    return cursors.fits, found


def _list_region(cursors: Cursors, kind: int, stop: np.ndarray) -> Regions:
    """Moves from a feature's length to the values of its list."""
    feature = cursors.varint()
    cursors.fits &= cursors.at + feature == stop
    cursors.expect(bytes([_TAGS[kind]]))
    size = cursors.varint()
    cursors.fits &= cursors.at + size == stop
    if kind == BYTES:
        return cursors.at.copy(), stop
    empty = size == 0
    if not empty.any():
        cursors.expect(bytes([_FIELD_1]))
        packed = cursors.varint()
        cursors.fits &= cursors.at + packed == stop
        return cursors.at.copy(), stop
    full = np.flatnonzero(~empty)
    inner = Cursors(cursors.data, cursors.at[full])
    inner.expect(bytes([_FIELD_1]))
    packed = inner.varint()
    cursors.fits[full] &= inner.fits & (inner.at + packed == stop[full])
    begin = stop.copy()
    begin[full] = inner.at
    return begin, stop


def _varint(number: int) -> bytes:
    from provender.records.protobuf import varint

    return varint(number)


# --- values --------------------------------------------------------------------------------------


def read(
    data: np.ndarray, regions: Mapping[bytes, Regions], layout: Layout, fits: np.ndarray
) -> dict[str, Stored]:
    """The values of all records that fit.

    Args:
        data: all bytes, uint8.
        regions: from `scan`.
        layout: the layout that was scanned for.
        fits: from `scan`.

    Returns:
        Name -> values.

    Raises:
        DamageError: values are cut off or not what they claim to be.
    """
    whole = bool(fits.all())
    made = {}
    for key, kind in layout:
        if key not in regions:
            continue
        starts, ends = regions[key]
        if not whole:
            starts, ends = starts[fits], ends[fits]
        made[key.decode("utf-8")] = _READERS[kind](data, starts, ends)
    return made


def gather(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
    """``data[start:end]`` of each pair, as a binary array.

    Arrow copies the runs: a binary array whose offsets are starts and ends in turn holds values
    and what lies between them, and of it every second element is taken.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    alternating = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return alternating.take(pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32)))


def joined(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """``data[start:end]`` of each pair, one after another, uint8."""
    runs = gather(data, starts, ends)
    if not len(runs):
        return np.zeros(0, np.uint8)
    bounds = np.frombuffer(runs.buffers()[1], np.int32)
    flat = runs.buffers()[2]
    if flat is None:
        return np.zeros(0, np.uint8)
    return np.frombuffer(flat, np.uint8)[bounds[runs.offset] : bounds[runs.offset + len(runs)]]


def _read_bytes(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Stored:
    count = len(starts)
    cursors = Cursors(data, starts.copy())
    cursors.expect(bytes([_FIELD_1]))
    length = cursors.varint()
    begin = cursors.at
    stop = begin + length
    if bool((stop == ends).all()) and bool(cursors.fits.all()):
        return Stored(BYTES, np.ones(count, np.int64), gather(data, begin, ends))
    return _read_many_bytes(data, starts, ends)


def _read_many_bytes(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Stored:
    """Elements of bytes lists of any length: the first of each record, then the second, ..."""
    counts = np.zeros(len(starts), np.int64)
    at = starts.copy()
    active = np.flatnonzero(at < ends)
    owners: list[np.ndarray] = []
    begins: list[np.ndarray] = []
    stops: list[np.ndarray] = []
    while active.size:
        cursors = Cursors(data, at[active])
        cursors.expect(bytes([_FIELD_1]))
        length = cursors.varint()
        stop = cursors.at + length
        if not cursors.fits.all() or (stop > ends[active]).any():
            raise DamageError("A list of bytes in an example is cut off, or is none.")
        owners.append(active)
        begins.append(cursors.at)
        stops.append(stop)
        counts[active] += 1
        at[active] = stop
        active = active[stop < ends[active]]
    if not owners:
        return Stored(BYTES, counts, pa.array([], pa.binary()))
    first = np.cumsum(counts) - counts
    order = np.concatenate([first[each] + step for step, each in enumerate(owners)])
    begin, stop = (np.empty(len(order), np.int64) for _ in range(2))
    begin[order] = np.concatenate(begins)
    stop[order] = np.concatenate(stops)
    return Stored(BYTES, counts, gather(data, begin, stop))


def _read_floats(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Stored:
    sizes = ends - starts
    if (sizes % 4).any():
        raise DamageError("A list of floats in an example is cut off.")
    return Stored(FLOATS, sizes // 4, joined(data, starts, ends).view("<f4"))


def _read_ints(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Stored:
    flat = joined(data, starts, ends)
    sizes = ends - starts
    last = flat < 128
    if last.all():
        return Stored(INTS, sizes, flat.astype(np.int64))
    stops = np.cumsum(sizes)
    if not last[stops[sizes > 0] - 1].all():
        raise DamageError("A list of numbers in an example is cut off.")
    tails = np.flatnonzero(last)
    heads = np.empty_like(tails)
    heads[0] = 0
    np.add(tails[:-1], 1, out=heads[1:])
    counts = np.diff(np.searchsorted(tails, stops - 1, "right"), prepend=0)
    return Stored(INTS, counts, _numbers(flat, heads, int((tails - heads).max()) + 1, tails))


_VARINT_BYTES = 10


def _numbers(flat: np.ndarray, heads: np.ndarray, widest: int, tails: np.ndarray) -> np.ndarray:
    """Varints as signed 64-bit numbers.

    Args:
        flat: their bytes, uint8.
        heads: where each begins.
        widest: bytes of the longest.
        tails: where the last byte of each lies.
    """
    if widest > _VARINT_BYTES:
        raise DamageError("A number in an example does not end.")
    padded = np.zeros(len(flat) + 8, np.uint8)
    padded[: len(flat)] = flat
    narrow = widest <= 4
    kind: Any = np.uint32 if narrow else np.uint64
    words = np.ndarray((len(flat),), np.dtype(kind), buffer=padded, strides=(1,))
    values = np.empty(len(heads), np.uint64)
    for at in range(0, len(heads), _IN_CACHE):
        part = slice(at, at + _IN_CACHE)
        values[part] = _squeezed(words[heads[part]], kind, _STEPS[:2] if narrow else _STEPS)
    if widest > 8:
        long = np.flatnonzero(tails - heads >= 8)
        for step in (8, 9):
            long = long[tails[long] - heads[long] >= step]
            byte = flat[heads[long] + step].astype(np.uint64) & np.uint64(127)
            values[long] |= byte << np.uint64(7 * step)
    return values.view(np.int64)


_IN_CACHE = 1 << 14
_STEPS = ((0x007F007F007F007F, 1, 8), (0x00003FFF00003FFF, 2, 16), (0x000000000FFFFFFF, 4, 32))
"""Low groups of bits, what moves the high groups down to them, and bits of the lane they are in."""


def _squeezed(words: np.ndarray, kind: Any, steps: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    """The number that begins in each little-endian word, as far as it reaches.

    A varint ends with the first byte below 128. Of the bytes up to there the seven low bits count:
    pairs of groups are moved together, 7 + 7 bits in 16, then 14 + 14 in 32, then 28 + 28 in 64.
    """
    every = int(np.iinfo(kind).max)
    high = kind(0x8080808080808080 & every)
    stop = ~words & high
    # All bits up to the first stop bit; all of them where the number goes on beyond the word.
    words &= stop ^ (stop - kind(1))
    words &= ~high
    for mask, shift, lane in steps:
        upper = words >> kind(shift)
        words &= kind(mask & every)
        upper &= kind(mask << (lane - shift) & every)
        words |= upper
    return words


_READERS = {BYTES: _read_bytes, FLOATS: _read_floats, INTS: _read_ints}
