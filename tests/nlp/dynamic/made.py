"""Pretraining records made for tests: every example tells who it is by its second token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

LENGTH, SLOTS = 64, 10
RATE = 0.15


def columns(
    lengths: Sequence[int], *, width: int = LENGTH, slots: int = SLOTS, seed: int = 0
) -> dict[str, np.ndarray]:
    """Padded features as the static loader gives them out; example n has token 1000 + n."""
    rng = np.random.default_rng(seed)
    count = len(lengths)
    made = {
        name: np.zeros((count, width), np.int32)
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    made["masked_lm_positions"] = np.zeros((count, slots), np.int32)
    made["masked_lm_ids"] = np.zeros((count, slots), np.int32)
    made["masked_lm_weights"] = np.zeros((count, slots), np.float32)
    made["next_sentence_labels"] = rng.integers(0, 2, (count, 1)).astype(np.int32)
    for row, length in enumerate(lengths):
        ids = rng.integers(5, 900, length)
        ids[1:2] = 1000 + row
        made["input_word_ids"][row, :length] = ids
        made["input_mask"][row, :length] = 1
        made["input_type_ids"][row, length // 2 : length] = 1
        used = min(slots, max(1, round(RATE * length)))
        positions = np.sort(rng.choice(length, used, replace=False))
        made["masked_lm_positions"][row, :used] = positions
        made["masked_lm_ids"][row, :used] = ids[positions]
        made["masked_lm_weights"][row, :used] = 1
    return made


def write(
    path: Path,
    values: dict[str, np.ndarray],
    *,
    padded: bool = True,
    v2: bool = False,
) -> str:
    """Writes the examples as one TFRecord file and gives its name."""
    import tensorflow as tf

    old = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
    with tf.io.TFRecordWriter(str(path)) as file:
        for row in range(len(values["input_mask"])):
            length = int(values["input_mask"][row].sum())
            feature = {}
            for name, column in values.items():
                each = column[row]
                if not padded and name.startswith(("input_", "position_")):
                    each = each[:length]
                kind = (
                    tf.train.Feature(float_list=tf.train.FloatList(value=each))
                    if each.dtype == np.float32
                    else tf.train.Feature(int64_list=tf.train.Int64List(value=each))
                )
                feature[name if v2 else old.get(name, name)] = kind
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            file.write(example.SerializeToString())
    return str(path)


def who(word_ids: np.ndarray) -> list[int]:
    """The numbers of the examples in a batch of rows."""
    return [int(each) - 1000 for each in np.asarray(word_ids)[:, 1]]
