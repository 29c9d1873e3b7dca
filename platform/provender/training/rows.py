"""From a record to the example that `tfds.data_source` gives, without TensorFlow."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from provender.errors import DamageError
from provender.training import scanning
from provender.training.messages import example_class
from provender.training.pixels import image_decoder
from provender.training.scanning import Field

Example = dict[str, Any]
Decode = Callable[[bytes], Example]


def decoder_of(document: Mapping[str, Any], columns: Sequence[str] | None, where: str) -> Decode:
    """What makes an example of a record, equal to what `tfds.data_source` gives.

    Args:
        document: features.json, parsed.
        columns: top-level features wanted; None means all.
        where: named in errors: the version.

    Raises:
        UnknownReference: a column that the version does not have.
    """
    import tensorflow_datasets as tfds

    every = features = tfds.features.FeatureConnector.from_json(dict(document))
    if columns is not None:
        from provender.training.feed.parsing import only

        features = only(every, columns, where)
    leaves = _leaves(features)
    if leaves is None:
        return _by_tfds(every, columns)
    parse = _by_messages(leaves, where)
    scan = _by_scanning(every, leaves)
    if scan is None:
        return parse

    def decode(record: bytes) -> Example:
        try:
            return scan(record)
        except (ValueError, IndexError, struct.error):
            return parse(record)

    return decode


_STORED: Mapping[bytes, tuple[str, Any]] = {
    scanning.BYTES: ("bytes_list.value", np.object_),
    scanning.FLOATS: ("float_list.value", np.float32),
    # Every whole number is stored in 64 signed bits; a large uint64 wraps there and back.
    scanning.INTS: ("int64_list.value", np.int64),
}


def _leaves(features: Any) -> dict[str, Field] | None:
    """Every stored feature by name; None if TFDS has to be asked."""
    import tensorflow_datasets as tfds

    from provender.training.feed.parsing import as_stored

    if not isinstance(features, tfds.features.FeaturesDict):
        return None  # a sequence of dicts, which passes on what its dict has
    found = {}
    for name, feature in features.items():
        info = feature.get_serialized_info()
        if isinstance(info, dict) or info.shape.count(None) > 1:
            return None
        if type(feature) is tfds.features.Image and not info.shape:
            found[name] = Field(scanning.BYTES, False, image_decoder(feature))
        elif as_stored(feature):
            found[name] = _leaf(info)
        else:
            return None
    return found


def _leaf(info: Any) -> Field:
    """The leaf of a feature whose values are its stored values."""
    kind = info.np_dtype
    if kind == np.object_:
        tag = scanning.BYTES
    elif np.issubdtype(kind, np.floating):
        tag = scanning.FLOATS
    else:
        tag = scanning.INTS
    stored = _STORED[tag][1]
    if info.shape:
        shape = tuple(-1 if size is None else size for size in info.shape)
        return Field(tag, True, lambda values: values.astype(kind).reshape(shape))
    if kind == stored:
        return Field(tag, False, None)
    return Field(tag, False, lambda value: np.array(value, stored).astype(kind).item())


def _by_tfds(every: Any, columns: Sequence[str] | None) -> Decode:
    """TFDS's own decoding."""
    if columns is None:
        whole: Decode = every.deserialize_example_np
        return whole

    # TFDS trips over ragged features that are in the record and not asked for.
    def chosen(record: bytes) -> Example:
        example = every.deserialize_example_np(record)
        return {name: example[name] for name in columns}

    return chosen


def _by_messages(leaves: Mapping[str, Field], where: str) -> Decode:
    """Decoding through protobuf's parser, of whatever lies in a record in whatever order."""
    from google.protobuf.message import DecodeError

    makers = tuple((name, _from_message(leaf)) for name, leaf in leaves.items())
    parse = example_class().FromString

    def decode(record: bytes) -> Example:
        try:
            stored = parse(record).features.feature
            return {name: make(stored[name]) for name, make in makers}
        except (DecodeError, IndexError, ValueError) as error:
            raise DamageError(
                f"A record of {len(record):,} bytes does not hold the features of {where}.",
                where=where,
                hint="Its own checksum holds, so it was written so. Was it by TFDS or Provender?",
                facts={"cause": str(error)},
            ) from error

    return decode


def _from_message(leaf: Field) -> scanning.Make:
    """Makes the value of a `Feature` message."""
    path, stored = _STORED[leaf.kind]
    values, make = operator.attrgetter(path), leaf.make
    if leaf.many:
        assert make is not None
        return lambda feature: make(np.array(values(feature), stored))
    if make is None:
        return lambda feature: values(feature)[0]
    return lambda feature: make(values(feature)[0])


def _by_scanning(every: Any, leaves: Mapping[str, Field]) -> scanning.Scan | None:
    fields: dict[str, Field | None] = {}
    for name, feature in every.items():
        if isinstance(feature.get_serialized_info(), dict):
            return None  # stored under several keys
        fields[name] = leaves.get(name)
    return scanning.scanner(fields, list(leaves))
