"""Examples of prepared datasets, against TFDS's own reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from provender.errors import DamageError, StoreError
from provender.nlp.finetuning.stored import examples

ROWS = 23
SPLITS = (
    "train",
    "train[5:9]",
    "train[30%:]",
    "train[:3]+test[-2:]",
    "train[20:]+train[:1]",
    "all",
)


@pytest.fixture(scope="module", params=["tfrecord", "array_record"])
def builder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return stored(tmp_path_factory.mktemp("data"), request.param)


def stored(folder: Path, kind: str) -> Any:
    rows = {
        "text": [f"row {i}" for i in range(ROWS)],
        "label": np.arange(ROWS) % 2,
        "score": np.arange(ROWS, dtype=np.float32) / 3,
        "other": ["unread"] * ROWS,
    }
    features = tfds.features.FeaturesDict(
        {
            "text": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["no", "yes"]),
            "score": np.float32,
            "other": tfds.features.Text(),
        }
    )
    data = tf.data.Dataset.from_tensor_slices(rows)
    tests = tf.data.Dataset.from_tensor_slices({name: each[:4] for name, each in rows.items()})
    tfds.dataset_builders.store_as_tfds_dataset(
        name="stored", version="1.0.0", features=features,
        split_datasets={"train": data, "test": tests}, data_dir=str(folder),
        file_format=kind,
        download_config=tfds.download.DownloadConfig(num_shards=3),
    )  # fmt: skip
    return tfds.builder_from_directory(str(folder / "stored" / "1.0.0"))


@pytest.mark.parametrize("split", SPLITS)
def test_those_of_tfds(builder: Any, split: str) -> None:
    columns = ["text", "label", "score"]
    found = list(examples(builder, split, columns))
    if builder.info.file_format.value == "array_record":
        expected = iter(builder.as_data_source(split=split))
    else:
        order = tfds.ReadConfig(interleave_cycle_length=1)
        expected = builder.as_dataset(split=split, read_config=order).as_numpy_iterator()
    assert [{name: each[name] for name in columns} for each in found] == [
        {name: each[name] for name in columns} for each in expected
    ]
    assert set(columns) <= set(found[0])


def test_damage(tmp_path: Path) -> None:
    builder = stored(tmp_path, "tfrecord")
    file = Path(builder.info.splits["train"].filepaths[1])
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamageError):
        list(examples(builder, "train", ["text"]))
    file.unlink()
    with pytest.raises(StoreError):
        list(examples(builder, "train", ["text"]))
