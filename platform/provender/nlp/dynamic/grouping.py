"""Batches of one bucket, from a stream of rows, without touching any row by itself.

`Dataset.bucket_by_sequence_length` and `Dataset.group_by_window` run a function for each row.
Here whole chunks of rows are sorted at once, and what does not fill a window is carried over to the
next chunk. The order of the batches is theirs all the same: a window comes when its last row does,
however the stream is cut into chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provender.nlp.dynamic.buckets import Bucket


@dataclass(frozen=True)
class Windows:
    """How batches are grouped.

    Args:
        buckets: the buckets of one replica.
        batches: batches of one bucket that come together, a multiple of `replicas`.
        replicas: batches of one step of training.
        drop_remainder: at the end of the data, leave out the rows that fill no step.
        needs_some: fail where this would leave out all rows there are.
    """

    buckets: tuple[Bucket, ...]
    batches: int
    replicas: int
    drop_remainder: bool
    needs_some: bool = False


def grouped(chunks: Any, windows: Windows) -> Any:
    """Batches of one bucket.

    At the end of the data, rows that fill no whole step in their bucket go up to the next one that
    has rows left. What remains in the end is less than one step: it is left out, or shared out
    evenly among the replicas, so that all of them get batches of one length.

    Args:
        chunks: `tf.data.Dataset` of pairs: rows [n] of any dtype, and their buckets int32 [n].
        windows: how they are grouped.

    Returns:
        `tf.data.Dataset` of pairs: rows [batch], and the bucket, int32 scalar.
    """
    import tensorflow as tf

    spec = chunks.element_spec[0]
    end = tf.data.Dataset.from_tensors(
        (tf.zeros([0], spec.dtype), tf.zeros([0], tf.int32), tf.constant(True))
    )
    marked = chunks.map(lambda rows, bucket: (rows, bucket, False)).concatenate(end)

    # Nothing here is for AutoGraph to rewrite, and looking for it takes a second.
    @tf.autograph.experimental.do_not_convert
    def step(state: Any, chunk: Any) -> Any:
        rows = tf.concat([state[0], chunk[0]], axis=0)
        bucket = tf.concat([state[1], chunk[1]], axis=0)
        given, sizes, buckets, kept = tf.cond(
            chunk[2],
            lambda: _last(bucket, windows),
            lambda: _whole_windows(bucket, windows),
        )
        count = state[2] + tf.size(buckets)
        checks = [_some(rows, count, chunk[2])] if windows.needs_some else []
        with tf.control_dependencies(checks):
            state = (tf.gather(rows, kept), tf.gather(bucket, kept), tf.identity(count))
        batches = tf.RaggedTensor.from_row_lengths(tf.gather(rows, given), sizes)
        return state, (batches, buckets)

    start = (tf.zeros([0], spec.dtype), tf.zeros([0], tf.int32), tf.constant(0))
    return marked.scan(start, step).flat_map(
        lambda batches, buckets: tf.data.Dataset.from_tensor_slices((batches, buckets))
    )


def _some(rows: Any, count: Any, ended: Any) -> Any:
    """The assertion that rows left at the end are not all that there were."""
    import tensorflow as tf

    message = tf.strings.format(
        "There are {} examples, too few to fill the batches of one step: drop_remainder would leave "
        "all of them out. Set drop_remainder: false, or a smaller global_batch_size.",
        tf.size(rows),
    )
    return tf.debugging.Assert(~ended | (count > 0) | (tf.size(rows) == 0), [message])


def _whole_windows(bucket: Any, windows: Windows) -> Any:
    """The rows of full windows in order of completion; sizes and buckets of their batches; others."""
    import tensorflow as tf

    number = len(windows.buckets)
    batch_rows = tf.constant([each.rows for each in windows.buckets], tf.int32)
    order = tf.argsort(bucket, stable=True)
    bucket = tf.gather(bucket, order)
    counts = tf.math.bincount(bucket, minlength=number, maxlength=number)
    start = tf.gather(tf.cumsum(counts, exclusive=True), bucket)
    rank = tf.range(tf.size(bucket)) - start
    size = tf.gather(batch_rows * windows.batches, bucket)
    end = (rank // size + 1) * size
    full = end <= tf.gather(counts, bucket)
    given = tf.where(full)[:, 0]
    # A window is complete when its last row has come; `order` is the row's place in the stream.
    completed = tf.gather(order, tf.gather(start + end - 1, given))
    given = tf.gather(given, tf.argsort(completed, stable=True))
    rows = tf.gather(batch_rows, tf.gather(bucket, given))
    begins = tf.where(tf.gather(rank, given) % rows == 0)[:, 0]
    kept = tf.sort(tf.boolean_mask(order, ~full))
    return (
        tf.gather(order, given),
        tf.gather(rows, begins),
        tf.gather(bucket, tf.gather(given, begins)),
        kept,
    )


def _last(bucket: Any, windows: Windows) -> Any:
    """As `_whole_windows`, for the rows that are left when the data ends; none is kept."""
    import tensorflow as tf

    longest = tf.reduce_max(bucket)
    given, sizes, buckets = [], [], []
    pool = tf.zeros([0], tf.int32)
    for index, each in enumerate(windows.buckets):
        own = tf.cast(tf.where(bucket == index)[:, 0], tf.int32)
        pool = tf.concat([own, pool], axis=0)
        step = each.rows * windows.replicas
        whole = tf.where(tf.size(own) > 0, tf.size(pool) // step * step, 0)
        given.append(pool[:whole])
        size = tf.fill([whole // each.rows], each.rows)
        pool = pool[whole:]
        if not windows.drop_remainder:
            rest = tf.where(longest == index, tf.size(pool), 0)
            given.append(pool[:rest])
            pool = pool[rest:]
            size = tf.concat([size, _shared_out(rest, windows.replicas)], axis=0)
        sizes.append(size)
        buckets.append(tf.fill([tf.size(size)], index))
    none = tf.zeros([0], tf.int32)
    return _joined(given), _joined(sizes), _joined(buckets), none


def _shared_out(rows: Any, replicas: int) -> Any:
    """Sizes of the batches that so many rows make, one for each replica, as even as can be."""
    import tensorflow as tf

    each = tf.fill([replicas], rows // replicas)
    sizes = each + tf.cast(tf.range(replicas) < rows % replicas, tf.int32)
    return tf.boolean_mask(sizes, sizes > 0)


def _joined(parts: Sequence[Any]) -> Any:
    import tensorflow as tf

    return tf.concat(list(parts), axis=0)
