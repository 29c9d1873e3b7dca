"""Packing as a step of a `tf.data` pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provender import errors
from provender.nlp.config.packing import PackingConfig
from provender.nlp.packing.fields import POSITIONS, SEGMENTS, Fields
from provender.nlp.packing.fit import Room, check_open_rows
from provender.nlp.packing.numpy_rows import check_roles


def room_of(packing: PackingConfig, *, seq_length: int, max_predictions_per_seq: int = 0) -> Room:
    """What a packed row holds.

    Args:
        packing: the configuration.
        seq_length: the row's length where the configuration gives none.
        max_predictions_per_seq: its mask slots where the configuration gives none; 0 where the
            examples have no masks.

    Raises:
        SettingsError: a size that makes no sense.
    """
    if packing.open_rows is not None:
        check_open_rows(packing.open_rows)
    if packing.buffer_size < 1:
        raise errors.SettingsError(
            f"A buffer of {packing.buffer_size} examples cannot be packed.",
            where="packing.buffer_size",
            hint="1,024 is the usual value; a larger one packs a little better.",
        )
    tokens, masks = packing.seq_length, packing.max_predictions_per_seq
    return Room(
        tokens=seq_length if tokens is None else tokens,
        masks=max_predictions_per_seq if masks is None else masks,
        segments=packing.max_segments,
    )


def packed_batches(
    buffers: Any,
    fields: Fields,
    room: Room,
    packing: PackingConfig,
    *,
    rows: int,
    drop_remainder: bool,
) -> Any:
    """Batches of packed rows.

    Rows of a buffer are the same whatever the number of threads, and so is their order.

    Args:
        buffers: `tf.data.Dataset` of dicts: many examples at a time, padded or ragged.
        fields: the features' roles.
        room: what a packed row holds.
        packing: how they are packed; the buffers' size is that of the elements.
        rows: packed rows of a batch.
        drop_remainder: leave out a last, smaller batch.

    Returns:
        `tf.data.Dataset` of dicts, as `packed_spec` says.

    Raises:
        SettingsError: a feature without a role, or a role without a feature.
    """
    import tensorflow as tf

    check_roles(buffers.element_spec, fields)
    from provender.nlp.packing import tensor_rows

    # Nothing in it is for AutoGraph to rewrite, and looking for it takes a second.
    @tf.autograph.experimental.do_not_convert
    def pack(columns: Mapping[str, Any]) -> dict[str, Any]:
        return tensor_rows.pack(
            columns,
            fields,
            room,
            open_rows=packing.open_rows,
            decreasing=packing.decreasing,
        )

    packed = buffers.map(pack, num_parallel_calls=tf.data.AUTOTUNE)
    return packed.rebatch(rows, drop_remainder=drop_remainder)


def pack_examples(
    examples: Any,
    fields: Fields,
    packing: PackingConfig,
    *,
    seq_length: int,
    rows: int,
    max_predictions_per_seq: int = 0,
    drop_remainder: bool = True,
) -> Any:
    """Packs single examples, for any model over tokens.

    Args:
        examples: `tf.data.Dataset` of dicts without padding: token features [length], mask
            features [slots used], labels [] or [1].
        fields: their roles, e.g. ``token_fields("input_ids", "type_ids", labels=("label",))``.
        packing: how they are packed.
        seq_length: tokens of a packed row, unless `packing` says otherwise.
        rows: packed rows of a batch.
        max_predictions_per_seq: mask slots of a packed row, unless `packing` says otherwise.
        drop_remainder: leave out a last, smaller batch.

    Returns:
        `tf.data.Dataset` of batches.

    Raises:
        SettingsError: as for `packed_batches` and `room_of`.
    """
    room = room_of(packing, seq_length=seq_length, max_predictions_per_seq=max_predictions_per_seq)
    return packed_batches(
        examples.ragged_batch(packing.buffer_size),
        fields,
        room,
        packing,
        rows=rows,
        drop_remainder=drop_remainder,
    )


def packed_spec(unpacked: Mapping[str, Any], fields: Fields, room: Room) -> dict[str, Any]:
    """The specification of packed batches.

    Args:
        unpacked: name -> `tf.TensorSpec` of what is packed; only dtypes are looked at.
        fields: the features' roles.
        room: what a packed row holds.

    Returns:
        name -> `tf.TensorSpec`, None standing for the number of rows.
    """
    import tensorflow as tf

    def spec(columns: int, dtype: Any) -> Any:
        return tf.TensorSpec([None, columns], dtype)

    made = {name: spec(room.tokens, unpacked[name].dtype) for name, _ in fields.tokens}
    made[SEGMENTS] = spec(room.tokens, tf.int32)
    made.setdefault(POSITIONS, spec(room.tokens, tf.int32))
    if fields.mask_weights:
        for name in (fields.mask_positions, *fields.mask_values, fields.mask_weights):
            made[name] = spec(room.masks, unpacked[name].dtype)
    if fields.labels:
        made |= {name: spec(room.segments, unpacked[name].dtype) for name in fields.labels}
        made[fields.label_positions] = spec(room.segments, tf.int32)
        made[fields.label_weights] = spec(room.segments, tf.float32)
    return made
