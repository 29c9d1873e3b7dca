"""From a parsed example to values that people read, as ``features.json`` says.

Only the document is used, not the TFDS feature classes: several of them import TensorFlow, and a
look at three examples should not take ten seconds. How values lie in an example is TFDS's
`tensorflow_datasets/core/example_serializer.py`: nested names are joined by ``/``; sequences of
sequences are ``NAME/ragged_flat_values`` and ``NAME/ragged_row_lengths_0``, 1, ...; a tensor of
several unknown dimensions is ``NAME/shape`` and ``NAME/value``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from provender.training.images import summary
from provender.training.wire import Values

Example = Mapping[str, Values]
Decoder = Callable[[Example], dict[str, Any]]
Convert = Callable[[Any], Any]

MOST_VALUES = 256
"""A tensor of more values is summarised by its shape and type."""


def decoder(features: Mapping[str, Any], labels: Mapping[str, Sequence[str]]) -> Decoder:
    """What turns a parsed example into named values.

    Args:
        features: features.json as a document.
        labels: stem of a ``*.labels.txt`` file -> its names.

    Returns:
        A function from `parse_example`'s result to JSON-ready values. Features of a kind that is
        not known here come as they are stored.
    """

    def decode(example: Example) -> dict[str, Any]:
        value = _Reader(example, labels).read(features, (), 0)
        return value if isinstance(value, dict) else {"": value}

    return decode


class _Reader:
    """Reads one example."""

    def __init__(self, example: Example, labels: Mapping[str, Sequence[str]]) -> None:
        self._example = example
        self._labels = labels

    def read(self, doc: Mapping[str, Any], path: tuple[str, ...], rank: int) -> Any:
        """The value of a feature.

        Args:
            doc: the feature's part of features.json.
            path: names from the root.
            rank: sequences that it lies in.
        """
        if "featuresDict" in doc:
            inner = doc["featuresDict"].get("features", {})
            return {name: self.read(each, (*path, name), rank) for name, each in inner.items()}
        if "sequence" in doc:
            value = self.read(doc["sequence"]["feature"], path, rank + 1)
            is_dataset = str(doc.get("pythonClassName", "")).endswith(".Dataset")
            return _rows(value) if is_dataset and isinstance(value, dict) else value
        if "translation" in doc:
            return self._translation(doc["translation"], path, rank)
        if "video" in doc:
            return self._leaf(path, rank + 1, (), summary)
        if "image" in doc:
            return self._leaf(path, rank, (), summary)
        if "text" in doc:
            return self._leaf(path, rank, (), _text)
        if "classLabel" in doc:
            return self._leaf(path, rank, (), self._label(path))
        for kind in ("tensor", "boundingBox", "audio"):
            if kind in doc:
                return self._tensor(doc[kind], path, rank)
        return self._as_stored(path)

    def _label(self, path: tuple[str, ...]) -> Convert:
        # TFDS names the file after the path joined by "-", with "/" inside a name as ".".
        names = self._labels.get("-".join(name.replace("/", ".") for name in path), ())
        return lambda value: names[value] if 0 <= value < len(names) else value

    def _translation(self, doc: Mapping[str, Any], path: tuple[str, ...], rank: int) -> Any:
        if doc.get("variableLanguagesPerExample"):
            parts = ("language", "translation")
            return {name: self._leaf((*path, name), rank + 1, (), _text) for name in parts}
        languages = doc.get("languages", ())
        return {name: self._leaf((*path, name), rank, (), _text) for name in languages}

    def _tensor(self, doc: Mapping[str, Any], path: tuple[str, ...], rank: int) -> Any:
        shape = tuple(int(each) for each in doc.get("shape", {}).get("dimensions", ()))
        dtype, name = str(doc.get("dtype", "")), "/".join(path)
        encoding = str(doc.get("encoding", "none")).lower()
        dynamic = self._example.get(f"{name}/shape")
        if dynamic is not None and rank == 0:
            shape, path = tuple(int(each) for each in dynamic), (*path, "value")
        elif encoding not in ("", "none"):
            return self._leaf(path, rank, (), lambda raw: _unpacked(raw, encoding, dtype, shape))
        return self._leaf(path, rank, shape, _number(dtype), dtype)

    def _leaf(
        self,
        path: tuple[str, ...],
        rank: int,
        shape: tuple[int, ...],
        convert: Convert,
        dtype: str = "",
    ) -> Any:
        """A feature's values, converted and nested.

        Args:
            path: names from the root.
            rank: sequences that it lies in; the outer dimensions.
            shape: the inner dimensions; -1 where unknown.
            convert: makes the value of a stored one.
            dtype: for the summary of a large tensor.
        """
        name = "/".join(path)
        values = self._example.get(name)
        if values is None:
            values = self._example.get(f"{name}/ragged_flat_values")
        if values is None:
            return [] if rank else None
        items: list[Any] = [convert(each) for each in values]
        if rank == 0:
            return _shaped(items, shape, dtype)
        size = math.prod(shape)
        if shape and size > 0:
            parts = range(0, len(items), size)
            items = [_shaped(items[at : at + size], shape, dtype) for at in parts]
        # The outermost length needs no entry, so level 0 tells the lengths of the second level.
        for level in range(rank - 2, -1, -1):
            lengths = self._example.get(f"{name}/ragged_row_lengths_{level}")
            if lengths is None:
                break
            items = _split(items, [int(each) for each in lengths])
        return items

    def _as_stored(self, path: tuple[str, ...]) -> Any:
        """The values of a feature of an unknown kind, by what is left of their names."""
        name = "/".join(path)
        if name in self._example:
            return _single([_plain(each) for each in self._example[name]])
        below = {key: each for key, each in self._example.items() if key.startswith(f"{name}/")}
        if not name:
            below = dict(self._example)
        return {
            key.removeprefix(f"{name}/"): _single([_plain(each) for each in values])
            for key, values in sorted(below.items())
        } or None


def _rows(columns: Mapping[str, Any]) -> Any:
    """Dict of lists to list of dicts, where all lists are of one length."""
    lengths = {len(each) if isinstance(each, list) else -1 for each in columns.values()}
    if len(lengths) != 1 or -1 in lengths:
        return dict(columns)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _shaped(items: list[Any], shape: tuple[int, ...], dtype: str) -> Any:
    """A flat list as a scalar or nested lists; a large one as a summary."""
    if not shape:
        return _single(items)
    known = math.prod(each for each in shape if each >= 0)
    if sum(each < 0 for each in shape) == 1 and known:
        shape = tuple(len(items) // known if each < 0 else each for each in shape)
    if len(items) > MOST_VALUES:
        return {"shape": list(shape), "dtype": dtype}
    if math.prod(shape) != len(items) or any(each < 0 for each in shape):
        return items
    for size in reversed(shape[1:]):
        rows = len(items) // size if size else 0
        items = [items[at * size : (at + 1) * size] for at in range(rows)]
    return items


def _split(items: list[Any], lengths: list[int]) -> list[Any]:
    rows, at = [], 0
    for length in lengths:
        rows.append(items[at : at + length])
        at += length
    return rows


def _single(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else items


def _number(dtype: str) -> Convert:
    if dtype == "bool":
        return bool
    if dtype == "uint64":
        # tf.Example has no unsigned numbers: TFDS stores their bits as signed ones.
        return lambda value: value % (1 << 64)
    return _plain


def _plain(value: Any) -> Any:
    return _text(value) if isinstance(value, bytes) else value


def _text(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return summary(value)


def _unpacked(raw: bytes, encoding: str, dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor that is stored as the bytes of its array, compressed or not."""
    import numpy as np

    data = zlib.decompress(raw) if encoding == "zlib" else raw
    if dtype in ("string", "object"):
        return summary(data)
    return _shaped(np.frombuffer(data, dtype).tolist(), shape, dtype)
