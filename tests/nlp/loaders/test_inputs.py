"""Synthetic batches, and real ones, of each task."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

from provender.errors import SettingsError
from provender.nlp import loaders
from provender.nlp.inputs import TASKS, build_inputs

CONFIGS = {
    "masked_lm": "BertPretrainDataConfig",
    "electra": "BertPretrainDataConfig",
    "sentence_prediction": "SentencePredictionDataConfig",
    "tagging": "TaggingDataConfig",
    "question_answering": "QADataConfig",
    "dual_encoder": "DualEncoderDataConfig",
    "translation": "WMTDataConfig",
}
TEXT = {"input_word_ids": (1, 8), "input_mask": (1, 8), "input_type_ids": (1, 8)}
PRETRAINING = {
    **TEXT,
    "masked_lm_positions": (1, 3),
    "masked_lm_ids": (1, 3),
    "masked_lm_weights": (1, 3),
    "next_sentence_labels": (1, 1),
}
SHAPES: dict[str, Any] = {
    "masked_lm": PRETRAINING,
    "electra": PRETRAINING,
    "sentence_prediction": {**TEXT, "label_ids": (1, 1)},
    "tagging": (TEXT, (1, 8)),
    "question_answering": (
        TEXT,
        {"start_positions": (), "end_positions": (), "is_impossible": ()},
    ),
    "dual_encoder": {
        f"{side}_{name}": (10, 8)
        for side in ("left", "right")
        for name in ("word_ids", "mask", "type_ids")
    },
    "translation": {"inputs": (1, 8), "targets": (1, 8)},
}


def dummy(task: str, **options: Any) -> Any:
    kind = getattr(loaders, CONFIGS[task])
    length = {"translation": "max_seq_length"}.get(task, "seq_length")
    return kind(input_path="dummy").override({length: 8, **options})


def shapes(batch: Any) -> Any:
    if isinstance(batch, tuple):
        return tuple(shapes(each) for each in batch)
    if isinstance(batch, dict):
        return {name: shapes(value) for name, value in batch.items()}
    return tuple(batch.shape)


@pytest.mark.parametrize("task", TASKS)
def test_a_synthetic_batch_is_given_without_end(task: str) -> None:
    options = {"max_predictions_per_seq": 3} if task in ("masked_lm", "electra") else {}
    data = build_inputs(task, dummy(task, **options), num_classes=3)
    assert data.cardinality() == tf.data.INFINITE_CARDINALITY
    first, second = data.take(2)
    assert shapes(first) == shapes(second) == SHAPES[task]
    for value in tf.nest.flatten(first):
        assert value.dtype in (tf.int32, tf.float32)


def test_next_sentence_labels_are_there_whether_asked_for_or_not() -> None:
    params = dummy("masked_lm", use_next_sentence_label=False)
    assert "next_sentence_labels" in next(iter(build_inputs("masked_lm", params)))


def test_one_class_is_regression() -> None:
    params = dummy("sentence_prediction", label_field="score")
    label = next(iter(build_inputs("sentence_prediction", params, num_classes=1)))["score"]
    assert label.dtype == tf.float32 and label.shape == (1,)


def test_labels_of_tagging_are_drawn_from_the_classes_and_the_ignored_one() -> None:
    params = dummy("tagging", seq_length=4000)
    _, labels = next(iter(build_inputs("tagging", params, num_classes=3)))
    assert set(labels.numpy().ravel()) == {-1, 0, 1, 2}


def test_the_answer_is_from_0_to_1() -> None:
    _, answer = next(iter(build_inputs("question_answering", dummy("question_answering"))))
    assert {name: value.numpy().tolist() for name, value in answer.items()} == {
        "start_positions": 0,
        "end_positions": 1,
        "is_impossible": 0,
    }


def test_other_paths_are_read(files: Files) -> None:
    params = loaders.TaggingDataConfig(
        input_path=files.tagged, seq_length=records.SEQ, global_batch_size=8, is_training=True
    )
    context = tf.distribute.InputContext(num_replicas_in_sync=2)
    inputs, labels = next(iter(build_inputs("tagging", params, context)))
    assert labels.shape == inputs["input_mask"].shape == (4, records.SEQ)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(SettingsError, match="no task 'summarise'"):
        build_inputs("summarise", dummy("tagging"))
