"""`to_tf_dataset`, and the tensors of the tensorflow format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from provender.data import Dataset
from provender.data.errors import ColumnError, FeatureTypeError
from provender.errors import InputError, SettingsError

N = 23


@pytest.fixture
def ds() -> Dataset:
    return Dataset.from_dict(
        {
            "x": [[float(i), 1.0] for i in range(N)],
            "y": list(range(N)),
            "t": [f"t{i}" for i in range(N)],
            "long": [[1] * (i % 4 + 1) for i in range(N)],
        }
    )


def test_batches(ds: Dataset) -> None:
    import tensorflow as tf

    made = ds.to_tf_dataset(batch_size=5, columns="x", label_cols="y")
    x, y = made.element_spec
    assert (x.shape.as_list(), x.dtype, y.dtype) == ([None, 2], tf.float32, tf.int64)
    assert np.concatenate([y.numpy() for _, y in made]).tolist() == list(range(N))
    assert [len(y) for _, y in made] == [5, 5, 5, 5, 3]
    whole = ds.to_tf_dataset(batch_size=5, columns=["x", "y"], drop_remainder=True)
    assert whole.element_spec["x"].shape.as_list() == [5, 2]
    assert [len(each["y"]) for each in whole] == [5, 5, 5, 5]
    texts = ds.select_columns(["t", "y"]).to_tf_dataset(batch_size=50)
    (batch,) = list(texts)
    assert batch["t"].numpy().tolist() == [f"t{i}".encode() for i in range(N)]
    single = ds.to_tf_dataset(columns="y")
    assert [int(each) for each in single] == list(range(N))


def test_order_and_padding(ds: Dataset) -> None:
    mixed = ds.to_tf_dataset(batch_size=4, columns="y", shuffle=True)
    first = np.concatenate([each.numpy() for each in mixed]).tolist()
    second = np.concatenate([each.numpy() for each in mixed]).tolist()
    assert sorted(first) == sorted(second) == list(range(N))
    assert first != second

    def pad(rows: list[dict[str, Any]], to: int) -> dict[str, Any]:
        long = np.zeros((len(rows), to), np.int64)
        for at, row in enumerate(rows):
            long[at, : len(row["long"])] = row["long"]
        return {"long": long, "y": np.array([row["y"] for row in rows])}

    made = ds.to_tf_dataset(
        batch_size=6, collate_fn=pad, collate_fn_args={"to": 4}, columns=["long"],
        label_cols=["y"], num_workers=2,
    )  # fmt: skip
    longs = np.concatenate([each.numpy() for each, _ in made])
    assert longs.shape == (N, 4)
    assert longs.sum(1).tolist() == [i % 4 + 1 for i in range(N)]


def test_what_cannot_be(ds: Dataset) -> None:
    with pytest.raises(ColumnError, match="Did you mean 'y'"):
        ds.to_tf_dataset(columns="yy")
    with pytest.raises(SettingsError, match="no features"):
        ds.to_tf_dataset(label_cols="y")
    with pytest.raises(FeatureTypeError, match="'long'"):
        ds.to_tf_dataset(batch_size=4, columns=["x", "long"])
    with pytest.raises(InputError, match="empty"):
        ds.select([]).to_tf_dataset(columns="x")


def test_the_format(ds: Dataset) -> None:
    import tensorflow as tf

    row = ds.with_format("tf")[3]
    assert isinstance(row["y"], tf.Tensor)
    assert row["x"].numpy().tolist() == [3.0, 1.0]
    made = ds.map(lambda each: {"s": tf.reduce_sum(each["x"])})
    assert made["s"][:3] == [1.0, 2.0, 3.0]
