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
    from provender.nlp.loaders.batching import full_batches
    from provender.nlp.reader import InputReader
    from provender.nlp.reader.files import dataset_fn_of

    packing = params.packing
    assert packing is not None
    # Evaluation has to tell that not one batch is full.
    checked = params.drop_remainder and not params.is_training

    def pack(buffers: Any, rows: int) -> Any:
        packed = packed_batches(
            buffers,
            fields,
            room,
            packing,
            rows=rows,
            drop_remainder=params.drop_remainder and not checked,
        )
        return full_batches(packed, rows, params) if checked else packed

    return InputReader(
        params,
        dataset_fn=dataset_fn_of(params.get("file_type", "tfrecord")),
        parser_fn=assemble,
        features=features,
        batch_parser_fn=assemble,
        pack_fn=pack,
    )
