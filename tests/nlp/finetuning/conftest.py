"""A vocabulary, tasks in the forms of their publishers, and records as people read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from provender.nlp.finetuning import Made, Options, create
from provender.records.tfrecord import iter_records

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    *"the cat dog sat on mat is a good bad film who where what ? . , who did it sleep".split(),
    *"un ##s ##ing ##able ##happy ( ) - 1895 1943 x y z".split(),
]
VOCABULARY = [*SPECIAL, *dict.fromkeys(WORDS)]
ID = {word: i for i, word in enumerate(VOCABULARY)}
PAD, UNK, CLS, SEP = 0, 1, 2, 3


@pytest.fixture(scope="session")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(VOCABULARY) + "\n")
    return str(file)


def ids(text: str) -> list[int]:
    return [ID[each] for each in text.split()]


def pairs(*segments: str, length: int) -> dict[str, list[int]]:
    """The features of segments, written out by hand."""
    tokens, types = [CLS], [0]
    for i, each in enumerate(segments):
        tokens += [*ids(each), SEP]
        types += [i] * (len(each.split()) + 1)
    rest = [0] * (length - len(tokens))
    return {
        "input_ids": tokens + rest,
        "input_mask": [1] * len(tokens) + rest,
        "segment_ids": types + rest,
    }


def records(path: str | Path) -> list[dict[str, Any]]:
    """The records of a file, by protobuf's own reading."""
    from tensorflow.core.example import example_pb2

    found = []
    for _, payload in iter_records(Path(path)):
        features = example_pb2.Example.FromString(payload).features.feature
        found.append(
            {
                name: list(each.float_list.value or each.int64_list.value)
                for name, each in features.items()
            }
        )
    return found


class Project:
    """A folder in which files are made."""

    def __init__(self, folder: Path, vocab: str) -> None:
        self.folder = folder
        self.vocab = vocab

    def options(self, **given: Any) -> Options:
        usual = {
            "vocab_file": self.vocab,
            "max_seq_length": 16,
            "train_data_output_path": str(self.folder / "train.tfrecord"),
            "meta_data_file_path": str(self.folder / "meta.json"),
        }
        return Options(**{**usual, **given})

    def make(self, workers: int = 1, **given: Any) -> Made:
        return create(self.options(**given), workers=workers)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def out(self, name: str) -> str:
        return str(self.folder / name)

    def records(self, name: str) -> list[dict[str, Any]]:
        return records(self.folder / name)

    @property
    def meta(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "meta.json").read_text())
        return found

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def project(tmp_path: Path, vocab: str) -> Project:
    return Project(tmp_path, vocab)


def store_tfds(
    data_dir: Path, name: str, splits: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Puts rows on disk as the TFDS dataset of that name, with its own features."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    real = tfds.builder(name, data_dir=str(data_dir / "nowhere"))
    features = real.info.features
    base, _, config = name.partition("/")
    data = {}
    for split, rows in splits.items():
        spec = features.get_tensor_spec()
        filled = [{**{k: _empty(v) for k, v in spec.items()}, **row} for row in rows]
        data[split] = tf.data.Dataset.from_tensor_slices(
            {k: np.array([each[k] for each in filled], _kind(v)) for k, v in spec.items()}
        )
    tfds.dataset_builders.store_as_tfds_dataset(
        name=base,
        config=config or None,
        version=str(real.version),
        features=features,
        split_datasets=data,
        data_dir=str(data_dir),
    )


def _kind(spec: Any) -> Any:
    return None if spec.dtype.name == "string" else spec.dtype.as_numpy_dtype


def _empty(spec: Any) -> Any:
    return "" if spec.dtype.name == "string" else 0
