"""A model sees no difference between an example alone and an example in a packed row."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.nlp.dynamic.made import columns

from provender.nlp.packing.attention import attention_mask, attention_mask_numpy
from provender.nlp.packing.fields import bert_fields
from provender.nlp.packing.fit import Room
from provender.nlp.packing.numpy_rows import pack


def test_tokens_attend_to_their_own_segment_only():
    segments = np.array([[1, 1, 2, 0]])
    expected = [
        [
            [True, True, False, False],
            [True, True, False, False],
            [False, False, True, False],
            [False, False, False, False],
        ]
    ]
    assert attention_mask_numpy(segments).tolist() == expected
    assert attention_mask(tf.constant(segments)).numpy().tolist() == expected


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    ids, types, positions = (
        keras.Input((None,), dtype="int32", name=name) for name in ("ids", "types", "positions")
    )
    mask = keras.Input((None, None), dtype="bool", name="mask")
    x = layers.Embedding(1100, 16)(ids) + layers.Embedding(2, 16)(types)
    x = layers.LayerNormalization()(x + layers.Embedding(64, 16)(positions))
    for _ in range(2):
        attended = layers.MultiHeadAttention(2, 8)(x, x, attention_mask=mask)
        x = layers.LayerNormalization()(x + attended)
        x = layers.LayerNormalization()(x + layers.Dense(16, activation="gelu")(x))
    return keras.Model([ids, types, positions, mask], layers.Dense(50)(x))


def logits(model, rows):
    mask = attention_mask(tf.constant(rows["segment_ids"]))
    names = ("input_word_ids", "input_type_ids", "position_ids")
    inputs = [tf.constant(rows[name]) for name in names]
    return model([*inputs, mask]).numpy()


def test_logits_of_packed_rows_are_those_of_single_ones(model):
    values = columns(np.random.default_rng(2).integers(3, 40, 24))
    positions = np.broadcast_to(np.arange(64, dtype=np.int32), values["input_mask"].shape)
    alone = values | {"segment_ids": values["input_mask"], "position_ids": positions}
    expected = logits(model, alone)
    rows = pack(values, bert_fields(), Room(64, segments=8, masks=20))
    assert len(rows["segment_ids"]) < 16
    assert rows["segment_ids"].max() > 1
    found = logits(model, rows)
    seen = set()
    for row, segment in zip(*np.nonzero(rows["next_sentence_weights"]), strict=True):
        begin = rows["next_sentence_positions"][row, segment]
        example = int(rows["input_word_ids"][row, begin + 1]) - 1000
        length = int(values["input_mask"][example].sum())
        np.testing.assert_allclose(
            found[row, begin : begin + length], expected[example, :length], atol=1e-5
        )
        # The heads find what they look for: the [CLS] of the pair, and the masked tokens.
        label = values["next_sentence_labels"][example, 0]
        assert rows["next_sentence_labels"][row, segment] == label
        seen.add(example)
    assert seen == set(range(24))
    for row in range(len(found)):
        used = rows["masked_lm_weights"][row] > 0
        positions = rows["masked_lm_positions"][row, used]
        assert (rows["input_word_ids"][row, positions] == rows["masked_lm_ids"][row, used]).all()
