"""What each loader gives, for every option: names, shapes, dtypes; and that it declares it."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

from provender.nlp import loaders
from provender.nlp.registry import get_data_loader

SEQ, SLOTS = records.SEQ, records.SLOTS
BERT = {"input_word_ids", "input_mask", "input_type_ids"}
MASKED = {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
TEXT = {"seq_length": SEQ, "vocab_file": "@vocabulary"}

Expected = dict[str, tuple[str, tuple[int | None, ...]]]


def rows(*names: str, dtype: str = "int32", shape: tuple[int | None, ...] = (SEQ,)) -> Expected:
    return dict.fromkeys(names, (dtype, shape))


STATIC = {
    **rows(*BERT),
    **rows("masked_lm_positions", "masked_lm_ids", shape=(SLOTS,)),
    **rows("masked_lm_weights", dtype="float32", shape=(SLOTS,)),
}
NEXT = rows("next_sentence_labels", shape=(1,))
TAGGED = rows("x.input_word_ids", "x.input_mask", "x.input_type_ids", "y")
ASKED = rows("x.input_word_ids", "x.input_mask", "x.input_type_ids")
XLNET = {
    **rows("input_word_ids", "input_type_ids", shape=(32,)),
    **rows("permutation_mask", shape=(32, 32)),
    **rows("masked_tokens", dtype="bool", shape=(32,)),
    **rows("target_mapping", shape=(6, 32)),
    **rows("target", "target_mask", shape=(6,)),
}
PAIR = rows(
    *(f"{side}_{each}" for side in ("left", "right") for each in ("word_ids", "mask", "type_ids"))
)

PRETRAIN = {"seq_length": SEQ, "max_predictions_per_seq": SLOTS}
FROM_TEXT = {**PRETRAIN, "vocab_file_path": "@vocabulary"}
TRANSLATE = {
    "src_lang": "en",
    "tgt_lang": "de",
    "sentencepiece_model_path": "@sentencepiece",
    "max_seq_length": 12,
}
SHORT = {
    "seq_length": 32,
    "reuse_length": 16,
    "permutation_size": 8,
    "max_predictions_per_seq": 6,
}

CASES: dict[str, tuple[str, str, dict[str, Any], Expected]] = {
    "static": ("BertPretrainDataConfig", "pretraining", PRETRAIN, {**STATIC, **NEXT}),
    "static-no-nsp": (
        "BertPretrainDataConfig",
        "pretraining",
        {**PRETRAIN, "use_next_sentence_label": False},
        STATIC,
    ),
    "static-positions": (
        "BertPretrainDataConfig",
        "pretraining",
        {**PRETRAIN, "use_position_id": True},
        {**STATIC, **NEXT, **rows("position_ids")},
    ),
    "static-v2": (
        "BertPretrainDataConfig",
        "pretraining_v2",
        {**PRETRAIN, "use_v2_feature_names": True},
        {**STATIC, **NEXT},
    ),
    "static-gzip": (
        "BertPretrainDataConfig",
        "pretraining_gzip",
        {**PRETRAIN, "file_type": "tfrecord_compressed"},
        {**STATIC, **NEXT},
    ),
    "text": (
        "BertPretrainTextDataConfig",
        "texts",
        FROM_TEXT,
        {**STATIC, **rows("next_sentence_labels", dtype="bool", shape=())},
    ),
    "text-offline": (
        "BertPretrainTextDataConfig",
        "texts",
        {**FROM_TEXT, "next_sentence_labels_format": "offline"},
        {**STATIC, **NEXT},
    ),
    "text-no-nsp": (
        "BertPretrainTextDataConfig",
        "texts",
        {
            **FROM_TEXT,
            "use_next_sentence_label": False,
            "doc_batch_size": 1,
            "text_field_names": ["en", "de"],
        },
        STATIC,
    ),
    "text-whole-words": (
        "BertPretrainTextDataConfig",
        "texts",
        {**FROM_TEXT, "use_whole_word_masking": True, "lower_case": True},
        {**STATIC, **rows("next_sentence_labels", dtype="bool", shape=())},
    ),
    **{
        f"xlnet-{strategy}": (
            "XLNetPretrainDataConfig",
            "xlnet",
            {**SHORT, "sample_strategy": strategy},
            XLNET,
        )
        for strategy in ("single_token", "whole_word", "token_span", "word_span")
    },
    "xlnet-no-reuse": (
        "XLNetPretrainDataConfig",
        "xlnet",
        {**SHORT, "reuse_length": 0, "permutation_size": 32},
        XLNET,
    ),
    "xlnet-large-batch": (
        "XLNetPretrainDataConfig",
        "xlnet",
        {**SHORT, "global_batch_size": 70},
        XLNET,
    ),
    "sentence": (
        "SentencePredictionDataConfig",
        "labelled",
        {"seq_length": SEQ},
        {**rows(*BERT), **rows("label_ids", shape=())},
    ),
    "sentence-renamed": (
        "SentencePredictionDataConfig",
        "labelled",
        {"seq_length": SEQ, "label_name": ["label_ids", "next"], "include_example_id": True},
        {**rows(*BERT), **rows("label_ids", "next", "example_id", shape=())},
    ),
    "sentence-other-name": (
        "SentencePredictionDataConfig",
        "labelled",
        {"seq_length": SEQ, "label_name": ["other", "next"]},
        {**rows(*BERT), **rows("label_ids", shape=())},
    ),
    "sentence-float": (
        "SentencePredictionDataConfig",
        "labelled",
        {"seq_length": SEQ, "label_type": "float", "label_field": "score"},
        {**rows(*BERT), **rows("score", dtype="float32", shape=())},
    ),
    "sentence-text": (
        "SentencePredictionTextDataConfig",
        "texts",
        {**TEXT, "text_fields": ["premise", "hypothesis"], "include_example_id": True},
        {**rows(*BERT), **rows("label", "example_id", shape=())},
    ),
    "sentence-text-float": (
        "SentencePredictionTextDataConfig",
        "texts",
        {**TEXT, "text_fields": ["en"], "label_type": "float", "label_field": "score"},
        {**rows(*BERT), **rows("score", dtype="float32", shape=())},
    ),
    "sentence-text-sentencepiece": (
        "SentencePredictionTextDataConfig",
        "texts",
        {
            "seq_length": SEQ,
            "text_fields": ["premise"],
            "tokenization": "SentencePiece",
            "vocab_file": "@sentencepiece",
        },
        {**rows(*BERT), **rows("label", shape=())},
    ),
    "tagging": ("TaggingDataConfig", "tagged", {"seq_length": SEQ}, TAGGED),
    "tagging-ids": (
        "TaggingDataConfig",
        "tagged",
        {"seq_length": SEQ, "include_sentence_id": True},
        {**TAGGED, **rows("x.sentence_id", "x.sub_sentence_id", shape=())},
    ),
    "qa": (
        "QADataConfig",
        "labelled",
        {"seq_length": SEQ},
        {**ASKED, **rows("y.start_positions", "y.end_positions", shape=())},
    ),
    "qa-eval": (
        "QADataConfig",
        "labelled",
        {"seq_length": SEQ, "is_training": False},
        {**ASKED, **rows("x.unique_ids", shape=())},
    ),
    "qa-xlnet": (
        "QADataConfig",
        "labelled",
        {"seq_length": SEQ, "xlnet_format": True},
        {
            **ASKED,
            **rows("x.paragraph_mask"),
            **rows("x.class_index", "x.start_positions", shape=()),
            **rows("y.start_positions", "y.end_positions", "y.is_impossible", shape=()),
        },
    ),
    "qa-xlnet-eval": (
        "QADataConfig",
        "labelled",
        {"seq_length": SEQ, "xlnet_format": True, "is_training": False},
        {**ASKED, **rows("x.paragraph_mask"), **rows("x.class_index", "x.unique_ids", shape=())},
    ),
    "dual": ("DualEncoderDataConfig", "texts", TEXT, PAIR),
    "dual-fields": (
        "DualEncoderDataConfig",
        "texts",
        {**TEXT, "left_text_fields": ["en", "de"], "right_text_fields": ["premise"]},
        PAIR,
    ),
    "wmt": (
        "WMTDataConfig",
        "texts",
        {**TRANSLATE, "is_training": True, "global_batch_size": 48},
        rows("inputs", "targets", shape=(None,)),
    ),
    "wmt-static": (
        "WMTDataConfig",
        "texts",
        {**TRANSLATE, "static_batch": True, "has_unique_id": True, "global_batch_size": 4},
        {**rows("inputs", "targets", shape=(12,)), **rows("unique_id", shape=())},
    ),
    "wmt-static-training": (
        "WMTDataConfig",
        "texts",
        {**TRANSLATE, "static_batch": True, "is_training": True, "global_batch_size": 48},
        rows("inputs", "targets", shape=(12,)),
    ),
    "wmt-eval": (
        "WMTDataConfig",
        "texts",
        {**TRANSLATE, "has_unique_id": True, "global_batch_size": 48},
        {**rows("inputs", "targets", shape=(None,)), **rows("unique_id", shape=())},
    ),
}


def params_of(config: str, file: str, options: dict[str, Any], files: Files) -> Any:
    named = {
        key: getattr(files, value[1:]) if isinstance(value, str) and value[:1] == "@" else value
        for key, value in options.items()
    }
    made = getattr(loaders, config)().override(
        {"input_path": getattr(files, file), "global_batch_size": 4, **named}
    )
    assert type(made).__name__ == config
    return made


def flattened(structure: Any) -> dict[str, Any]:
    if isinstance(structure, dict):
        return structure
    inputs, targets = structure
    found = {f"x.{name}": value for name, value in inputs.items()}
    if isinstance(targets, dict):
        return {**found, **{f"y.{name}": value for name, value in targets.items()}}
    return {**found, "y": targets}


@pytest.mark.parametrize("case", CASES)
def test_gives_what_is_specified_and_declared(case: str, files: Files) -> None:
    config, file, options, expected = CASES[case]
    loader = get_data_loader(params_of(config, file, options, files))
    declared = flattened(loader.element_spec())
    wanted = {
        name: tf.TensorSpec((None, *shape), tf.as_dtype(dtype))
        for name, (dtype, shape) in expected.items()
    }
    assert declared == wanted

    data = loader.load()
    given = flattened(data.element_spec)
    assert given.keys() == declared.keys()
    batch = flattened(next(iter(data)))
    count = {value.shape[0] for value in batch.values()}
    assert len(count) == 1 and count.pop() > 0
    for name, spec in declared.items():
        assert spec.is_compatible_with(given[name]), name
        assert spec.is_compatible_with(batch[name]), name
        # A TPU has no int64, and static loaders must have static shapes.
        assert given[name].dtype in (tf.int32, tf.float32, tf.bool)
        if "wmt" not in case:
            assert given[name].shape[1:].is_fully_defined()
    limits = loader.value_ranges()
    assert limits
    for name, (low, high) in limits.items():
        if name in batch:
            value = tf.cast(batch[name], tf.float32)
            assert low is None or float(tf.reduce_min(value)) >= low, name
            assert high is None or float(tf.reduce_max(value)) <= high, name


def test_rows_pass_through_as_text_without_transform_and_batch(files: Files) -> None:
    params = params_of(
        "WMTDataConfig",
        "texts",
        {**TRANSLATE, "transform_and_batch": False, "has_unique_id": True},
        files,
    )
    loader = get_data_loader(params)
    data = loader.load()
    first = next(iter(data))
    assert {name: tuple(value.shape) for name, value in first.items()} == {
        "en": (),
        "de": (),
        "unique_id": (),
    }
    assert first["en"].dtype == tf.string
    assert data.element_spec == loader.element_spec()
    assert len(list(data)) == records.ROWS
