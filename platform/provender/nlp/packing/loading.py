"""Packing inside a loader whose records have declared features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from provender.nlp.config import DataConfig
from provender.nlp.packing.dataset import packed_batches
from provender.nlp.packing.fields import Fields
from provender.nlp.packing.fit import Room


def packing_reader(
    params: DataConfig,
    features: Mapping[str, Any],
    assemble: Callable[[Mapping[str, Any]], Any],
    fields: Fields,
    room: Room,
) -> Any:
    """A reader of packed batches; ``global_batch_size`` counts packed rows.

    Args:
        params: the configuration; its ``packing`` is set.
        features: name -> `tf.io.FixedLenFeature`, what a record holds.
        assemble: makes outputs of a decoded batch.
        fields: the outputs' roles.
        room: what a packed row holds.
    """
    import tensorflow as tf

    from provender.nlp.reader import InputReader
    from provender.nlp.reader.files import dataset_fn_of
    from provender.nlp.reader.sharing import batch_rows

    packing = params.packing
    assert packing is not None

    def pack(dataset: Any, input_context: Any) -> Any:
        buffers = dataset.batch(packing.buffer_size).map(
            lambda records: assemble(tf.io.parse_example(records, dict(features))),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return packed_batches(
            buffers,
            fields,
            room,
            packing,
            rows=batch_rows(params.global_batch_size, input_context),
            drop_remainder=params.drop_remainder,
        )

    # Records come as they were read: a buffer is decoded at once. The features still tell the
    # reader what the files must hold.
    return InputReader(
        params,
        dataset_fn=dataset_fn_of(params.get("file_type", "tfrecord")),
        decoder_fn=lambda record: record,
        features=features,
        transform_and_batch_fn=pack,
    )
