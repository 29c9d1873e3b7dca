"""TFDS builders as a source. What is read is a published version, which is a TFDS folder."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.nlp import DataConfig, InputReader


@pytest.fixture(scope="module")
def folder(notes: Any) -> str:
    return str(notes.store.path("datasets"))


def reader(folder: str, parser: Any = None, **options: Any) -> InputReader:
    settled = {
        "tfds_name": "notes", "tfds_split": "train", "tfds_data_dir": folder,
        "global_batch_size": 20, "drop_remainder": False, **options,
    }  # fmt: skip
    return InputReader(DataConfig(**settled), parser_fn=parser)


def texts(dataset: Any, steps: int | None = None) -> list[str]:
    data = dataset if steps is None else dataset.take(steps)
    return [text.decode() for batch in data for text in batch["text"].numpy()]


def all_texts(folder: str, split: str) -> list[str]:
    import tensorflow_datasets as tfds

    data = tfds.builder("notes", data_dir=folder).as_dataset(split=split)
    return sorted(each["text"].numpy().decode() for each in data)


def test_examples_come_decoded(folder: str) -> None:
    made = reader(folder, lambda each: {"text": each["text"]}).read()
    assert sorted(texts(made)) == all_texts(folder, "train")
    assert made.element_spec["text"].dtype.name == "string"


@pytest.mark.parametrize(("split", "hosts"), [("train", 2), ("train", 5), ("test", 3)])
def test_hosts_read_disjoint_examples(
    folder: str, data: SimpleNamespace, split: str, hosts: int
) -> None:
    """By file where there are enough of them (train has 3), else by example."""
    parts: list[str] = []
    for host in range(hosts):
        made = reader(folder, tfds_split=split, global_batch_size=hosts)
        parts += texts(made.read(data.context(host, hosts)))
    assert sorted(parts) == all_texts(folder, split)


@pytest.mark.parametrize("seed", [None, 4])
def test_hosts_share_an_epoch_of_training_without_a_seed(
    folder: str, data: SimpleNamespace, seed: int | None
) -> None:
    parts = []
    for host in range(2):
        params = DataConfig(
            tfds_name="notes", tfds_split="train", tfds_data_dir=folder, is_training=True,
            cache=True, seed=seed,
        )  # fmt: skip
        source = InputReader(params)._sources[""].read(data.context(host, 2))
        parts.append([each["text"].numpy() for each in source])
    assert set(parts[0]).isdisjoint(parts[1])
    assert len(parts[0]) + len(parts[1]) == 300


def test_training_repeats_and_shuffles(folder: str) -> None:
    found = texts(reader(folder, is_training=True, global_batch_size=100).read(), 6)
    assert len(found) == 600
    assert len(set(found)) == 300


PAIRS = """
import tensorflow_datasets as tfds
from provender.builders._png import encode_grey


class Pairs(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({
                "image": tfds.features.Image(shape=(8, 8, 1), encoding_format="png"),
                "label": tfds.features.ClassLabel(num_classes=6),
            }),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for i in range(6):
            yield i, {"image": encode_grey(bytes(range(64)), 8, 8), "label": i}
"""


def test_supervised_pairs_and_features_left_encoded(engine: Any, tmp_path: Path) -> None:
    file = tmp_path / "pairs_builder.py"
    file.write_text(PAIRS)
    settings = engine.settings_for(tmp_path)
    engine.make(file, settings, "Pairs", num_shards=1)
    folder = f"{settings.store}/datasets"
    made = reader(folder, tfds_name="pairs", tfds_as_supervised=True, global_batch_size=6).read()
    [(images, labels)] = made
    assert sorted(labels.numpy().tolist()) == list(range(6))
    assert images.shape == (6, 8, 8, 1)
    made = reader(
        folder, tfds_name="pairs", tfds_skip_decoding_feature=" image ,", global_batch_size=6
    ).read()
    [batch] = made
    assert batch["image"].dtype.name == "string"
    assert batch["image"].numpy()[0].startswith(b"\x89PNG")


def test_pairs_of_a_builder_that_has_none(folder: str) -> None:
    with pytest.raises(ValueError, match="supervised"):
        reader(folder, tfds_as_supervised=True).read()


def test_a_mixture_of_builders(folder: str) -> None:
    made = reader(
        folder, tfds_name={"a": "notes", "b": "notes:1.0.0"}, weights={"a": 1, "b": 1},
        tfds_split="test",
    ).read()  # fmt: skip
    assert len(texts(made)) == 40


def test_declared_features_have_nothing_to_do(folder: str) -> None:
    import tensorflow as tf

    params = DataConfig(
        tfds_name="notes", tfds_split="test", tfds_data_dir=folder, global_batch_size=7,
        drop_remainder=False,
    )  # fmt: skip
    made = InputReader(
        params, features={"label": tf.io.FixedLenFeature([], tf.int64)},
        batch_parser_fn=lambda each: {"text": each["text"]},
    ).read()  # fmt: skip
    assert sorted(texts(made)) == all_texts(folder, "test")
