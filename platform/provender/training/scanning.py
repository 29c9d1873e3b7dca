"""Values of a serialized example, found where a deterministic encoder puts them.

A protobuf parser makes an object of every part and a Python wrapper for each access. What Provender
writes needs neither: features come in the order of their keys (`map_order`), numbers are packed, every length has
its shortest form (protobuf's deterministic serialization of ``tf.train.Example``, whose layout is told
in `provender.training.wire`). So all that stands around a value is known from the value's length, and is
compared, not parsed. Whatever does not compare is no error: `Unlike` sends the record to the general
parser.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from provender.records.protobuf import map_order, varint

BYTES, FLOATS, INTS = b"\x0a", b"\x12", b"\x1a"
"""Tags of a Feature's lists: fields 1, 2 and 3, length-delimited."""

Scan = Callable[[bytes], dict[str, Any]]
Step = Callable[[bytes, int], tuple[Any, int]]
Make = Callable[[Any], Any]

_REMEMBERED = 1 << 16
_LABELS = 4096
_SHORT_KEY = 80
"""An integer's entry with a longer key may have a length of two bytes."""

_float = struct.Struct("<f").unpack_from


class Unlike(ValueError):
    """The record is laid out in another way."""


@dataclass(frozen=True, slots=True)
class Field:
    """How a feature is stored.

    Attributes:
        kind: `BYTES`, `FLOATS` or `INTS`.
        many: whether it is an array; else exactly one value.
        make: from what is stored (bytes, a number, or an array of float32 or int64) to the value;
            None where they are the same.
    """

    kind: bytes
    many: bool
    make: Make | None = None


def scanner(fields: Mapping[str, Field | None], order: Sequence[str]) -> Scan | None:
    """Makes the function that finds the values of a record.

    Args:
        fields: every stored feature by its key; None for what is passed over.
        order: the wanted keys, in the order of the result.

    Returns:
        From the wire bytes to the values by key; it raises ValueError (`Unlike` is one), IndexError
        or struct.error where the general parser has to be asked. None if it could never find one.
    """
    wanted = [each for each in fields.values() if each is not None]
    if any(each.kind == BYTES and each.many for each in wanted):
        return None
    keys = sorted(fields, key=map_order)
    if any(len(key.encode()) > _SHORT_KEY for key in keys):
        return None
    steps = tuple((key, _step(key.encode(), fields[key])) for key in keys)
    blank = dict.fromkeys(order)
    passed = [key for key in keys if fields[key] is None]
    heads = _Heads()

    def scan(data: bytes) -> dict[str, Any]:
        head = heads[len(data)]
        if not data.startswith(head):
            raise Unlike
        at = len(head)
        found = blank.copy()
        for key, step in steps:
            found[key], at = step(data, at)
        if at != len(data):
            raise Unlike
        for key in passed:
            del found[key]
        return found

    return scan


def _step(key: bytes, field: Field | None) -> Step:
    if field is None:
        return _passing(key)
    if field.kind == INTS and not field.many:
        return _integer(key, field.make)
    if field.kind == FLOATS and not field.many:
        return _floating(key, field.make)
    read = {BYTES: None, FLOATS: _floats, INTS: _ints}[field.kind]
    return _block(_Entries(key, field.kind), read, field.make)


class _Heads(dict[int, bytes]):
    """What a record of a length begins with: the tag and length of its `Features`."""

    def __missing__(self, size: int) -> bytes:
        for width in range(1, 6):
            head = b"\x0a" + varint(max(size - 1 - width, 0))
            if len(head) == 1 + width:
                break
        if len(self) < _REMEMBERED:
            self[size] = head
        return head


class _Entries(dict[int, bytes]):
    """What stands before the block of values, by the length of the map entry.

    Args:
        key: of the feature.
        kind: tag of its list.
    """

    def __init__(self, key: bytes, kind: bytes) -> None:
        super().__init__()
        self._key = b"\x0a" + varint(len(key)) + key
        self._kind = kind

    def __missing__(self, size: int) -> bytes:
        # Each of the three lengths around the block takes one to five bytes.
        least = size - len(self._key) - 18
        for length in range(max(least, 0), least + 13):
            inner = b"\x0a" + varint(length)
            feature = self._kind + varint(len(inner) + length) + inner
            entry = self._key + b"\x12" + varint(len(feature) + length) + feature
            if len(entry) + length == size:
                head = b"\x0a" + varint(size) + entry
                if len(self) < _REMEMBERED:
                    self[size] = head
                return head
        raise Unlike


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A varint of up to three bytes, and how many they are."""
    size = data[at]
    if size < 0x80:
        return size, 1
    more = data[at + 1]
    if more < 0x80:
        return size & 0x7F | more << 7, 2
    most = data[at + 2]
    if most < 0x80:
        return size & 0x7F | (more & 0x7F) << 7 | most << 14, 3
    raise Unlike  # 2 MiB or more: what a parser costs does not count there


def _block(heads: _Entries, read: Make | None, make: Make | None) -> Step:
    """Finds one value of bytes, or an array's packed numbers."""
    convert = read if make is None else make
    if read is not None and make is not None:
        convert = lambda block: make(read(block))  # noqa: E731 - a def would shadow the other two

    def step(data: bytes, at: int) -> tuple[Any, int]:
        size, width = _length(data, at + 1)
        head = heads[size]
        if not data.startswith(head, at):
            raise Unlike
        end = at + 1 + width + size
        block = data[at + len(head) : end]
        return (block if convert is None else convert(block)), end

    return step


def _integer(key: bytes, make: Make | None) -> Step:
    """Finds an integer. Labels, flags and the like are remembered with the bytes they stand in."""
    heads = _Entries(key, INTS)
    known: dict[bytes, Any] = {}

    def read(entry: bytes) -> Any:
        head = heads[len(entry) - 2]
        numbers = _ints(entry[len(head) :])
        if not entry.startswith(head) or len(numbers) != 1:
            raise Unlike
        value = int(numbers[0])
        if make is not None:
            value = make(value)
        if len(known) < _LABELS:
            known[entry] = value
        return value

    def step(data: bytes, at: int) -> tuple[Any, int]:
        end = at + 2 + data[at + 1]
        entry = data[at:end]
        return (known[entry] if entry in known else read(entry)), end

    return step


def _floating(key: bytes, make: Make | None) -> Step:
    body = b"\x0a" + varint(len(key)) + key + b"\x12\x08" + FLOATS + b"\x06\x0a\x04"
    head = b"\x0a" + varint(len(body) + 4) + body
    size = len(head)

    def step(data: bytes, at: int) -> tuple[Any, int]:
        if not data.startswith(head, at):
            raise Unlike
        (value,) = _float(data, at + size)
        return (value if make is None else make(value)), at + size + 4

    return step


def _passing(key: bytes) -> Step:
    head = b"\x0a" + varint(len(key)) + key

    def step(data: bytes, at: int) -> tuple[Any, int]:
        size, width = _length(data, at + 1)
        at += 1 + width
        if not data.startswith(head, at):
            raise Unlike
        return None, at + size

    return step


def _floats(block: bytes) -> np.ndarray:
    return np.frombuffer(block, "<f4")


def _ints(block: bytes) -> np.ndarray:
    """Packed varints as int64.

    Raises:
        Unlike: the last one does not end, or one has more than ten bytes.
    """
    raw = np.frombuffer(block, np.uint8)
    last = raw < 0x80
    if last.all():
        return raw.astype(np.int64)
    ends = np.flatnonzero(last)
    if not last[-1]:
        raise Unlike
    starts = np.concatenate([[0], ends[:-1] + 1])
    sizes = ends - starts + 1
    longest = int(sizes.max())
    if longest > 10:
        raise Unlike
    found = np.zeros(len(ends), np.uint64)
    for place in range(longest):
        there = sizes > place
        byte = raw[starts[there] + place].astype(np.uint64) & np.uint64(0x7F)
        found[there] |= byte << np.uint64(7 * place)
    return found.view(np.int64)
