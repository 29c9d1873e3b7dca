"""Each loader beside that of the published package, which runs in an environment of its own.

PROVENDER_TEST_TF_MODELS_PYTHON names the Python of an environment with tf-models-official 2.20 and
setuptools below 81; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

import provender.nlp.loaders as ours
from provender.nlp.registry import get_data_loader

PEER = os.environ.get("PROVENDER_TEST_TF_MODELS_PYTHON", "")
BATCHES = 3
PROGRAM = Path(__file__).with_name("peer_program.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not PEER,
        reason="PROVENDER_TEST_TF_MODELS_PYTHON does not name a Python with tf-models-official",
    ),
]


@dataclass(frozen=True)
class Case:
    """One configuration; `only_ours` are options that the published package does not have."""

    module: str
    config: str
    loader: str
    file: str
    options: dict[str, Any]
    values: bool = True
    only_ours: dict[str, Any] = field(default_factory=dict)


BASE = {"is_training": False, "global_batch_size": 8, "drop_remainder": False}
SHORT = {**BASE, "seq_length": records.SEQ}
TEXT = {**SHORT, "vocab_file": "@vocabulary"}
WMT = {
    **BASE,
    "src_lang": "en",
    "tgt_lang": "de",
    "sentencepiece_model_path": "@sentencepiece",
    "max_seq_length": 12,
}

STATIC = ("pretrain_dataloader", "BertPretrainDataConfig", "BertPretrainDataLoader")
XLNET = ("pretrain_dataloader", "XLNetPretrainDataConfig", "XLNetPretrainDataLoader")
FROM_TEXT = (
    "pretrain_text_dataloader",
    "BertPretrainTextDataConfig",
    "BertPretrainTextDataLoader",
)
SENTENCE = (
    "sentence_prediction_dataloader",
    "SentencePredictionDataConfig",
    "SentencePredictionDataLoader",
)
SENTENCE_TEXT = (
    "sentence_prediction_dataloader",
    "SentencePredictionTextDataConfig",
    "SentencePredictionTextDataLoader",
)
TAGGING = ("tagging_dataloader", "TaggingDataConfig", "TaggingDataLoader")
QA = ("question_answering_dataloader", "QADataConfig", "QuestionAnsweringDataLoader")
DUAL = ("dual_encoder_dataloader", "DualEncoderDataConfig", "DualEncoderDataLoader")
TRANSLATION = ("wmt_dataloader", "WMTDataConfig", "WMTDataLoader")

PRETRAINING = {**SHORT, "max_predictions_per_seq": records.SLOTS}
CASES = {
    "static": Case(*STATIC, "pretraining", PRETRAINING),
    "static-no-nsp": Case(
        *STATIC,
        "pretraining",
        {**PRETRAINING, "use_next_sentence_label": False, "use_position_id": True},
    ),
    "static-v2": Case(*STATIC, "pretraining_v2", {**PRETRAINING, "use_v2_feature_names": True}),
    "static-gzip": Case(
        *STATIC, "pretraining_gzip", {**PRETRAINING, "file_type": "tfrecord_compressed"}
    ),
    "sentence": Case(
        *SENTENCE,
        "labelled",
        {**SHORT, "include_example_id": True, "label_name": ["label_ids", "y"]},
    ),
    "sentence-float": Case(
        *SENTENCE, "labelled", {**SHORT, "label_type": "float", "label_field": "score"}
    ),
    "sentence-text": Case(*SENTENCE_TEXT, "texts", {**TEXT, "text_fields": ["premise"]}),
    "sentence-text-pair": Case(
        *SENTENCE_TEXT,
        "texts",
        {
            **TEXT,
            "text_fields": ["premise", "hypothesis", "en"],
            "lower_case": False,
            "include_example_id": True,
        },
    ),
    "sentence-text-sentencepiece": Case(
        *SENTENCE_TEXT,
        "texts",
        {
            **SHORT,
            "vocab_file": "@sentencepiece",
            "text_fields": ["premise", "hypothesis"],
            "tokenization": "SentencePiece",
            "lower_case": False,
        },
    ),
    "sentence-text-sentencepiece-lower": Case(
        *SENTENCE_TEXT,
        "texts",
        {
            **SHORT,
            "vocab_file": "@sentencepiece",
            "text_fields": ["premise", "hypothesis"],
            "tokenization": "SentencePiece",
        },
    ),
    "tagging": Case(*TAGGING, "tagged", SHORT),
    "tagging-ids": Case(*TAGGING, "tagged", {**SHORT, "include_sentence_id": True}),
    "qa-train": Case(*QA, "labelled", {**SHORT, "is_training": True}, values=False),
    "qa": Case(*QA, "labelled", SHORT),
    "qa-xlnet": Case(*QA, "labelled", {**SHORT, "xlnet_format": True}),
    "qa-xlnet-train": Case(
        *QA, "labelled", {**SHORT, "xlnet_format": True, "is_training": True}, values=False
    ),
    "dual": Case(*DUAL, "texts", TEXT),
    "dual-fields": Case(
        *DUAL,
        "texts",
        {**TEXT, "left_text_fields": ["en", "de"], "right_text_fields": ["premise"]},
    ),
    "wmt-static": Case(*TRANSLATION, "texts", {**WMT, "static_batch": True, "has_unique_id": True}),
    "wmt-dynamic": Case(*TRANSLATION, "texts", {**WMT, "global_batch_size": 48}),
    "wmt-train": Case(
        *TRANSLATION, "texts", {**WMT, "global_batch_size": 48, "is_training": True}, values=False
    ),
    "wmt-train-static": Case(
        *TRANSLATION,
        "texts",
        {**WMT, "global_batch_size": 48, "is_training": True, "static_batch": True},
        values=False,
    ),
    "xlnet": Case(
        *XLNET,
        "xlnet",
        {
            **BASE,
            "seq_length": 32,
            "reuse_length": 16,
            "permutation_size": 8,
            "max_predictions_per_seq": 6,
        },
        values=False,
    ),
    "from-text": Case(
        *FROM_TEXT,
        "texts",
        {**PRETRAINING, "drop_remainder": True, "vocab_file_path": "@vocabulary"},
        values=False,
    ),
    "from-text-no-nsp": Case(
        *FROM_TEXT,
        "texts",
        {
            **PRETRAINING,
            "vocab_file_path": "@vocabulary",
            "use_next_sentence_label": False,
            "text_field_names": ["en", "de"],
        },
        values=False,
    ),
}


def flat(batch: Any) -> dict[str, np.ndarray]:
    if isinstance(batch, dict):
        return {name: value.numpy() for name, value in batch.items()}
    inputs, targets = batch
    found = {f"x.{name}": value.numpy() for name, value in inputs.items()}
    if isinstance(targets, dict):
        return {**found, **{f"y.{name}": value.numpy() for name, value in targets.items()}}
    return {**found, "y": targets.numpy()}


def options_of(case: Case, files: Files) -> dict[str, Any]:
    named = {
        key: getattr(files, value[1:]) if isinstance(value, str) and value[:1] == "@" else value
        for key, value in case.options.items()
    }
    return {**named, "input_path": getattr(files, case.file)}


@pytest.fixture(scope="module")
def published(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the published package gives for each case."""
    folder = tmp_path_factory.mktemp("published")
    listed = [
        {
            "name": name,
            "module": case.module,
            "config": case.config,
            "loader": case.loader,
            "options": options_of(case, files),
            "batches": BATCHES,
        }
        for name, case in CASES.items()
    ]
    (folder / "cases.json").write_text(json.dumps(listed))
    done = subprocess.run(
        [PEER, str(PROGRAM), str(folder / "cases.json"), str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr.splitlines()[-1]
    return folder


@pytest.mark.parametrize("name", CASES)
def test_same_batches_as_the_published_package(name: str, files: Files, published: Path) -> None:
    case = CASES[name]
    peer = np.load(published / f"{name}.npz")
    params = getattr(ours, case.config)().override({**options_of(case, files), **case.only_ours})
    loader = get_data_loader(params)
    assert isinstance(loader, getattr(ours, case.loader))
    for index, batch in enumerate(loader.load().take(BATCHES)):
        found = flat(batch)
        expected = {key.split("/", 1)[1]: peer[key] for key in peer if key.startswith(f"{index}/")}
        assert sorted(found) == sorted(expected)
        for key, value in expected.items():
            assert found[key].dtype == value.dtype, key
            if case.values:
                np.testing.assert_array_equal(found[key], value, err_msg=f"batch {index}, {key}")
            else:
                assert found[key].ndim == value.ndim
                assert found[key].shape[1:] == value.shape[1:] or name == "wmt-train", key
