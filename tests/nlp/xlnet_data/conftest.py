"""Small text and an XLNet model of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from provender.nlp.xlnet_data import Options
from provender.records.tfrecord import iter_records

MARKS = "<cls>,<sep>,<pad>,<mask>,<eod>,<eop>"
"""The pieces 3 to 8 of XLNet's models, after <unk>, <s> and </s>."""


def text(documents: int, seed: int = 0) -> str:
    """Sentences of words of several pieces."""
    rng = random.Random(seed)
    made = []
    for _ in range(documents):
        for _ in range(rng.randint(1, 8)):
            words = [
                "".join(rng.choices(("ba", "lu", "ki", "sho"), k=rng.randint(1, 3)))
                for _ in range(rng.randint(2, 9))
            ]
            made.append(" ".join(words) + " .")
        made.append("")
    return "\n".join(made)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trained(tmp_path_factory.mktemp("model"), MARKS)


def trained(folder: Path, marks: str) -> str:
    import sentencepiece

    (folder / "text").write_text(text(80, seed=9))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=40,
        hard_vocab_limit=False, control_symbols=marks, minloglevel=2,
    )  # fmt: skip
    return str(folder / "m.model")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "text"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.txt").write_text(text(60, seed=i))
    return folder


def options(tmp_path: Path, model: str, **given: Any) -> Options:
    usual = {
        "save_dir": str(tmp_path / "out"), "sp_model_file": model, "seq_length": 32,
        "reuse_length": 16, "per_host_batch_size": 8, "num_cores_per_host": 2,
    }  # fmt: skip
    return Options(**{**usual, **given})


def records(path: Path) -> list[dict[str, list[int]]]:
    """The records of a file, by protobuf's own reading."""
    from tensorflow.core.example import example_pb2

    found = []
    for _, payload in iter_records(path):
        features = example_pb2.Example.FromString(payload).features.feature
        found.append({name: list(each.int64_list.value) for name, each in features.items()})
    return found
