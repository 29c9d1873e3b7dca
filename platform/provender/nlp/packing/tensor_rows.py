"""Packed rows as a TensorFlow graph, so that they can be made inside a data service or on a TPU host.

The result is what `numpy_rows.pack` gives, value by value. Only the choice of rows is a loop, a
dozen small operations for each example; laying the rows out is a scatter for each feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provender.nlp.packing.fields import POSITIONS, SEGMENTS, Fields
from provender.nlp.packing.fit import Room, check_open_rows

# Larger than any row: lifts the rows without room above those with room in one comparison.
_FAR = 1 << 40


@dataclass(frozen=True)
class TensorLayout:
    """`fit.Layout` as int64 tensors."""

    row: Any
    segment: Any
    token: Any
    mask: Any
    rows: Any


def pack(
    columns: Mapping[str, Any],
    fields: Fields,
    room: Room,
    *,
    open_rows: int | None = None,
    decreasing: bool = True,
) -> dict[str, Any]:
    """Packs one buffer of examples.

    Args:
        columns: every feature, [examples, ...] as `Fields` says, dense or ragged.
        fields: their roles; the features must be exactly those.
        room: what a packed row holds.
        open_rows: rows open at a time; None leaves all of the buffer's open.
        decreasing: place the longest first.

    Returns:
        What `numpy_rows.pack` returns, as tensors.

    Raises:
        SettingsError: `open_rows` below 1.
        tf.errors.InvalidArgumentError: when the graph runs, an example that no row has room for, a
            masked position beyond an example's tokens, or tokens lost on the way.
    """
    import tensorflow as tf

    if open_rows is not None:
        check_open_rows(open_rows)
    lengths = _lengths(columns[fields.length])
    dense = {
        name: value.to_tensor(dict(fields.tokens).get(name, 0))
        if isinstance(value, tf.RaggedTensor)
        else value
        for name, value in columns.items()
    }
    used = dense[fields.mask_weights] > 0 if fields.mask_weights else None
    masks = (
        tf.zeros_like(lengths) if used is None else tf.reduce_sum(tf.cast(used, tf.int64), axis=1)
    )
    layout = _lay_out(lengths, masks, room, open_rows, decreasing)
    return _assemble(dense, fields, room, lengths, used, layout)


def _lengths(values: Any) -> Any:
    """Length of each example, at least 1, int64 [examples]."""
    import tensorflow as tf

    if isinstance(values, tf.RaggedTensor):
        return tf.maximum(tf.cast(values.row_lengths(), tf.int64), 1)
    ends = tf.range(1, tf.shape(values, tf.int64)[1] + 1)
    last = tf.reduce_max(tf.where(values != 0, ends, 0), axis=1)
    # Without a column there is no maximum: the least int64 comes back.
    return tf.maximum(last, 1)


def _lay_out(lengths: Any, masks: Any, room: Room, open_rows: int | None, decreasing: bool) -> Any:
    import tensorflow as tf

    count = tf.size(lengths, tf.int64)
    needs = tf.stack([lengths, masks, tf.ones_like(lengths)], axis=1)
    whole = tf.constant([room.tokens, room.masks, room.segments], tf.int64)
    # The row of zeros stands for a buffer without examples, which has no maximum.
    most = tf.reduce_max(tf.pad(needs, [[0, 1], [0, 0]])[:, :2], axis=0)
    check = tf.debugging.Assert(
        tf.reduce_all(most <= whole[:2]),
        [
            tf.strings.join(
                [
                    f"An example fits no packed row. Expected: at most {room.tokens} tokens and "
                    f"{room.masks} masked positions. Found: up to ",
                    tf.strings.as_string(most[0]),
                    " tokens and ",
                    tf.strings.as_string(most[1]),
                    " masked positions.",
                ]
            )
        ],
    )
    order = (
        tf.argsort(-lengths, stable=True)
        if decreasing
        else tf.range(tf.size(lengths), dtype=tf.int32)
    )
    # Eager execution gives no operation to wait for.
    with tf.control_dependencies([] if check is None else [check]):
        placed = _place(tf.gather(needs, order), whole, open_rows)
    row = _unsorted(placed, order)
    rows = tf.cond(count > 0, lambda: tf.reduce_max(row) + 1, lambda: tf.constant(0, tf.int64))
    first = tf.math.unsorted_segment_min(tf.range(count), row, rows)
    number = tf.math.invert_permutation(tf.argsort(first, stable=True))
    row = tf.cast(tf.gather(number, row), tf.int64)
    by_row = tf.argsort(row, stable=True)
    sizes = tf.math.bincount(tf.cast(row, tf.int32), minlength=tf.cast(rows, tf.int32))
    starts = tf.repeat(tf.cumsum(sizes, exclusive=True), sizes)

    def before(amount: Any) -> Any:
        running = tf.cumsum(tf.gather(amount, by_row), exclusive=True)
        return _unsorted(running - tf.gather(running, starts), by_row)

    return TensorLayout(row, before(tf.ones_like(row)) + 1, before(lengths), before(masks), rows)


def _place(needs: Any, whole: Any, open_rows: int | None) -> Any:
    """The row of each example, numbered as they are opened; int64 [examples]."""
    import tensorflow as tf

    count = tf.shape(needs)[0]
    far, near = tf.constant(_FAR, tf.int64), tf.constant(0, tf.int64)

    def body(at: Any, left: Any, slots: Any) -> Any:
        need = needs[at]
        after = left - need
        # One minimum decides: among rows with room the least left over; if there is none, the row
        # with the fewest tokens is replaced, since all are lifted by the same amount.
        lack = tf.reduce_min(after, axis=1) < 0
        slot = tf.argmin(after[:, 0] + tf.where(lack, far, near))
        opened = lack[slot]
        now = tf.where(opened, whole - need, after[slot])
        left = tf.tensor_scatter_nd_update(left, [[slot]], [now])
        code = slot * 2 + tf.cast(opened, tf.int64)
        return at + 1, left, slots.write(at, code)

    _, _, codes = tf.while_loop(
        lambda at, left, slots: at < count,
        body,
        (
            tf.constant(0),
            tf.zeros([count if open_rows is None else open_rows, 3], tf.int64),
            tf.TensorArray(tf.int64, count, element_shape=[]),
        ),
        parallel_iterations=1,
    )
    codes = codes.stack()
    opened = codes % 2
    # The row of an example is the one that was opened last in its slot: sorted by slot, a run that
    # begins with the example that opened it.
    by_slot = tf.argsort(codes // 2, stable=True)
    opens = tf.gather(opened, by_slot)
    numbers = tf.boolean_mask(tf.gather(tf.cumsum(opened) - 1, by_slot), opens > 0)
    return _unsorted(tf.gather(numbers, tf.cumsum(opens) - 1), by_slot)


def _unsorted(values: Any, order: Any) -> Any:
    """The `result` of which ``tf.gather(result, order)`` is `values`."""
    import tensorflow as tf

    return tf.scatter_nd(tf.expand_dims(order, 1), values, tf.shape(values))


def _assemble(
    columns: Mapping[str, Any],
    fields: Fields,
    room: Room,
    lengths: Any,
    used: Any,
    layout: TensorLayout,
) -> dict[str, Any]:
    import tensorflow as tf

    packed: dict[str, Any] = {}

    def scatter(values: Any, at: Any, width: int, pad: int = 0) -> Any:
        cells = tf.expand_dims(layout.rows * width, 0)
        if pad:
            flat = tf.tensor_scatter_nd_update(
                tf.fill(cells, tf.cast(pad, values.dtype)), tf.expand_dims(at, 1), values
            )
        else:
            flat = tf.scatter_nd(tf.expand_dims(at, 1), values, cells)
        return tf.ensure_shape(tf.reshape(flat, tf.stack([layout.rows, width])), [None, width])

    real = tf.sequence_mask(lengths, tf.shape(columns[fields.length], tf.int64)[1])
    where = tf.where(real)
    example, position = where[:, 0], where[:, 1]
    at = tf.gather(layout.row * room.tokens + layout.token, example) + position
    for name, pad in fields.tokens:
        packed[name] = scatter(tf.gather_nd(columns[name], where), at, room.tokens, pad)
    segments = tf.gather(tf.cast(layout.segment, tf.int32), example)
    packed[SEGMENTS] = scatter(segments, at, room.tokens)
    # Two tokens in one cell would be summed by the scatter, and a cell fewer be marked.
    kept = tf.math.count_nonzero(packed[SEGMENTS])
    check = tf.debugging.assert_equal(
        kept, tf.reduce_sum(lengths), message="Packing lost tokens: an error in Provender."
    )
    with tf.control_dependencies([check]):
        packed[SEGMENTS] = tf.identity(packed[SEGMENTS])
    if POSITIONS not in packed:
        packed[POSITIONS] = scatter(tf.cast(position, tf.int32), at, room.tokens)
    if used is not None:
        packed |= _masks(columns, fields, room, lengths, used, layout, scatter)
    if fields.labels:
        at = layout.row * room.segments + layout.segment - 1
        for name in fields.labels:
            packed[name] = scatter(tf.reshape(columns[name], [-1]), at, room.segments)
        packed[fields.label_positions] = scatter(tf.cast(layout.token, tf.int32), at, room.segments)
        packed[fields.label_weights] = scatter(tf.ones_like(at, tf.float32), at, room.segments)
    return packed


def _masks(
    columns: Mapping[str, Any],
    fields: Fields,
    room: Room,
    lengths: Any,
    used: Any,
    layout: TensorLayout,
    scatter: Any,
) -> dict[str, Any]:
    import tensorflow as tf

    where = tf.where(used)
    example = where[:, 0]
    nth = tf.gather_nd(tf.cumsum(tf.cast(used, tf.int64), axis=1), where) - 1
    at = tf.gather(layout.row * room.masks + layout.mask, example) + nth
    positions = tf.gather_nd(columns[fields.mask_positions], where)
    check = tf.debugging.assert_less(
        tf.cast(positions, tf.int64),
        tf.gather(lengths, example),
        message="A masked position lies beyond the example's last token.",
    )
    with tf.control_dependencies([check]):
        moved = positions + tf.cast(tf.gather(layout.token, example), positions.dtype)
    packed = {fields.mask_positions: scatter(moved, at, room.masks)}
    for name in (*fields.mask_values, fields.mask_weights):
        packed[name] = scatter(tf.gather_nd(columns[name], where), at, room.masks)
    return packed
