"""Configurations and files that cannot work, and what the errors say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

from provender.errors import InputError, MissingFiles, SettingsError
from provender.nlp import loaders
from provender.nlp.registry import get_data_loader

TRANSLATE = {
    "src_lang": "en",
    "tgt_lang": "de",
    "sentencepiece_model_path": "model",
    "global_batch_size": 64,
}
SENTENCES = {"input_path": "x", "text_fields": ["a"], "vocab_file": "v"}
DUAL = {"input_path": "x", "vocab_file": "v"}

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "static-type": ("BertPretrainDataConfig", {"file_type": "csv"}, "Unrecognized file_type"),
    "sentence-type": ("SentencePredictionDataConfig", {"file_type": "x"}, "Unrecognized file_type"),
    "tagging-type": ("TaggingDataConfig", {"file_type": "x"}, "Unrecognized file_type"),
    "qa-type": ("QADataConfig", {"file_type": "x"}, "Unrecognized file_type"),
    "dual-type": ("DualEncoderDataConfig", {**DUAL, "file_type": "x"}, "Unrecognized file_type"),
    "text-type": ("BertPretrainTextDataConfig", {"file_type": "x"}, "Unrecognized file_type"),
    "seq": ("BertPretrainDataConfig", {"seq_length": 0}, "seq_length is 0"),
    "slots": ("BertPretrainDataConfig", {"max_predictions_per_seq": 0}, "max_predictions_per_seq"),
    "label-type": ("SentencePredictionDataConfig", {"label_type": "text"}, "label_type"),
    "fields-with-nsp": (
        "BertPretrainTextDataConfig",
        {"text_field_names": ["a", "b"], "vocab_file_path": "v"},
        "need one text field",
    ),
    "one-document": (
        "BertPretrainTextDataConfig",
        {"doc_batch_size": 1, "vocab_file_path": "v"},
        "no other one to draw",
    ),
    "no-text-field-names": ("BertPretrainTextDataConfig", {"text_field_names": []}, "text_field"),
    "no-vocabulary": ("BertPretrainTextDataConfig", {}, "no vocab_file_path"),
    "rate": (
        "BertPretrainTextDataConfig",
        {"masking_rate": 1.5, "vocab_file_path": "v"},
        "masking_rate is 1.5",
    ),
    "label-format": (
        "BertPretrainTextDataConfig",
        {"next_sentence_labels_format": "yes", "vocab_file_path": "v"},
        "next_sentence_labels_format",
    ),
    "room": (
        "BertPretrainTextDataConfig",
        {"seq_length": 4, "vocab_file_path": "v"},
        "no room for 2 segments",
    ),
    "strategy": ("XLNetPretrainDataConfig", {"sample_strategy": "x"}, "sample_strategy"),
    "reuse": (
        "XLNetPretrainDataConfig",
        {"reuse_length": 200, "permutation_size": 256},
        "reuse_length is 200",
    ),
    "rest": (
        "XLNetPretrainDataConfig",
        {"seq_length": 400, "reuse_length": 256, "permutation_size": 256},
        "seq_length - reuse_length is 144",
    ),
    "too-much-reuse": ("XLNetPretrainDataConfig", {"reuse_length": 512}, "reuse_length is 512"),
    "spans": ("XLNetPretrainDataConfig", {"min_num_words": 6}, "6 to 5 words"),
    "text-fields": (
        "SentencePredictionTextDataConfig",
        {"input_path": "x", "vocab_file": "v"},
        "text_fields are not given",
    ),
    "tokenization": (
        "SentencePredictionTextDataConfig",
        {**SENTENCES, "tokenization": "bytes"},
        "Unsupported tokenization",
    ),
    "two-ways": (
        "SentencePredictionTextDataConfig",
        {**SENTENCES, "preprocessing_hub_module_url": "m"},
        "Both of vocab_file",
    ),
    "no-way": (
        "SentencePredictionTextDataConfig",
        {"input_path": "x", "text_fields": ["a"]},
        "None of vocab_file",
    ),
    "no-source": (
        "SentencePredictionTextDataConfig",
        {"text_fields": ["a"], "vocab_file": "v"},
        "Exactly one of",
    ),
    "two-sources": (
        "SentencePredictionTextDataConfig",
        {**SENTENCES, "tfds_name": "glue", "tfds_split": "train"},
        "Exactly one of",
    ),
    "split-without-name": (
        "SentencePredictionTextDataConfig",
        {**SENTENCES, "tfds_split": "train"},
        "tfds_split is given",
    ),
    "name-without-split": (
        "SentencePredictionTextDataConfig",
        {"tfds_name": "glue", "text_fields": ["a"], "vocab_file": "v"},
        "tfds_split is not",
    ),
    "dual-two-ways": (
        "DualEncoderDataConfig",
        {**DUAL, "preprocessing_hub_module_url": "m"},
        "Both of vocab_file",
    ),
    "dual-no-source": ("DualEncoderDataConfig", {"vocab_file": "v"}, "Exactly one of"),
    "dual-no-fields": (
        "DualEncoderDataConfig",
        {**DUAL, "left_text_fields": []},
        "left_text_fields",
    ),
    "wmt-languages": ("WMTDataConfig", {}, "src_lang is not given"),
    "wmt-model": (
        "WMTDataConfig",
        {**TRANSLATE, "sentencepiece_model_path": ""},
        "sentencepiece_model_path is not given",
    ),
}


def made(config: str, **options: Any) -> Any:
    return get_data_loader(getattr(loaders, config)().override(options))


@pytest.mark.parametrize("case", REFUSED)
def test_a_configuration_is_refused_when_the_loader_is_made(case: str) -> None:
    config, options, message = REFUSED[case]
    with pytest.raises(SettingsError, match=message) as caught:
        made(config, **options)
    assert isinstance(caught.value, ValueError)
    assert caught.value.where and caught.value.hint


def test_an_unknown_strategy_is_not_implemented() -> None:
    with pytest.raises(NotImplementedError):
        made("XLNetPretrainDataConfig", sample_strategy="x")


def test_a_large_permutation_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SettingsError, match="no multiple"):
        made("XLNetPretrainDataConfig", reuse_length=128, permutation_size=256)
    assert "permutation_size 256 is above reuse_length 128" in caplog.text


@pytest.mark.parametrize("static", [False, True])
def test_a_token_budget_below_one_row_is_refused(static: bool, files: Files) -> None:
    options = {**TRANSLATE, "sentencepiece_model_path": files.sentencepiece}
    loader = made(
        "WMTDataConfig",
        **{**options, "input_path": files.texts, "static_batch": static},
        is_training=True,
        max_seq_length=100,
    )
    with pytest.raises(SettingsError, match="The token budget, global batch size, is too small"):
        loader.load()


def test_too_few_documents_for_each_replica_are_refused(files: Files) -> None:
    loader = made(
        "BertPretrainTextDataConfig",
        input_path=files.texts,
        vocab_file_path=files.vocabulary,
        doc_batch_size=4,
        global_batch_size=8,
    )
    context = tf.distribute.InputContext(num_replicas_in_sync=4)
    with pytest.raises(SettingsError, match="A batch has 1 document"):
        loader.load(context)


def test_records_of_another_length_are_named_with_their_file(files: Files) -> None:
    loader = made(
        "BertPretrainDataConfig",
        input_path=files.pretraining,
        seq_length=records.SEQ * 2,
        max_predictions_per_seq=records.SLOTS,
        global_batch_size=4,
    )
    with pytest.raises(Exception, match=rf"{records.SEQ} values.*{records.SEQ * 2} are") as caught:
        next(iter(loader.load()))
    assert files.pretraining in str(caught.value)


@pytest.mark.parametrize("missing", ["[MASK]", "[CLS]", "[SEP]", "[UNK]"])
def test_a_vocabulary_without_a_special_piece_is_refused(
    missing: str, files: Files, tmp_path: Path
) -> None:
    path = records.vocabulary(tmp_path / "vocab.txt", without=[missing])
    loader = made(
        "BertPretrainTextDataConfig",
        input_path=files.texts,
        vocab_file_path=path,
        global_batch_size=4,
    )
    with pytest.raises(InputError) as caught:
        loader.load()
    assert missing in caught.value.message and caught.value.where == path


def test_a_vocabulary_without_mask_does_for_classification(files: Files, tmp_path: Path) -> None:
    path = records.vocabulary(tmp_path / "vocab.txt", without=["[MASK]"])
    loader = made(
        "SentencePredictionTextDataConfig",
        **{**SENTENCES, "input_path": files.texts, "text_fields": ["en"], "vocab_file": path},
    )
    next(iter(loader.load()))


def test_a_missing_vocabulary_is_named(files: Files) -> None:
    loader = made("DualEncoderDataConfig", input_path=files.texts, vocab_file="/nowhere/vocab.txt")
    with pytest.raises(MissingFiles) as caught:
        loader.load()
    assert caught.value.where == "/nowhere/vocab.txt"


def test_a_file_that_is_no_model_is_refused(files: Files) -> None:
    loader = made(
        "WMTDataConfig",
        **{**TRANSLATE, "sentencepiece_model_path": files.vocabulary, "input_path": files.texts},
    )
    with pytest.raises(InputError, match="no SentencePiece model"):
        loader.load()


def test_a_model_without_special_pieces_is_refused(files: Files, tmp_path: Path) -> None:
    model = records.sentencepiece(tmp_path / "plain", symbols=[])
    loader = made(
        "SentencePredictionTextDataConfig",
        **{**SENTENCES, "input_path": files.texts, "text_fields": ["en"], "vocab_file": model},
        tokenization="SentencePiece",
    )
    with pytest.raises(InputError, match=r"lacks \[CLS\], \[SEP\]"):
        loader.load()


def test_a_model_without_an_end_of_sentence_is_refused(files: Files, tmp_path: Path) -> None:
    model = records.sentencepiece(tmp_path / "endless", eos_id=-1)
    options = {
        **TRANSLATE,
        "sentencepiece_model_path": model,
        "input_path": files.texts,
        "global_batch_size": 512,
    }
    for training in (True, False):
        loader = made("WMTDataConfig", **options, is_training=training)
        with pytest.raises(InputError, match="no end of sentence"):
            loader.load()


BELOW = {
    "TaggingDataConfig": {"input_path": "tagged", "seq_length": records.SEQ},
    "XLNetPretrainDataConfig": {
        "input_path": "xlnet",
        "seq_length": 32,
        "reuse_length": 0,
        "permutation_size": 32,
    },
    "BertPretrainTextDataConfig": {
        "input_path": "texts",
        "use_next_sentence_label": False,
        "vocab_file_path": "vocabulary",
    },
    "WMTDataConfig": {
        **TRANSLATE,
        "input_path": "texts",
        "static_batch": True,
        "sentencepiece_model_path": "sentencepiece",
    },
}


@pytest.mark.parametrize("config", BELOW)
def test_an_evaluation_set_below_one_batch_is_refused(config: str, files: Files) -> None:
    options = {
        name: getattr(files, value) if isinstance(value, str) and hasattr(files, value) else value
        for name, value in BELOW[config].items()
    }
    loader = made(
        config, **{**options, "is_training": False, "global_batch_size": records.ROWS + 1}
    )
    with pytest.raises(Exception, match="fewer than a batch of 41"):
        list(loader.load())


def test_text_features_that_are_not_there_are_named(files: Files) -> None:
    loader = made("DualEncoderDataConfig", **{**DUAL, "input_path": files.texts})
    assert loader.features().keys() == {"left_input", "right_input"}
    wrong = made(
        "DualEncoderDataConfig",
        input_path=files.texts,
        vocab_file=files.vocabulary,
        left_text_fields=["premiss"],
    )
    with pytest.raises(Exception, match="premiss holds 0 values"):
        next(iter(wrong.load()))
