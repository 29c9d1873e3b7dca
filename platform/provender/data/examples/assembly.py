"""From what examples store to Arrow columns, as the tree of features says."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from provender.data.errors import FeatureTypeError
from provender.data.examples.stored import BYTES, FLOATS, INTS, NOTHING, Stored
from provender.data.features.casting import cast_array
from provender.data.features.dtypes import arrow_type
from provender.data.features.media import FILE
from provender.data.features.tables import arrow_array
from provender.data.features.tfds import Leaf, Rows, Tree, _Pairs
from provender.data.features.types import type_of
from provender.errors import DamageError

Get = Callable[[str], Stored]
"""The values of a name in all examples."""

_KIND_NAMES = {BYTES: "bytes", FLOATS: "floats", INTS: "whole numbers"}


def leaves_of(tree: Tree) -> list[Leaf]:
    """All leaves of a tree."""
    if isinstance(tree, Leaf):
        return [tree]
    fields = tree.fields if isinstance(tree, Rows | _Pairs) else tree
    return [leaf for each in fields.values() for leaf in leaves_of(each)]


def names_of(leaf: Leaf) -> list[str]:
    """Names in the example under which a leaf is stored."""
    if leaf.is_dynamic:
        parts = [f"{leaf.name}/shape", f"{leaf.name}/value"]
    else:
        parts = [leaf.name]
    if len(leaf.lengths) < 2:
        return parts
    levels = [f"ragged_row_lengths_{level}" for level in range(len(leaf.lengths) - 1)]
    return [f"{part}/{each}" for part in parts for each in ("ragged_flat_values", *levels)]


def build(tree: Tree, get: Get, count: int) -> pa.Array:
    """The column of a tree.

    Args:
        tree: a part of the features.
        get: gives the values of a name.
        count: number of examples.

    Raises:
        DamageError: the examples do not hold what the features say.
        FeatureTypeError: a text is not UTF-8.
    """
    if isinstance(tree, Leaf):
        return _leaf(tree, get)
    if isinstance(tree, Rows):
        columns = {name: build(each, get, count) for name, each in tree.fields.items()}
        return _zipped(columns, tree.depth)
    fields = tree.fields if isinstance(tree, _Pairs) else tree
    if not fields:
        return pa.array([{}] * count, pa.struct([]))
    return _struct({name: build(each, get, count) for name, each in fields.items()})


def _struct(columns: Mapping[str, pa.Array]) -> pa.Array:
    fields = [pa.field(name, each.type) for name, each in columns.items()]
    return pa.StructArray.from_arrays(list(columns.values()), fields=fields)


def _zipped(columns: Mapping[str, pa.Array], depth: int) -> pa.Array:
    """Parallel lists as lists of structs, below ``depth`` lists that they share."""
    if not columns:
        raise FeatureTypeError("A Dataset feature without fields cannot be read.")
    level = {
        name: _zipped({f.name: each.field(f.name) for f in each.type}, depth)
        if pa.types.is_struct(each.type)
        else each
        for name, each in columns.items()
    }
    first = next(iter(level.values()))
    lengths = np.asarray(pc.list_value_length(first)).astype(np.int64)
    for each in level.values():
        if not np.array_equal(np.asarray(pc.list_value_length(each)), lengths):
            raise DamageError("The fields of a Dataset feature differ in length.")
    inner = {name: each.flatten() for name, each in level.items()}
    return _lists(_struct(inner) if depth == 0 else _zipped(inner, depth - 1), lengths)


def _lists(values: pa.Array, lengths: np.ndarray, mask: np.ndarray | None = None) -> pa.Array:
    """Lists of any length; a null one has the length 0."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    nulls = None if mask is None else pa.array(mask)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=nulls)


# --- leaves --------------------------------------------------------------------------------------


def _leaf(leaf: Leaf, get: Get) -> pa.Array:
    part = f"{leaf.name}/value" if leaf.is_dynamic else leaf.name
    rank = len(leaf.lengths)
    ragged = rank >= 2
    stored = get(f"{part}/ragged_flat_values" if ragged else part)
    _check_kind(leaf, stored)
    shapes = None
    if leaf.is_dynamic:
        name = f"{leaf.name}/shape"
        shapes = get(f"{name}/ragged_flat_values" if ragged else name)
    if rank == 0:
        return _single(leaf, stored, shapes)
    items, lengths = _items(leaf, stored, shapes)
    if ragged:
        levels = [get(f"{part}/ragged_row_lengths_{level}") for level in range(rank - 1)]
        for level in range(rank - 2, -1, -1):
            values = (
                np.zeros(0, np.int64) if levels[level].kind == NOTHING else levels[level].values
            )
            _check_total(leaf, values, len(items))
            items = _sized(leaf, items, values, leaf.lengths[level + 1])
        lengths = levels[0].counts
    _check_total(leaf, lengths, len(items))
    return _sized(leaf, items, lengths, leaf.lengths[0])


def _check_kind(leaf: Leaf, stored: Stored) -> None:
    if leaf.kind in ("number", "label") and leaf.packed == "none":
        wanted = FLOATS if leaf.dtype.startswith(("float", "bfloat")) else INTS
    else:
        wanted = BYTES
    if stored.kind not in (wanted, NOTHING):
        raise DamageError(
            f"Feature {leaf.name!r} holds {_KIND_NAMES[stored.kind]}, features.json says "
            f"{_KIND_NAMES[wanted]} ({leaf.feature!r}).",
            where=f"feature {leaf.name!r}",
            hint="Do features.json and the shards belong together? `provender verify` looks.",
        )


def _check_total(leaf: Leaf, lengths: np.ndarray, items: int) -> None:
    if (lengths.size and int(lengths.min()) < 0) or int(lengths.sum()) != items:
        raise DamageError(
            f"The lists of feature {leaf.name!r} have {int(lengths.sum()):,} items, "
            f"{items:,} are stored.",
            where=f"feature {leaf.name!r}",
        )


def _sized(leaf: Leaf, items: pa.Array, lengths: np.ndarray, length: int) -> pa.Array:
    if length < 0:
        return _lists(items, lengths)
    if lengths.size and (lengths != length).any():
        raise DamageError(
            f"A list of feature {leaf.name!r} has {int(lengths[lengths != length][0])} items, "
            f"features.json says {length}.",
            where=f"feature {leaf.name!r}",
        )
    return pa.FixedSizeListArray.from_arrays(items, length)


def _items(leaf: Leaf, stored: Stored, shapes: Stored | None) -> tuple[pa.Array, np.ndarray]:
    """The items of all sequences, and how many each example has (for sequences of one level)."""
    if leaf.packed != "none":
        items = _unpacked(leaf, stored, shapes)
        return items, stored.counts
    values = _flat(leaf, stored)
    if not leaf.shape:
        return values, stored.counts
    if any(each is None for each in leaf.shape):
        raise FeatureTypeError(
            f"Feature {leaf.name!r} is a sequence of tensors of unknown size, which are not kept "
            "apart in the example.",
            where=f"feature {leaf.name!r}",
        )
    size = math.prod(each or 0 for each in leaf.shape)
    if size == 0 or (stored.counts % size).any():
        raise DamageError(
            f"The values of feature {leaf.name!r} are no tensors of shape {leaf.shape}.",
            where=f"feature {leaf.name!r}",
        )
    sizes = np.broadcast_to(np.array(leaf.shape, np.int64), (len(values) // size, len(leaf.shape)))
    return _shaped(leaf, values, sizes, None), stored.counts // size


def _single(leaf: Leaf, stored: Stored, shapes: Stored | None) -> pa.Array:
    """One value or tensor an example; null where there is none."""
    counts = stored.counts
    missing = counts == 0
    if leaf.packed != "none" or not leaf.shape:
        if (counts > 1).any():
            raise DamageError(
                f"Feature {leaf.name!r} has {int(counts.max()):,} values in an example, one was "
                "expected.",
                where=f"feature {leaf.name!r}",
            )
        values = _unpacked(leaf, stored, shapes) if leaf.packed != "none" else _flat(leaf, stored)
        return _with_nulls(values, missing) if missing.any() else values
    absent = stored.absent if stored.absent is not None and stored.absent.any() else None
    return _shaped(leaf, _flat(leaf, stored), _sizes(leaf, counts, absent), absent)


def _with_nulls(values: pa.Array, missing: np.ndarray) -> pa.Array:
    index = np.cumsum(~missing) - 1
    return values.take(pa.array(np.where(missing, 0, index), mask=missing))


def _sizes(leaf: Leaf, counts: np.ndarray, absent: np.ndarray | None) -> np.ndarray:
    """The shape of each example's tensor, (n, rank); all zero where there is none."""
    known = math.prod(each for each in leaf.shape if each is not None)
    unknown = [axis for axis, each in enumerate(leaf.shape) if each is None]
    sizes = np.empty((len(counts), len(leaf.shape)), np.int64)
    sizes[:] = [each or 0 for each in leaf.shape]
    for axis in unknown[:1]:
        sizes[:, axis] = counts // known if known else 0
    if absent is not None:
        sizes[absent] = 0
    wrong = sizes.prod(axis=1) != counts
    if len(unknown) > 1 or wrong.any():
        raise DamageError(
            f"Feature {leaf.name!r} has {int(counts[wrong][0]) if wrong.any() else 0:,} values in "
            f"an example, which are no tensor of shape {leaf.shape}.",
            where=f"feature {leaf.name!r}",
        )
    return sizes


def _shaped(leaf: Leaf, values: pa.Array, sizes: np.ndarray, absent: np.ndarray | None) -> pa.Array:
    """Flat values as tensors.

    Args:
        leaf: the leaf.
        values: all values.
        sizes: shape of each tensor, (n, rank).
        absent: tensors that are null, or None.
    """
    kind = type_of(leaf.feature)
    kinds = [kind]
    for _ in leaf.shape[1:]:
        kinds.append(kinds[-1].value_type)
    nodes = np.cumprod(sizes, axis=1)
    made = values
    for axis in range(len(leaf.shape) - 1, -1, -1):
        above = nodes[:, axis - 1] if axis else np.ones(len(sizes), np.int64)
        mask = absent if axis == 0 else None
        if pa.types.is_fixed_size_list(kinds[axis]):
            length = kinds[axis].list_size
            if mask is not None:
                gaps = pa.array(np.where(mask, 0, np.cumsum(~mask) - 1), mask=mask)
                made = pa.FixedSizeListArray.from_arrays(made, length).take(gaps)
            else:
                made = pa.FixedSizeListArray.from_arrays(made, length)
        else:
            made = _lists(made, np.repeat(sizes[:, axis], above), mask)
    return made


def _flat(leaf: Leaf, stored: Stored) -> pa.Array:
    """Stored values as Arrow, one by one."""
    values = stored.values
    if stored.kind == NOTHING:
        inner = leaf.feature
        for _ in leaf.shape:
            inner = getattr(inner, "feature", inner)
        kind = arrow_type(inner.dtype) if leaf.shape and hasattr(inner, "dtype") else type_of(inner)
        return pa.array([], kind)
    if leaf.kind == "text":
        return _texts(leaf, values)
    if leaf.kind == "bytes":
        return values.cast(pa.binary())
    if leaf.kind in ("image", "sound"):
        data = values.cast(pa.binary())
        return pa.StructArray.from_arrays(
            [data, pa.nulls(len(data), pa.string())], fields=list(FILE)
        )
    if leaf.kind == "pixels":
        pixels = [_pixels(each, leaf) for each in values.to_pylist()]
        return (
            cast_array(arrow_array(pixels), leaf.feature)
            if pixels
            else pa.array([], type_of(leaf.feature))
        )
    return _numbers(values, leaf.dtype)


def _texts(leaf: Leaf, values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        for raw in values.to_pylist():
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as inner:
                raise FeatureTypeError(
                    f"A text of feature {leaf.name!r} is not UTF-8 ({inner}).",
                    where=f"feature {leaf.name!r}",
                    hint=f"Read it as bytes: ExampleReader(..., as_bytes={{{leaf.name!r}}}).",
                    facts={"feature": leaf.name},
                ) from error
        raise


def _numbers(values: np.ndarray, dtype: str) -> pa.Array:
    if dtype == "bool":
        return pa.array(values != 0)
    if dtype == "uint64":
        return pa.array(values.view(np.uint64))
    return pa.array(values.astype(np.dtype(dtype), copy=False))


def _pixels(data: bytes, leaf: Leaf) -> np.ndarray:
    """An image of float32, which TFDS stores as one of four channels of bytes."""
    from PIL import Image as Pillow

    with Pillow.open(io.BytesIO(data)) as image:
        array = np.asarray(image, np.uint8)
    if array.ndim != 3 or array.shape[2] != 4:
        raise DamageError(
            f"An image of feature {leaf.name!r} is not the four channels of a float32 image.",
            where=f"feature {leaf.name!r}",
        )
    return np.ascontiguousarray(array).view(np.float32)


def _unpacked(leaf: Leaf, stored: Stored, shapes: Stored | None) -> pa.Array:
    """Tensors that are stored as the bytes of their arrays."""
    raw: Sequence[bytes] = [] if stored.kind == NOTHING else stored.values.to_pylist()
    if not raw:
        return pa.array([], type_of(leaf.feature))
    sizes = None
    if shapes is not None:
        if len(shapes.values) != len(raw) * len(leaf.shape):
            raise DamageError(
                f"The shapes of feature {leaf.name!r} are not as many as its tensors."
            )
        sizes = shapes.values.reshape(len(raw), len(leaf.shape)).tolist()
    fixed = [-1 if each is None else each for each in leaf.shape]
    arrays: list[Any] = []
    for at, data in enumerate(raw):
        try:
            plain = zlib.decompress(data) if leaf.packed == "zlib" else data
            array = np.frombuffer(plain, leaf.dtype).reshape(sizes[at] if sizes else fixed)
        except (zlib.error, ValueError) as error:
            raise DamageError(
                f"A tensor of feature {leaf.name!r} cannot be unpacked: {error}.",
                where=f"feature {leaf.name!r}",
            ) from error
        arrays.append(array[()] if array.ndim == 0 else array)
    return cast_array(arrow_array(arrays), leaf.feature)
