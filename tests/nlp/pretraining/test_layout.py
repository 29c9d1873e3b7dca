"""Records laid out together are those that TensorFlow's own classes write."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.nlp.pretraining import Options
from provender.nlp.pretraining.layout import Column, Layout
from provender.nlp.pretraining.writing import columns
from provender.records.tfrecord import iter_records


def written(values: dict[str, np.ndarray], row: int) -> bytes:
    """One record as tf.train.Example writes it."""
    import tensorflow as tf

    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=each[row]))
        if each.dtype.kind == "f"
        else tf.train.Feature(int64_list=tf.train.Int64List(value=each[row]))
        for name, each in values.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    made: bytes = example.SerializeToString(deterministic=True)
    return made


def check(layout: Layout, values: dict[str, np.ndarray]) -> None:
    data, ends = layout.encode(values)
    read = list(iter_records(io.BytesIO(data.tobytes())))
    count = len(next(iter(values.values())))
    assert [payload for _, payload in read] == [written(values, row) for row in range(count)]
    assert [offset for offset, _ in read] == [0, *ends[:-1].tolist()]
    assert int(ends[-1]) == len(data)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_layout(data: st.DataObject) -> None:
    names = data.draw(
        st.lists(st.text("abcxyz_/", min_size=1, max_size=9), min_size=1, max_size=5, unique=True)
    )
    layout, values = [], {}
    rows = data.draw(st.integers(1, 4))
    for name in names:
        length = data.draw(st.integers(1, 140))
        kind = data.draw(st.sampled_from(["int", "float"]))
        limit = data.draw(st.sampled_from([2, 128, 129, 16_384, 16_385, 40_000]))
        layout.append(Column(name, kind, length, limit))
        rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
        if kind == "float":
            values[name] = rng.random((rows, length), np.float32)
        else:
            top = data.draw(st.sampled_from([1, min(limit, 128), limit]))
            values[name] = rng.integers(0, top, (rows, length))
    check(Layout(layout), values)


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize(
    ("length", "most", "size"),
    [(5, 1, 6), (128, 20, 128), (128, 20, 16_384), (128, 20, 30_522), (512, 76, 250_002)],
)
def test_pretraining_records(v2: bool, length: int, most: int, size: int) -> None:
    options = Options(max_seq_length=length, max_predictions_per_seq=most, use_v2_feature_names=v2)
    wanted = columns(options, size)
    rng = np.random.default_rng(0)
    values = {
        each.name: rng.random((9, each.length), np.float32)
        if each.kind == "float"
        else rng.integers(
            0, min(each.limit, 2 if each.name[-4:] == "mask" else each.limit), (9, each.length)
        )
        for each in wanted
    }
    # Rows of only small and only large ids have the shortest and the longest lengths.
    for name, each in values.items():
        if each.dtype.kind != "f":
            each[0] = 0
            each[1] = next(c.limit for c in wanted if c.name == name) - 1
    check(Layout(wanted), values)
