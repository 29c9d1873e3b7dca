"""Batches of records that are decoded together, and what is drawn at random for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.reader import InputReader
from provender.nlp.reader.files import dataset_fn_of
from provender.nlp.reader.parsing import undecoded
from provender.nlp.reader.sharing import batch_rows

DecodedBatches = Callable[[int], Any]
"""Records of a batch -> dataset of decoded batches of so many; the last one may be smaller."""


def rows_of(params: DataConfig, input_context: Any) -> int:
    """Rows of one replica's batch."""
    return batch_rows(params.global_batch_size, input_context)


def reading_whole_batches(
    params: DataConfig,
    features: Mapping[str, Any],
    transform_and_batch: Callable[[DecodedBatches, Any], Any],
) -> InputReader:
    """A reader whose ``transform_and_batch`` takes what decodes batches of any size.

    With features alone the reader would hand single decoded records to it, which costs ten times
    as much as decoding many at once.

    Args:
        params: the configuration.
        features: name -> how a record is decoded; of a decoded example, as TFDS gives them, the
            same names are taken.
        transform_and_batch: (function: records of a batch -> dataset of decoded batches of so
            many, input context) -> dataset of batches.
    """
    import tensorflow as tf

    def decoded(records: Any) -> Any:
        if not isinstance(records, Mapping):
            return reader.decode(records)
        return {name: decoded_feature(records, name) for name in features}

    def transformed(dataset: Any, context: Any) -> Any:
        def batches(rows: int) -> Any:
            return dataset.batch(rows).map(
                unconverted(decoded), num_parallel_calls=tf.data.AUTOTUNE
            )

        return transform_and_batch(batches, context)

    reader = InputReader(
        params,
        dataset_fn=dataset_fn_of(params.get("file_type", "tfrecord")),
        decoder_fn=undecoded,
        features=features,
        transform_and_batch_fn=transformed,
    )
    return reader


def rebatched(data: Any, rows: int, params: DataConfig) -> Any:
    """The rows of batches of any size, in batches of ``rows``; see `full_batches`."""
    if params.is_training or not params.drop_remainder:
        return data.rebatch(rows, drop_remainder=params.drop_remainder)
    return full_batches(data.rebatch(rows, drop_remainder=False), rows, params)


def full_batches(data: Any, rows: int, params: DataConfig) -> Any:
    """Batches without a last, smaller one where ``drop_remainder`` says so.

    In evaluation an error, when it is read, tells that not one batch is full: a metric over no
    row would look like a result.

    Args:
        data: batches of ``rows`` rows, the last one may be smaller.
        rows: of a batch.
        params: the configuration.
    """
    import tensorflow as tf

    if not params.drop_remainder:
        return data

    def count(batch: Any) -> Any:
        return tf.shape(tf.nest.flatten(batch)[0])[0]

    def is_full(number: Any, batch: Any) -> Any:
        size = count(batch)
        message = tf.strings.format(
            "There are {} rows, fewer than a batch of {}: drop_remainder would leave all of them "
            "out. Set drop_remainder: false, or a smaller global_batch_size.",
            (size, rows),
        )
        enough = (number > 0) | (size == rows) | bool(params.is_training)
        check = tf.debugging.Assert(enough, [message])
        with tf.control_dependencies([check]):
            return size == rows

    def fixed(_: Any, batch: Any) -> Any:
        return tf.nest.map_structure(
            lambda each: tf.ensure_shape(each, [rows, *each.shape[1:]]), batch
        )

    full = data.enumerate().filter(unconverted(is_full))
    return full.map(unconverted(fixed))


def unconverted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is: rewriting it for control flow that it does not have takes seconds."""
    import tensorflow as tf

    found: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return found


def decoded_feature(example: Mapping[str, Any], name: str) -> Any:
    """A feature of an example by name.

    Raises:
        SettingsError: the example has no such feature.
    """
    if name not in example:
        raise SettingsError(
            f"The data has no feature {name!r}.",
            where=name,
            hint=f"It has {', '.join(sorted(example))}.",
        )
    return example[name]


def with_seeds(
    dataset: Any, seed: int | None, input_context: Any, function: Any, stream: int = 0
) -> Any:
    """Maps ``function(seed, element)``, with another seed for each element of each pipeline.

    With a configured seed the k-th element of a pipeline has the same seed in every run, however
    many threads map; so what `function` draws is the same, too.

    Args:
        dataset: what is mapped.
        seed: of the configuration; None draws one for this run.
        input_context: tells pipelines apart; None for the only one.
        function: (int64 [2], element) -> element.
        stream: another number for each use in one pipeline, so that they draw independently.
    """
    import tensorflow as tf

    base = seed if seed is not None else random.SystemRandom().getrandbits(31)
    base += stream << 40
    count, index = (
        (input_context.num_input_pipelines, input_context.input_pipeline_id)
        if input_context is not None
        else (1, 0)
    )
    return dataset.enumerate().map(
        unconverted(
            lambda number, element: function(tf.stack([base, number * count + index]), element)
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
