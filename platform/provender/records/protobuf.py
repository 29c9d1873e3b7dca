"""The protobuf wire bytes of ``tf.train.Example``, written directly.

    Example   { Features features = 1; }
    Features  { map<string, Feature> feature = 1; }      entry { string key = 1; Feature value = 2; }
    Feature   { oneof: BytesList 1, FloatList 2, Int64List 3; }
    BytesList { repeated bytes value = 1; }  FloatList / Int64List { repeated ... value = 1 [packed]; }

(tensorflow/core/example/feature.proto). Deterministic serialization sorts map entries by key, and
what that means is not part of the protobuf standard: `map_order` is the rule of upb, the
implementation inside Python's protobuf, and it is fixed here so that no release can change it.
"""

from __future__ import annotations

import functools

import numpy as np

_BYTES_LIST = b"\x0a"
_FLOAT_LIST = b"\x12"
_INT64_LIST = b"\x1a"
_FIELD_1 = b"\x0a"
_FIELD_2 = b"\x12"
_SINGLE = tuple(bytes([n]) for n in range(128))
_U64 = (1 << 64) - 1


def varint(number: int) -> bytes:
    """Base-128 varint of an int; negative numbers as 64-bit two's complement (10 bytes)."""
    if 0 <= number < 128:
        return _SINGLE[number]
    rest = number & _U64
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_FEW, _FEW_SHORT = 64, 512
"""Up to so many numbers Python is quicker than the numpy operations below, whose cost does not
depend on the number; the second where a table has their varints."""

_SHORT = 1 << 14


@functools.cache
def _short_varints() -> tuple[bytes, ...]:
    """The varints of at most two bytes, by number."""
    long = (bytes((each & 127 | 128, each >> 7)) for each in range(128, _SHORT))
    return (*_SINGLE, *long)


def packed_varints(values: np.ndarray) -> bytes:
    """Varints of a one-dimensional integer array of any integer dtype, joined."""
    if not values.size:
        return b""
    unsigned = values if values.dtype.kind == "u" else values.astype(np.int64).view(np.uint64)
    top = int(unsigned.max())
    if top < 128:
        return unsigned.astype(np.uint8).tobytes()
    if top < _SHORT and unsigned.size <= _FEW_SHORT:
        table = _short_varints()
        return b"".join([table[each] for each in unsigned.tolist()])
    if unsigned.size <= _FEW:
        return b"".join(map(varint, unsigned.tolist()))
    unsigned = unsigned.astype(np.uint64)
    widest = -(-top.bit_length() // 7)
    widths = np.ones(unsigned.size, np.int64)
    for step in range(1, widest):
        widths += unsigned >= np.uint64(1 << (7 * step))
    starts = np.cumsum(widths) - widths
    out = np.empty(int(widths.sum()), np.uint8)
    for step in range(widest):
        chosen = widths > step
        low = (unsigned[chosen] >> np.uint64(7 * step)) & np.uint64(127)
        more = (widths[chosen] > step + 1).astype(np.uint64) << np.uint64(7)
        out[starts[chosen] + step] = (low | more).astype(np.uint8)
    return out.tobytes()


def packed_floats(values: np.ndarray) -> bytes:
    """Little-endian float32 of a one-dimensional floating array.

    The way through float64 is protobuf's own; it turns signalling NaNs into quiet ones.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float64).astype("<f4").tobytes()


def int64_feature(packed: bytes) -> bytes:
    """A ``Feature`` message holding an Int64List, from its packed varints."""
    return _list_feature(_INT64_LIST, packed)


def float_feature(packed: bytes) -> bytes:
    """A ``Feature`` message holding a FloatList, from its packed float32 values."""
    return _list_feature(_FLOAT_LIST, packed)


def _list_feature(tag: bytes, packed: bytes) -> bytes:
    # An empty packed field is left out; the list message itself is there, with length 0.
    body = b"".join((_FIELD_1, varint(len(packed)), packed)) if packed else b""
    return b"".join((tag, varint(len(body)), body))


def bytes_feature(values: list[bytes]) -> bytes:
    """A ``Feature`` message holding a BytesList."""
    parts: list[bytes] = []
    for value in values:
        parts += (_FIELD_1, varint(len(value)), value)
    body = b"".join(parts)
    return b"".join((_BYTES_LIST, varint(len(body)), body))


def entry(key: bytes, feature: bytes) -> bytes:
    """One entry of the ``Features.feature`` map, with its tag and length."""
    body = b"".join((_FIELD_1, varint(len(key)), key, _FIELD_2, varint(len(feature)), feature))
    return b"".join((_FIELD_1, varint(len(body)), body))


def map_order(name: str) -> bytes:
    """Sort key of map entries: bytewise, except that a name comes after those that it begins.

    No UTF-8 byte is 0xff, so the added one makes "numbers" sort before "number".
    """
    return name.encode("utf-8") + b"\xff"


def example(features: dict[str, bytes]) -> bytes:
    """An ``Example`` message from its serialized ``Feature`` messages by name."""
    body = entries(features)
    return example_prefix(len(body)) + body


def entries(features: dict[str, bytes]) -> bytes:
    """Map entries of serialized ``Feature`` messages, in `map_order`."""
    names = sorted(features, key=map_order)
    return b"".join([entry(name.encode("utf-8"), features[name]) for name in names])


def single_bytes_prefix(key: bytes, length: int) -> bytes:
    """What precedes a value of ``length`` bytes in the map entry of a one-element BytesList."""
    value = _FIELD_1 + varint(length)
    listed = _BYTES_LIST + varint(len(value) + length) + value
    head = b"".join((_FIELD_1, varint(len(key)), key, _FIELD_2, varint(len(listed) + length)))
    total = len(head) + len(listed) + length
    return b"".join((_FIELD_1, varint(total), head, listed))


def example_prefix(length: int) -> bytes:
    """What precedes map entries of ``length`` bytes in an ``Example`` message."""
    return _FIELD_1 + varint(length)
