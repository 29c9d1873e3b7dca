"""Records that do not hold what the configuration declares, told by file, feature and length.

TensorFlow says of such a record only that it "can't parse" it. So the first record of each file is
looked at as it is opened: a file is written with one sequence length throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from provender.errors import InputError

_WRITTEN = "Was the file written with another sequence length or number of predictions?"
_NAMED = "Has the file other names for its features? BERT's have two (use_v2_feature_names)."


def checking_first(
    read: Callable[..., Any], features: Mapping[str, Any] | None
) -> Callable[..., Any]:
    """A reader that refuses a file whose first record does not fit.

    It is made of TensorFlow operations only, so it runs in the workers of a service, too.

    Args:
        read: (address, ...) -> dataset of records.
        features: what a record must hold; only `tf.io.FixedLenFeature` without a default are
            looked at.
    """
    lengths = fixed_lengths(features or {})
    if not lengths:
        return read

    def checked(address: Any, *place: Any) -> Any:
        import tensorflow as tf

        def look(record: Any) -> Any:
            with tf.control_dependencies(_checks(record, address, lengths)):
                return tf.constant(False)

        records = read(address, *place)
        return records.take(1).filter(look).concatenate(records)

    return checked


def fixed_lengths(features: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
    """The features that every record must hold in full: name -> number of values, dtype."""
    import math

    import tensorflow as tf

    return {
        name: (math.prod(each.shape), each.dtype)
        for name, each in features.items()
        if isinstance(each, tf.io.FixedLenFeature) and each.default_value is None
    }


def _checks(record: Any, address: Any, lengths: Mapping[str, tuple[int, Any]]) -> list[Any]:
    """The assertions that a record holds what it must."""
    import tensorflow as tf

    declared = {name: tf.io.RaggedFeature(dtype) for name, (_, dtype) in lengths.items()}
    parsed = tf.io.parse_single_example(record, declared)
    # The shard cache's addresses are pairs: the shard, and where its copy is.
    file = tf.reshape(address, [-1])[0]
    checks = []
    for name, (expected, _) in lengths.items():
        found = tf.size(parsed[name])
        message = tf.strings.join(
            [
                file,
                f": {name} holds ",
                tf.strings.as_string(found),
                f" values in its first record, and {expected} are expected. ",
                tf.where(found == 0, _NAMED, _WRITTEN),
            ]
        )
        checks.append(tf.debugging.Assert(found == expected, [message]))
    return [each for each in checks if each is not None]


def check_record(record: bytes, features: Mapping[str, Any], file: str) -> None:
    """Compares one record with what is declared, without running a pipeline.

    Args:
        record: a serialized `tf.train.Example`.
        features: what it must hold.
        file: where it is from.

    Raises:
        InputError: a feature is missing or of another length; says what was expected and found.
    """
    from provender.training.wire import parse_example

    parsed = parse_example(record)
    wrong = {
        name: (expected, len(parsed.get(name, ())))
        for name, (expected, _) in fixed_lengths(features).items()
        if len(parsed.get(name, ())) != expected
    }
    if wrong:
        shown = "; ".join(
            f"{name} holds {found} values, and {expected} are expected"
            for name, (expected, found) in wrong.items()
        )
        raise InputError(
            f"The records do not fit the configuration: {shown}.",
            where=file,
            hint="Set seq_length (and max_predictions_per_seq) to what the file was written with, "
            "or write it again.",
            facts={name: {"expected": e, "found": f} for name, (e, f) in wrong.items()},
        )
