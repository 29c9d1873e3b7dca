"""Batches and windows of buckets, on streams of numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.nlp.dynamic.buckets import Bucket, plan_buckets
from provender.nlp.dynamic.grouping import Windows, grouped

LENGTHS = (16, 32, 48, 64)


def group(bucket, chunk, windows):
    """(row numbers, bucket) of each batch."""
    rows = np.arange(len(bucket), dtype=np.int64)
    data = tf.data.Dataset.from_tensor_slices((rows, np.array(bucket, np.int32))).batch(chunk)
    return [(rows.numpy().tolist(), int(each)) for rows, each in grouped(data, windows)]


def peer(lengths, rows, window):
    """Batches of whole windows as `bucket_by_sequence_length` and `group_by_window` make them."""
    data = tf.data.Dataset.from_tensor_slices((np.arange(len(lengths)), lengths))
    data = data.bucket_by_sequence_length(
        lambda _, length: tf.cast(length, tf.int32),
        [each + 1 for each in LENGTHS[:-1]],
        [rows] * len(LENGTHS),
        drop_remainder=True,
    )
    bounds = tf.constant(LENGTHS, tf.int64)
    data = data.group_by_window(
        lambda _, length: tf.cast(tf.searchsorted(bounds, length[:1])[0], tf.int64),
        lambda _, batches: batches.batch(window, drop_remainder=True),
        window_size=window,
    )
    return [batch.tolist() for numbers, _ in data for batch in numbers.numpy()]


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("chunk", [1, 13, 1000])
def test_order_is_that_of_tensorflows_own_bucketing_however_it_is_cut(window, chunk):
    lengths = np.random.default_rng(3).integers(1, 65, 500)
    bucket = np.searchsorted(LENGTHS, lengths)
    windows = Windows(plan_buckets(LENGTHS, rows=3), window, window, True)
    theirs = peer(lengths, 3, window)
    ours = [rows for rows, _ in group(bucket, chunk, windows)]
    assert len(theirs) > 100
    # The end differs: rows that fill no window go up to a longer bucket.
    assert ours[: len(theirs)] == theirs


@settings(max_examples=6, deadline=None)
@given(
    bucket=st.lists(st.integers(0, 3), max_size=150),
    rows=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    replicas=st.integers(1, 4),
    scale=st.integers(1, 3),
    chunk=st.integers(1, 64),
    drop=st.booleans(),
)
def test_nothing_is_lost_and_steps_have_one_length(bucket, rows, replicas, scale, chunk, drop):
    buckets = tuple(
        Bucket(length, each) for length, each in zip(LENGTHS, sorted(rows)[::-1], strict=True)
    )
    made = group(bucket, chunk, Windows(buckets, replicas * scale, replicas, drop))
    seen = [each for numbers, _ in made for each in numbers]
    assert len(seen) == len(set(seen))
    for numbers, index in made:
        assert all(bucket[each] <= index for each in numbers)
        assert 0 < len(numbers) <= buckets[index].rows
    for step in range(0, len(made), replicas):
        assert len({index for _, index in made[step : step + replicas]}) == 1
    if drop:
        assert all(len(numbers) == buckets[index].rows for numbers, index in made)
        assert len(made) % replicas == 0
        left_out = len(bucket) - len(seen)
        assert left_out < max(each.rows for each in buckets) * replicas
    else:
        assert sorted(seen) == list(range(len(bucket)))
        assert sum(len(numbers) < buckets[index].rows for numbers, index in made) <= replicas


def test_the_last_step_is_shared_out_evenly():
    windows = Windows((Bucket(16, 4), Bucket(32, 4)), 3, 3, False)
    made = group([0, 1, 0, 0, 1, 1, 1], 64, windows)
    assert [(len(numbers), index) for numbers, index in made] == [(3, 1), (2, 1), (2, 1)]


def test_fewer_rows_than_replicas_make_batches_of_one():
    made = group([0, 0], 64, Windows((Bucket(16, 4),), 3, 3, False))
    assert made == [([0], 0), ([1], 0)]


def test_a_window_is_not_split_over_the_steps():
    windows = Windows((Bucket(16, 1), Bucket(32, 1)), 4, 2, True)
    made = group([0, 1] * 8, 5, windows)
    assert [index for _, index in made] == [0] * 4 + [1] * 4 + [0] * 4 + [1] * 4


def test_endless_data_needs_no_end():
    data = tf.data.Dataset.from_tensors((tf.range(8), tf.zeros([8], tf.int32))).repeat()
    made = grouped(data, Windows((Bucket(16, 4),), 1, 1, True)).take(100)
    assert sum(1 for _ in made) == 100


def test_the_state_of_an_iterator_goes_on_where_it_stood(tmp_path):
    bucket = np.random.default_rng(0).integers(0, 4, 200).astype(np.int32)
    data = tf.data.Dataset.from_tensor_slices((tf.range(200), bucket)).batch(17)
    made = grouped(data, Windows(plan_buckets(LENGTHS, rows=3), 2, 2, False))
    whole = [(rows.numpy().tolist(), int(each)) for rows, each in made]
    iterator = iter(made)
    for _ in range(11):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "state"))
    again = iter(made)
    tf.train.Checkpoint(iterator=again).restore(path)
    rest = [(rows.numpy().tolist(), int(each)) for rows, each in again]
    assert rest == whole[11:]
