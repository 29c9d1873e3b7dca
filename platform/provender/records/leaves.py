"""From one feature's value to its map entry: the pieces that `wire` compiles an encoder of.

A leaf either returns exactly the bytes that TFDS would store, or raises `Unusual`: the value may
still be fine (TFDS converts much), but only TFDS's own code can tell.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from provender.records import protobuf
from provender.records.schema import serializer

Leaf = Callable[[Any], bytes]

_pack_float = struct.Struct("<f").pack
# Values and lengths below this are worth remembering; above, the rest of the work dominates.
_CACHED = 8192


class Unusual(Exception):
    """The fast path does not know this value."""


class TextPrefixes(dict[int, bytes]):
    """What precedes a text of ``n`` bytes in its map entry, by ``n``."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def __missing__(self, length: int) -> bytes:
        prefix = protobuf.single_bytes_prefix(self._key, length)
        if length < _CACHED:
            self[length] = prefix
        return prefix


class ExamplePrefixes(dict[int, bytes]):
    """What precedes map entries of ``n`` bytes in an Example, by ``n``."""

    def __missing__(self, length: int) -> bytes:
        prefix = protobuf.example_prefix(length)
        if length < _CACHED:
            self[length] = prefix
        return prefix


class LabelEntries(dict[Any, bytes]):
    """Whole map entries of a ClassLabel, by label number or name.

    Looking up ``True`` or ``1.0`` finds the entry of ``1``, which is what TFDS stores for them.
    """

    def __init__(self, key: bytes, feature: Any) -> None:
        super().__init__()
        self._key = key
        self._feature = feature

    def __missing__(self, label: Any) -> bytes:
        kind = type(label)
        if kind is not int and kind is not str:
            raise Unusual
        try:
            number = int(self._feature.encode_example(label))
        except Exception as error:
            raise Unusual from error
        made = protobuf.entry(self._key, protobuf.int64_feature(protobuf.varint(number)))
        if len(self) < _CACHED:
            self[label] = made
        return made


def int_leaf(key: bytes, dtype: np.dtype) -> Leaf:
    """A scalar of an integer dtype: Python ints in its range, and numpy scalars of that dtype."""
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    known: dict[int, bytes] = {}
    scalar = dtype.type

    def encode(value: Any) -> bytes:
        kind = value.__class__
        if kind is scalar:
            value = int(value)
        elif kind is not int or not low <= value <= high:
            raise Unusual
        made = known.get(value)
        if made is None:
            made = protobuf.entry(key, protobuf.int64_feature(protobuf.varint(value)))
            if len(known) < _CACHED:
                known[value] = made
        return made

    return encode


def bool_leaf(key: bytes) -> Leaf:
    """A bool: TFDS stores it as the integer 0 or 1."""
    true, false = (protobuf.entry(key, protobuf.int64_feature(protobuf.varint(n))) for n in (1, 0))

    def encode(value: Any) -> bytes:
        if value is True:
            return true
        if value is False:
            return false
        if value.__class__ is np.bool_:
            return true if value else false
        raise Unusual

    return encode


def float_leaf(key: bytes, dtype: np.dtype) -> Leaf:
    """A float32 or float64 scalar; tf.Example keeps 32 bits of either."""
    prefix = protobuf.entry(key, protobuf.float_feature(b"\0\0\0\0"))[:-4]
    scalar = dtype.type

    def encode(value: Any) -> bytes:
        if value.__class__ is not float and value.__class__ is not scalar:
            raise Unusual
        try:
            return prefix + _pack_float(value)
        except OverflowError as error:
            raise Unusual from error

    return encode


def array_leaf(key: bytes, dtype: np.dtype, shape: tuple[int | None, ...]) -> Leaf:
    """A numeric tensor given as an array of exactly its dtype and shape."""

    def encode(value: Any) -> bytes:
        if (
            value.__class__ is not np.ndarray
            or value.dtype != dtype
            or not shape_fits(value.shape, shape)
        ):
            raise Unusual
        return numeric_entry(key, value)

    return encode


def numbers_leaf(key: bytes, dtype: np.dtype, length: int | None) -> Leaf:
    """A sequence of numeric scalars: a list of plain Python numbers, or an array of the dtype."""
    kind = {"b": bool, "f": float}.get(dtype.kind, int)
    limits = np.iinfo(dtype) if kind is int else None

    def encode(value: Any) -> bytes:
        if value.__class__ is np.ndarray:
            if value.dtype != dtype or value.ndim != 1:
                raise Unusual
            array = value
        elif value.__class__ is list or value.__class__ is tuple:
            if not set(map(type, value)) <= {kind}:
                raise Unusual
            if limits and value and (min(value) < limits.min or max(value) > limits.max):
                raise Unusual
            array = np.array(value, dtype=np.float64 if kind is float else dtype)
            if kind is float and np.abs(array[np.isfinite(array)]).max(initial=0) > 3e38:
                raise Unusual
        else:
            raise Unusual
        if length is not None and len(array) != length:
            raise Unusual
        return numeric_entry(key, array)

    return encode


def texts_leaf(key: bytes, length: int | None) -> Leaf:
    """A sequence of str or bytes."""

    def encode(value: Any) -> bytes:
        if value.__class__ is not list and value.__class__ is not tuple:
            raise Unusual
        if length is not None and len(value) != length:
            raise Unusual
        kinds = set(map(type, value))
        if kinds == {str}:
            return protobuf.entry(key, protobuf.bytes_feature(list(map(str.encode, value))))
        if kinds <= {str, bytes}:
            return protobuf.entry(
                key,
                protobuf.bytes_feature([v if type(v) is bytes else v.encode() for v in value]),
            )
        raise Unusual

    return encode


def labels_leaf(key: bytes, feature: Any, length: int | None) -> Leaf:
    """A sequence of class labels, as numbers or names."""
    numbers: dict[Any, int] = {}

    def number(label: Any) -> int:
        kind = type(label)
        if kind is not int and kind is not str:
            raise Unusual
        found = numbers.get(label)
        if found is None:
            found = int(feature.encode_example(label))
            if len(numbers) < _CACHED:
                numbers[label] = found
        return found

    def encode(value: Any) -> bytes:
        if value.__class__ is not list and value.__class__ is not tuple:
            raise Unusual
        if length is not None and len(value) != length:
            raise Unusual
        return numeric_entry(key, np.array(list(map(number, value)), dtype=np.int64))

    return encode


def converted_leaf(key: bytes, feature: Any, info: Any) -> Leaf:
    """Any feature that stores one tensor: its own ``encode_example``, then the wire bytes.

    Args:
        key: the flattened feature name, UTF-8.
        feature: the connector.
        info: its serialized ``TensorInfo`` (no sequence dimension).
    """
    dtype = np.dtype(info.np_dtype)
    prefixes = TextPrefixes(key) if dtype.kind == "O" and info.shape == () else None

    def encode(value: Any) -> bytes:
        item = feature.encode_example(value)
        if prefixes is not None and item.__class__ is bytes:
            return prefixes[len(item)] + item
        if item is None and info.optional:
            return b""
        array = np.asanyarray(item, dtype=dtype)
        if not shape_fits(array.shape, info.shape):
            message = f"shape {array.shape} does not match {info.shape}"
            raise ValueError(message)
        if dtype.kind != "O":
            return numeric_entry(key, array)
        if not _is_text(item):
            message = f"{item!r} is neither str nor bytes"
            raise ValueError(message)
        return protobuf.entry(key, protobuf.bytes_feature(list(map(_as_bytes, array.flat))))

    return encode


def grouped_leaf(name: str, feature: Any) -> Leaf:
    """Any feature that stores several tensors, or ragged ones: TFDS's own layout of them.

    Args:
        name: the flattened feature name.
        feature: the connector.
    """
    layout = serializer({name: feature.get_serialized_info()})

    def encode(value: Any) -> bytes:
        stored = layout.get_tf_example({name: feature.encode_example(value)}).features.feature
        return protobuf.entries({key: stored[key].SerializeToString() for key in stored})

    return encode


def numeric_entry(key: bytes, array: np.ndarray) -> bytes:
    """The map entry of a bool, integer or floating array of any shape (flattened row by row)."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "f":
        return protobuf.entry(key, protobuf.float_feature(protobuf.packed_floats(flat)))
    if flat.dtype.kind == "b":
        flat = flat.astype(np.uint8)
    return protobuf.entry(key, protobuf.int64_feature(protobuf.packed_varints(flat)))


def shape_fits(shape: tuple[int, ...], pattern: tuple[int | None, ...]) -> bool:
    """Whether a shape matches a pattern in which None stands for any size."""
    return len(shape) == len(pattern) and all(
        want is None or have == want for have, want in zip(shape, pattern, strict=True)
    )


def _is_text(item: Any) -> bool:
    if isinstance(item, (bytes, str)):
        return True
    if isinstance(item, (tuple, list)):
        return all(map(_is_text, item))
    return isinstance(item, np.ndarray) and item.dtype.kind in "USO"


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode("utf-8")
    message = f"{value!r} is neither str nor bytes"
    raise TypeError(message)
