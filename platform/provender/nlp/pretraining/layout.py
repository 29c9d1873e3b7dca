"""Many ``tf.train.Example`` records of one shape at once, framed as TFRecords.

All records of a layout have the same features with the same number of values, so their bytes differ
only in the values and in how long varints are. A matrix with a row for each record and a column
for each byte that a record can have is filled by whole columns; then the bytes that are there are
taken out. The bytes equal those of ``SerializeToString(deterministic=True)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np

from provender.records.protobuf import map_order
from provender.records.tfrecord import FOOTER_BYTES, HEADER_BYTES, OVERHEAD, masked_crc

_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"
_LISTS = {"int": b"\x1a", "float": b"\x12"}
_LENGTH_BYTES = 3
"""Of a varint of a length: records are shorter than 2 MiB."""
_MASK_DELTA = np.uint32(0xA282EAD8)


@dataclass(frozen=True)
class Column:
    """A feature of fixed length.

    Attributes:
        name: of the feature.
        kind: ``int`` or ``float``.
        length: number of values.
        limit: ints are below it; at most 2**28.
    """

    name: str
    kind: str
    length: int
    limit: int = 1 << 7

    @property
    def width(self) -> int:
        """Bytes of a value in the matrix: 1, 2 or 4."""
        if self.kind == "float":
            return 4
        return 1 if self.limit <= 1 << 7 else 2 if self.limit <= 1 << 14 else 4


@dataclass
class _Length:
    """Where a length stands: how long is everything from ``column + 3`` to ``stop``.

    Attributes:
        column: where it stands.
        stop: where what it counts ends.
        least: bytes that are counted in every record.
        lengths: numbers of the lengths that are counted, too.
        varied: names of the features whose values are counted and may be longer.
    """

    column: int
    stop: int = 0
    least: int = 0
    lengths: tuple[int, ...] = ()
    varied: tuple[str, ...] = ()


class Layout:
    """Lays out records.

    Args:
        columns: the features; records have them in the order that protobuf gives to their names.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = {each.name: each for each in sorted(columns, key=_order)}
        self._bytes = bytearray(HEADER_BYTES)
        self._lengths: list[_Length] = []
        self._places: dict[str, int] = {}
        self._unused: list[int] = []
        whole = self._begin(_FIELD_1)
        for each in self.columns.values():
            self._add(each)
        self._end(whole)
        self._bytes += bytes(FOOTER_BYTES)
        self._template = np.frombuffer(bytes(self._bytes), np.uint8)
        used = np.ones(len(self._template), bool)
        used[self._unused] = False
        for length in self._lengths:
            used[length.column + 1 : length.column + _LENGTH_BYTES] = False
        for name, place in self._places.items():
            column = self.columns[name]
            if column.kind == "int":
                values = used[place : place + column.length * column.width]
                values.reshape(column.length, column.width)[:, 1:] = False
        self._used = used
        self._tables = {
            each.name: _varints(each.limit, each.width)
            for each in self.columns.values()
            if each.kind == "int" and each.width > 1
        }
        for length in self._lengths:
            self._measure(length)

    def _measure(self, length: _Length) -> None:
        inside = range(length.column + _LENGTH_BYTES, length.stop)
        length.least = int(np.count_nonzero(self._used[inside.start : inside.stop]))
        length.lengths = tuple(i for i, each in enumerate(self._lengths) if each.column in inside)
        length.varied = tuple(each for each in self._tables if self._places[each] in inside)

    def _begin(self, tag: bytes) -> _Length:
        self._bytes += tag
        length = _Length(len(self._bytes))
        self._bytes += bytes(_LENGTH_BYTES)
        self._lengths.append(length)
        return length

    def _end(self, length: _Length) -> None:
        length.stop = len(self._bytes)

    def _add(self, column: Column) -> None:
        name = column.name.encode()
        entry = self._begin(_FIELD_1)
        self._bytes += _FIELD_1 + bytes([len(name)]) + name
        nested = [entry, self._begin(_FIELD_2), self._begin(_LISTS[column.kind])]
        nested.append(self._begin(_FIELD_1))
        # Values of several bytes are written as one number, best where such numbers may lie.
        while len(self._bytes) % column.width:
            self._unused.append(len(self._bytes))
            self._bytes += b"\x00"
        self._places[column.name] = len(self._bytes)
        self._bytes += bytes(column.length * column.width)
        for each in nested:
            self._end(each)

    def encode(self, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Encodes records.

        Args:
            values: name -> values, of shape (n, length): ints of any integer type, below the
                column's limit and not negative, floats as float32.

        Returns:
            The records, framed, as uint8; and where each ends, int64 of shape (n,).
        """
        count = len(next(iter(values.values())))
        width = -(-len(self._template) // 8) * 8
        matrix = np.empty((count, width), np.uint8)
        used = np.zeros((count, width), bool)
        matrix[:, : len(self._template)] = self._template
        used[:, : len(self._template)] = self._used
        longer = {}
        for name, column in self.columns.items():
            longer[name] = self._fill(matrix, used, column, values[name])
        sizes = self._fill_lengths(matrix, used, longer)
        self._fill_header(matrix, sizes - OVERHEAD)
        found = matrix[used]
        ends = np.cumsum(sizes)
        _fill_footers(found, ends, sizes)
        return found, ends

    def _fill(self, matrix: np.ndarray, used: np.ndarray, column: Column, values: Any) -> Any:
        """Writes the values of a feature; gives by how many bytes they exceed one each."""
        place = self._places[column.name]
        region = slice(place, place + column.length * column.width)
        if column.kind == "float":
            matrix[:, region].view("<f4")[:] = values
            return 0
        if column.width == 1:
            matrix[:, region] = values
            return 0
        encoded, there = self._tables[column.name]
        matrix[:, region].view(encoded.dtype)[:] = encoded[values]
        used[:, region].view(there.dtype)[:] = there[values]
        steps = range(1, column.width)
        return sum(np.count_nonzero(values >= 1 << 7 * each, axis=1) for each in steps)

    def _fill_lengths(
        self, matrix: np.ndarray, used: np.ndarray, longer: Mapping[str, Any]
    ) -> np.ndarray:
        """Writes the lengths, inner ones first, as outer ones count their bytes.

        Returns:
            Bytes of each record, framing included.
        """
        count = len(matrix)
        grown: dict[int, np.ndarray] = {}
        for i in range(len(self._lengths) - 1, -1, -1):
            length = self._lengths[i]
            size = np.full(count, length.least, np.int64)
            for name in length.varied:
                size += longer[name]
            for each in length.lengths:
                size += grown[each]
            two, three = size >= 1 << 7, size >= 1 << 14
            grown[i] = two.astype(np.int64) + three
            at = length.column
            matrix[:, at] = size & 127 | two.astype(np.int64) << 7
            matrix[:, at + 1] = size >> 7 & 127 | three.astype(np.int64) << 7
            matrix[:, at + 2] = size >> 14
            used[:, at + 1] = two
            used[:, at + 2] = three
        # The first length is that of everything, and only its own tag and bytes stand before it.
        return size + 2 + grown[0] + OVERHEAD

    def _fill_header(self, matrix: np.ndarray, sizes: np.ndarray) -> None:
        different, which = np.unique(sizes, return_inverse=True)
        headers = b"".join(_header(int(each)) for each in different)
        table = np.frombuffer(headers, np.uint8).reshape(-1, HEADER_BYTES)
        matrix[:, :HEADER_BYTES] = table[which]


def _order(column: Column) -> bytes:
    return map_order(column.name)


def _varints(limit: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Varints of the numbers below a limit, and which of their bytes are there; by number.

    Both as unsigned ints of ``width`` bytes, whose bytes in memory are meant.
    """
    numbers = np.arange(limit, dtype=np.uint32)
    encoded = np.zeros((limit, width), np.uint8)
    there = np.zeros((limit, width), np.uint8)
    for i in range(width):
        more = numbers >= np.uint64(1 << 7 * (i + 1))
        there[:, i] = numbers >= (1 << 7 * i if i else 0)
        encoded[:, i] = (numbers >> np.uint32(7 * i) & np.uint32(127)) | more << 7
    kind = f"<u{width}"
    return encoded.view(kind)[:, 0], there.view(kind)[:, 0]


def _header(size: int) -> bytes:
    head = size.to_bytes(8, "little")
    return head + masked_crc(head).to_bytes(4, "little")


def _fill_footers(found: np.ndarray, ends: np.ndarray, sizes: np.ndarray) -> None:
    """Writes the checksums of payloads after them."""
    value = google_crc32c.value
    data = found.tobytes()
    starts = (ends - sizes + HEADER_BYTES).tolist()
    stops = (ends - FOOTER_BYTES).tolist()
    crcs = np.array(
        [value(data[start:stop]) for start, stop in zip(starts, stops, strict=True)], np.uint32
    )
    masked = (crcs >> np.uint32(15) | crcs << np.uint32(17)) + _MASK_DELTA
    places = (ends - FOOTER_BYTES)[:, None] + np.arange(FOOTER_BYTES)
    found[places] = masked.astype("<u4").view(np.uint8).reshape(-1, FOOTER_BYTES)
