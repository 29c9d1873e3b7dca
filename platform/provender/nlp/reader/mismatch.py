"""Records that do not hold what the configuration declares, told by file, feature and length.

TensorFlow says of such a record only that it "can't parse" it. So features of a fixed length are
parsed as if they had any, which costs the same, and counted. Only where a count is wrong are the
files searched for the record: no record has to carry the name of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WRITTEN = "Was the file written with another sequence length or number of predictions?"
_NAMED = "Has the file other names for its features? BERT's have two (use_v2_feature_names)."
_BATCH = 256
"""Records that are looked at together in the search."""


@dataclass(frozen=True)
class Places:
    """Where the records of a source are, so that one of them can be found again.

    Attributes:
        source: what the configuration calls it.
        units: nested arrays, one entry a file, its address first; none where records cannot be
            read again.
        read: one unit -> dataset of its records.
        prepare: what is done to the dataset of units before they are read.
    """

    source: str
    units: Any = ()
    read: Callable[..., Any] | None = None
    prepare: Callable[[Any], Any] | None = None


def decoded(records: Any, features: Mapping[str, Any], places: Sequence[Places]) -> dict[str, Any]:
    """Decodes records, and refuses those that do not hold what is declared.

    It is made of TensorFlow operations only, so it runs in the workers of a service, too.

    Args:
        records: serialized examples, string ``[rows]`` or ``[]``.
        features: name -> `tf.io.FixedLenFeature`, `VarLenFeature` ...; those of a fixed length
            without a default must be there in full.
        places: where the records are from.

    Returns:
        What `tf.io.parse_example` gives, or `tf.io.parse_single_example`.

    Raises:
        tf.errors.InvalidArgumentError: when the graph runs, a record does not fit; names the file,
            the feature, the number of values found and the one expected.
    """
    import tensorflow as tf

    lengths = fixed_lengths(features)
    single = records.shape.rank == 0
    parse = tf.io.parse_single_example if single else tf.io.parse_example
    parsed: dict[str, Any] = parse(records, {**features, **_counted(lengths)})
    if not lengths:
        return parsed
    batch = records[tf.newaxis] if single else records
    ends = tf.stack([_ends(parsed[name]) for name in lengths])
    expected = tf.constant([[each] for each, _ in lengths.values()], tf.int64)
    fits = tf.reduce_all(tf.equal(ends, expected * tf.range(tf.shape(ends, tf.int64)[1])))
    message = tf.cond(fits, lambda: tf.constant(""), lambda: _found(batch, lengths, places))
    # `tf.debugging.Assert` would make a second branch.
    check = tf.raw_ops.Assert(condition=fits, data=[message])
    with tf.control_dependencies([check]):
        for name in lengths:
            flat = parsed[name] if single else parsed[name].values
            shape = features[name].shape
            parsed[name] = tf.reshape(flat, shape if single else [_rows(records), *shape])
    return parsed


def fixed_lengths(features: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
    """The features that every record must hold in full: name -> number of values, dtype."""
    import math

    import tensorflow as tf

    return {
        name: (math.prod(each.shape), each.dtype)
        for name, each in features.items()
        if isinstance(each, tf.io.FixedLenFeature) and each.default_value is None
    }


def _counted(lengths: Mapping[str, tuple[int, Any]]) -> dict[str, Any]:
    """The features, parsed with as many values as there are."""
    import tensorflow as tf

    return {
        name: tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
        for name, (_, dtype) in lengths.items()
    }


def _ends(values: Any) -> Any:
    """0, and where the values of each record, or of the only one, end: int64 [records + 1]."""
    import tensorflow as tf

    if isinstance(values, tf.RaggedTensor):
        return values.row_splits
    return tf.stack([tf.constant(0, tf.int64), tf.size(values, tf.int64)])


def _rows(records: Any) -> Any:
    import tensorflow as tf

    return records.shape[0] if records.shape[0] is not None else tf.shape(records)[0]


def _found(batch: Any, lengths: Mapping[str, Any], places: Sequence[Places]) -> Any:
    """What is wrong with the first record in the files that does not fit, or with the batch's."""
    import tensorflow as tf

    # Records that the caller reads, or that come through a cache, may be in no file any more.
    unplaced = (" or ".join(each.source for each in places), tf.constant(-1, tf.int64), batch)
    data = tf.data.Dataset.from_tensors(unplaced)
    for place in reversed(places):
        if place.read is not None:
            data = _batches(place).concatenate(data)
    told = (
        data.map(lambda file, first, batch: _told(file, first, batch, lengths))
        .filter(lambda wrong, _: wrong)
        .take(1)
    )
    return told.reduce("", lambda _, found: found[1])


def _batches(place: Places) -> Any:
    """A dataset of (file, number of the first record, records)."""
    import tensorflow as tf

    read = place.read
    assert read is not None

    def batches(*unit: Any) -> Any:
        # The shard cache's addresses are pairs: the shard, and where its copy is.
        file = tf.reshape(unit[0], [-1])[:1]
        records = read(*unit).batch(_BATCH)
        parts = (
            tf.data.Dataset.from_tensor_slices(file).repeat(),
            tf.data.Dataset.range(0, 1 << 62, _BATCH),
            records,
        )
        return tf.data.Dataset.zip(parts)

    data = tf.data.Dataset.from_tensor_slices(place.units)
    return (place.prepare(data) if place.prepare else data).flat_map(batches)


def _told(file: Any, first: Any, batch: Any, lengths: Mapping[str, Any]) -> Any:
    """Whether a record of a batch does not fit, and what is wrong with the first such.

    Args:
        file: where they are from.
        first: number of the first in the file; below 0 where that is not known.
        batch: serialized examples, string [rows].
        lengths: see `fixed_lengths`.
    """
    import tensorflow as tf

    parsed = tf.io.parse_example(batch, _counted(lengths))
    ends = tf.stack([_ends(parsed[name]) for name in lengths])
    counts = ends[:, 1:] - ends[:, :-1]
    expected = tf.constant([[each] for each, _ in lengths.values()], tf.int64)
    wrong = tf.not_equal(counts, expected)
    row = tf.argmax(tf.reduce_any(wrong, axis=0))
    feature = tf.argmax(wrong[:, row])
    found = counts[feature, row]
    number = tf.strings.join(["record ", tf.strings.as_string(first + row), " (from 0)"])
    message = [
        file,
        tf.gather([f": {name} holds " for name in lengths], feature),
        tf.strings.as_string(found),
        " values in ",
        tf.where(first < 0, "a record", number),
        tf.gather([f", and {each} are expected. " for each, _ in lengths.values()], feature),
        tf.where(tf.equal(found, 0), _NAMED, _WRITTEN),
    ]
    return tf.reduce_any(wrong), tf.strings.join(message)
