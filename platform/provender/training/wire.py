"""Reading the protobuf wire bytes of ``tf.train.Example``.

    Example   { Features features = 1; }
    Features  { map<string, Feature> feature = 1; }      entry { string key = 1; Feature value = 2; }
    Feature   { oneof: BytesList 1, FloatList 2, Int64List 3; }      each with repeated `value = 1`

(tensorflow/core/example/feature.proto). Numbers may be packed or not; unknown fields are skipped;
of a key or list that comes twice the last one counts, as protobuf has it for maps and oneofs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from provender.errors import DamageError

Values = list[int] | list[float] | list[bytes]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN, _U64 = 1 << 63, 1 << 64
_VARINT_BYTES = 10


def parse_example(data: bytes) -> dict[str, Values]:
    """The features of a serialized example, by name.

    Args:
        data: the wire bytes.

    Returns:
        Name -> values: int (signed 64 bit), float (32 bit) or bytes. A feature without any
        list has no values.

    Raises:
        DamageError: the bytes are not an example.
    """
    found: dict[str, Values] = {}
    try:
        for features in _messages(data, 1):
            for entry in _messages(features, 1):
                name, feature = b"", b""
                for number, value in _fields(entry):
                    if number == 1 and isinstance(value, bytes):
                        name = value
                    elif number == 2 and isinstance(value, bytes):
                        feature = value
                found[name.decode("utf-8")] = _feature(feature)
    except (IndexError, ValueError, struct.error) as error:
        raise DamageError(
            f"A record is not a tf.train.Example ({len(data):,} bytes).",
            hint="Was it written by TFDS? The record's own checksum holds.",
        ) from error
    return found


def _feature(data: bytes) -> Values:
    values: Values = []
    for number, body in _fields(data):
        if not isinstance(body, bytes):
            continue
        if number == 1:
            values = list(_messages(body, 1))
        elif number == 2:
            values = [each for part in _raw(body) for each in _floats(part)]
        elif number == 3:
            values = [each for part in _raw(body) for each in _ints(part)]
    return values


def _raw(data: bytes) -> Iterator[int | bytes]:
    return (value for number, value in _fields(data) if number == 1)


def _floats(part: int | bytes) -> list[float]:
    packed = part.to_bytes(4, "little") if isinstance(part, int) else part
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def _ints(part: int | bytes) -> list[int]:
    if isinstance(part, int):
        return [_signed(part)]
    values, at = [], 0
    while at < len(part):
        value, at = _varint(part, at)
        values.append(_signed(value))
    return values


def _signed(value: int) -> int:
    value %= _U64
    return value - _U64 if value & _SIGN else value


def _messages(data: bytes, wanted: int) -> Iterator[bytes]:
    for number, value in _fields(data):
        if number == wanted and isinstance(value, bytes):
            yield value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value: bytes for length-delimited fields, else the number's raw bits."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            message = f"wire type {kind}"
            raise ValueError(message)
        body = data[at : at + size]
        if len(body) != size:
            message = "a field is cut off"
            raise ValueError(message)
        at += size
        yield tag >> 3, body if kind == _BYTES else int.from_bytes(body, "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    message = "a varint does not end"
    raise ValueError(message)
