"""What a training task reads: its configured data, or a synthetic batch to try a model with.

``params.input_path == "dummy"`` gives one synthetic batch, again and again, without any file. Its
names, dtypes and lengths are those of the task's real batches, so that a model can be built and a
first step be timed before there is data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.finetuning.squad_eval import prepare_eval
from provender.nlp.loaders.wmt_eval import prepare_translation_eval
from provender.nlp.registry import get_data_loader

DUMMY = "dummy"
_PAIRS = 10
"""Rows of a synthetic dual encoder batch: with one there would be no other text to tell from."""


@dataclass(frozen=True)
class Task:
    """What of a task its data depends on.

    Attributes:
        num_classes: classes of sentence_prediction (1 is regression) and tagging.
    """

    num_classes: int = 2


def build_inputs(
    task: str,
    params: DataConfig,
    input_context: Any = None,
    *,
    num_classes: int = 2,
    logging_dir: str | None = None,
) -> Any:
    """The batches of one input pipeline of a task.

    Args:
        task: one of `TASKS`.
        params: the configuration of the task's data; its class decides on the loader.
        input_context: which pipeline this is, of how many; None for the only one.
        num_classes: of sentence_prediction (1 is regression) and tagging: the range of synthetic
            labels.
        logging_dir: where the records of an evaluation go: those of question answering that are
            made of SQuAD's JSON, if the configuration names no folder for them; and the numbered
            pairs of translation, which is read as it is if there is no such folder.

    Returns:
        A `tf.data.Dataset` of batches; endless where ``params.input_path`` is ``dummy``.

    Raises:
        SettingsError: there is no such task; or see the loader.
    """
    if task not in TASKS:
        raise SettingsError(
            f"There is no task {task!r}.", where="task", hint=f"Use one of {', '.join(TASKS)}."
        )
    if params.input_path != DUMMY:
        if task == "question_answering":
            params = prepare_eval(params, logging_dir)
        elif task == "translation":
            params = prepare_translation_eval(params, logging_dir)
        return get_data_loader(params).load(input_context)
    import tensorflow as tf

    batch = TASKS[task](params, Task(num_classes))
    return tf.data.Dataset.from_tensors(batch).repeat()


def _masked_lm(params: Any, _: Task) -> dict[str, Any]:
    import tensorflow as tf

    seq, slots = _rows(1, params.seq_length), _rows(1, params.max_predictions_per_seq)
    return {
        "input_word_ids": seq,
        "input_mask": seq,
        "input_type_ids": seq,
        "masked_lm_positions": slots,
        "masked_lm_ids": slots,
        "masked_lm_weights": tf.cast(slots, tf.float32),
        "next_sentence_labels": _rows(1, 1),
    }


def _sentence_prediction(params: Any, task: Task) -> dict[str, Any]:
    import tensorflow as tf

    labels = tf.zeros([1], tf.float32) if task.num_classes == 1 else _rows(1, 1)
    return {**_text(1, params.seq_length), params.label_field: labels}


def _tagging(params: Any, task: Task) -> tuple[dict[str, Any], Any]:
    import tensorflow as tf

    shape = [1, params.seq_length]
    labels = tf.random.uniform(shape, minval=-1, maxval=task.num_classes, dtype=tf.int32)
    return _text(1, params.seq_length), labels


def _question_answering(params: Any, _: Task) -> tuple[dict[str, Any], dict[str, Any]]:
    import tensorflow as tf

    answers = {"start_positions": 0, "end_positions": 1, "is_impossible": 0}
    return (
        _text(1, params.seq_length),
        # Scalars, as TF-NLP's synthetic answers are; real ones have one for each row.
        {name: tf.constant(value, tf.int32) for name, value in answers.items()},
    )


def _dual_encoder(params: Any, _: Task) -> dict[str, Any]:
    rows = _rows(_PAIRS, params.seq_length)
    names = ("word_ids", "mask", "type_ids")
    return {f"{side}_{name}": rows for side in ("left", "right") for name in names}


def _translation(params: Any, _: Task) -> dict[str, Any]:
    rows = _rows(1, params.max_seq_length)
    return {"inputs": rows, "targets": rows}


def _text(rows: int, length: int) -> dict[str, Any]:
    names = ("input_word_ids", "input_mask", "input_type_ids")
    return dict.fromkeys(names, _rows(rows, length))


def _rows(rows: int, length: int) -> Any:
    import tensorflow as tf

    return tf.zeros([rows, length], tf.int32)


TASKS: Mapping[str, Callable[[Any, Task], Any]] = {
    "masked_lm": _masked_lm,
    "electra": _masked_lm,
    "sentence_prediction": _sentence_prediction,
    "tagging": _tagging,
    "question_answering": _question_answering,
    "dual_encoder": _dual_encoder,
    "translation": _translation,
}
"""Task -> its synthetic batch."""
