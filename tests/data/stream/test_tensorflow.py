"""Streams as tf.data: types, shapes, and positions that travel with the data."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest

from provender.data.errors import ColumnError
from provender.data.stream import IterableDataset
from provender.errors import SettingsError

pytestmark = pytest.mark.timeout(200)


def stream() -> IterableDataset:
    return IterableDataset.from_dict(
        {
            "i": list(range(100)),
            "f": [number / 2 for number in range(100)],
            "t": [f"text {number}" for number in range(100)],
            "l": [[number, 1, 2] for number in range(100)],
            "o": [{"a": 1}] * 100,
        },
        num_shards=4,
    )


COLUMNS = ["i", "f", "t", "l"]


def test_types_shapes_and_values() -> None:
    rows = stream().to_tf_dataset(columns=COLUMNS)
    assert int(rows.cardinality()) == 100
    assert {
        name: (spec.dtype.name, spec.shape.rank) for name, spec in rows.element_spec.items()
    } == {
        "i": ("int64", 0),
        "f": ("float32", 0),
        "t": ("string", 0),
        "l": ("int64", 1),
    }
    batches = list(stream().to_tf_dataset(32, columns=COLUMNS).as_numpy_iterator())
    assert [len(batch["i"]) for batch in batches] == [32, 32, 32, 4]
    assert batches[0]["l"].tolist()[5] == [5, 1, 2]
    assert batches[3]["t"].tolist() == [f"text {n}".encode() for n in range(96, 100)]
    whole = stream().to_tf_dataset(32, columns=COLUMNS, drop_remainder=True)
    assert whole.element_spec["i"].shape == (32,)
    assert len(list(whole)) == 3
    pairs = stream().to_tf_dataset(10, columns="t", label_cols="i")
    text, number = next(iter(pairs))
    assert (text.dtype.name, number.dtype.name) == ("string", "int64")


def test_positions_travel_with_the_data() -> None:
    """tf.data runs ahead; the position in a batch is that of the batch, not of the reader."""

    def make() -> Any:
        return stream().shuffle(seed=1, buffer_size=20)

    batches = make().to_tf_dataset(8, columns="i", position="position")
    whole = [batch["i"].tolist() for batch in batches.as_numpy_iterator()]
    used = list(islice(batches.as_numpy_iterator(), 5))
    fresh = make()
    fresh.load_state_dict(json.loads(used[-1]["position"]))
    rest = fresh.to_tf_dataset(8, columns="i")
    assert [batch["i"].tolist() for batch in rest.as_numpy_iterator()] == whole[5:]


def test_what_cannot_be_a_tensor() -> None:
    with pytest.raises(SettingsError, match="'o'"):
        stream().to_tf_dataset()
    with pytest.raises(ColumnError, match="no column 'x'"):
        stream().to_tf_dataset(columns="x")
    with pytest.raises(SettingsError, match="name of a column"):
        stream().to_tf_dataset(columns="i", position="t")
    row = next(iter(stream().select_columns(["i", "t"]).with_format("tf")))
    assert row["t"].dtype.name == "string"
