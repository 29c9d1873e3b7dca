"""Loaders on a published version: the rows of its examples, in every way of reading them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from provender.nlp.loaders import (
    BertPretrainDataConfig,
    BertPretrainDynamicDataConfig,
    SentencePredictionTextDataConfig,
)
from provender.nlp.registry import get_data_loader

UPKEEP = Path(__file__).parents[2] / "upkeep" / "conftest.py"
ROWS, SEQ, SLOTS = 90, 32, 4

BUILDER = """
import numpy as np
import tensorflow_datasets as tfds

ROWS, SEQ, SLOTS = 90, 32, 4


def ints(*shape):
    return tfds.features.Tensor(shape=shape, dtype=np.int64)


class Masked(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {name: ints(SEQ) for name in ("input_ids", "input_mask", "segment_ids")}
        features |= {name: ints(SLOTS) for name in ("masked_lm_positions", "masked_lm_ids")}
        features["masked_lm_weights"] = tfds.features.Tensor(shape=(SLOTS,), dtype=np.float32)
        features["next_sentence_labels"] = ints(1)
        features["sentence"] = tfds.features.Text()
        features["label"] = np.int64
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for at in range(ROWS):
            used = (np.arange(SEQ) < 6 + at % 24).astype(np.int64)
            ids = used * 7
            ids[1] = 1000 + at
            yield at, {
                "input_ids": ids,
                "input_mask": used,
                "segment_ids": used * (np.arange(SEQ) > 3),
                "masked_lm_positions": np.array([2, 4, 0, 0]),
                "masked_lm_ids": np.array([9, 8, 0, 0]),
                "masked_lm_weights": np.array([1, 1, 0, 0], np.float32),
                "next_sentence_labels": np.array([at % 2]),
                "sentence": "the cat sat " * (1 + at % 3),
                "label": at % 2,
            }
"""


def _upkeep() -> ModuleType:
    key = "provender_upkeep_tests_conftest"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, UPKEEP)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


@dataclass(frozen=True)
class Published:
    """A project with one version, and where it is."""

    folder: Path
    environ: dict[str, str]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("masked")
    file = folder / "masked_builder.py"
    file.write_text(BUILDER)
    settings = _upkeep().settings_for(folder)
    _upkeep().make(file, settings, "Masked")
    environ = {
        "HOME": str(folder), "PROVENDER_HOME": str(settings.home),
        "PROVENDER_STORE": str(settings.store), "PROVENDER_CATALOG": str(settings.catalog),
    }  # fmt: skip
    return Published(folder, environ)


@pytest.fixture
def project(published: Published, monkeypatch: pytest.MonkeyPatch) -> Published:
    """The environment's settings are the version's, as they are for a user of a loader."""
    for name, value in published.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(published.folder)
    return published


def static(**options: Any) -> BertPretrainDataConfig:
    return BertPretrainDataConfig(
        version="masked:1.0.0", tfds_split="train", global_batch_size=8, seq_length=SEQ,
        max_predictions_per_seq=SLOTS, **{"is_training": False, "drop_remainder": False, **options},
    )  # fmt: skip


def who(data: Any) -> list[int]:
    """The numbers of the examples, of padded or packed rows."""
    ids = [row for batch in data for row in batch["input_word_ids"].numpy()]
    return [int(each) - 1000 for row in ids for each in row[row >= 1000]]


def context(index: int, count: int) -> Any:
    import tensorflow as tf

    return tf.distribute.InputContext(count, index, count)


def test_the_static_loader_gives_what_was_published(project: Published) -> None:
    loader = get_data_loader(static())
    data = loader.load()
    assert data.element_spec.keys() == loader.element_spec().keys()
    rows = list(data)
    assert sorted(who(rows)) == list(range(ROWS))
    first = rows[0]
    number = int(first["input_word_ids"][0, 1]) - 1000
    assert first["input_mask"][0].numpy().sum() == 6 + number % 24
    assert first["masked_lm_positions"][0].numpy().tolist() == [2, 4, 0, 0]
    assert first["next_sentence_labels"][0].numpy().tolist() == [number % 2]


@pytest.mark.parametrize("shuffled", [False, True], ids=["buffer", "global"])
def test_hosts_share_an_epoch_of_training(project: Published, shuffled: bool) -> None:
    """10 steps of 9 rows over 3 hosts are the version's 90 examples."""
    params = static(is_training=True, drop_remainder=True, global_shuffle=shuffled)
    params = params.replace(global_batch_size=9)
    hosts = [
        who(get_data_loader(params).load(context(host, 3)).take(10 if shuffled else 11))
        for host in range(3)
    ]
    if not shuffled:
        # Without a global order epochs end where a host's own files do.
        assert not set(hosts[0][:20]) & set(hosts[1][:20])
        return
    assert sorted(sum(hosts, [])) == list(range(ROWS))  # noqa: RUF017


@pytest.mark.parametrize("shuffled", [False, True], ids=["turns", "global"])
def test_the_dynamic_loader_cuts_batches_to_their_buckets(
    project: Published, shuffled: bool
) -> None:
    params = BertPretrainDynamicDataConfig(
        version="masked:1.0.0", tfds_split="train", global_batch_size=8, is_training=False,
        drop_remainder=False, seq_bucket_lengths=(8, 16, SEQ), global_shuffle=shuffled,
    )  # fmt: skip
    batches = list(get_data_loader(params).load())
    assert {each["input_word_ids"].shape[1] for each in batches} == {8, 16, SEQ}
    assert sorted(who(batches)) == list(range(ROWS))


@pytest.mark.parametrize("shuffled", [False, True], ids=["turns", "global"])
def test_several_examples_share_a_row(project: Published, shuffled: bool) -> None:
    params = static(global_shuffle=shuffled).override({"packing": {"max_segments": 4}})
    loader = get_data_loader(params)
    batches = list(loader.load())
    assert batches[0].keys() == loader.element_spec().keys()
    assert sorted(who(batches)) == list(range(ROWS))
    rows = sum(len(each["input_word_ids"]) for each in batches)
    assert rows < 0.8 * ROWS


def test_a_version_of_another_length_is_refused(project: Published) -> None:
    params = static().override({"seq_length": 64})
    with pytest.raises(Exception, match=r"holds 32 values .* and 64 are expected") as caught:
        next(iter(get_data_loader(params).load()))
    assert "masked-train.tfrecord-0000" in str(caught.value)


def test_text_of_a_version(project: Published, files: Any) -> None:
    params = SentencePredictionTextDataConfig(
        version="masked:1.0.0", tfds_split="train", text_fields=["sentence"], is_training=False,
        vocab_file=files.vocabulary, seq_length=8, global_batch_size=8, drop_remainder=False,
    )  # fmt: skip
    batches = list(get_data_loader(params).load())
    labels = np.concatenate([each["label"].numpy() for each in batches])
    assert labels.dtype == np.int32 and np.bincount(labels).tolist() == [45, 45]


@pytest.mark.slow
def test_check_loader_finds_the_version_in_a_bare_process(
    project: Published, tmp_path: Path
) -> None:
    config = tmp_path / "masked.json"
    values = {
        "version": "masked:1.0.0", "tfds_split": "train", "global_batch_size": 8,
        "seq_length": SEQ, "max_predictions_per_seq": SLOTS,
    }  # fmt: skip
    config.write_text(json.dumps(values))
    program = Path(sys.executable).with_name("provender")
    command = [program, "nlp", "check-loader", config, "--loader", "bert_pretrain", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] and found["findings"] == [] and found["rows"] == 64
