"""The output teaches: a small BERT's loss on masked tokens falls."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.nlp.pretraining.conftest import examples_of

from provender.nlp.pretraining import Options, create


@pytest.mark.slow
def test_a_small_model_learns_to_fill_the_masks(tmp_path: Path) -> None:
    import pydoc_data.topics as pages

    import keras

    from provender.nlp.text.training import train_wordpiece

    text = tmp_path / "text"
    text.write_text("\n\n".join(pages.topics[name] for name in sorted(pages.topics)))
    train_wordpiece([text], tmp_path / "vocab", size=2000)
    options = Options(
        vocab_file=str(tmp_path / "vocab"),
        dupe_factor=4,
        max_seq_length=64,
        max_predictions_per_seq=10,
    )
    create(str(text), f"{tmp_path}/train", options)
    data = examples_of([tmp_path / "train"], options)

    keras.utils.set_random_seed(1)
    ids, mask, types, place = (keras.Input((64,), dtype="int32") for _ in range(4))
    where = keras.Input((10,), dtype="int32")
    x = keras.layers.Add()(
        [
            keras.layers.Embedding(size, 64)(each)
            for size, each in ((2000, ids), (2, types), (64, place))
        ]
    )
    seen = keras.ops.expand_dims(mask, 1)
    for _ in range(2):
        attended = keras.layers.MultiHeadAttention(4, 16)(x, x, attention_mask=seen)
        x = keras.layers.LayerNormalization()(x + attended)
        widened = keras.layers.Dense(64)(keras.layers.Dense(128, "gelu")(x))
        x = keras.layers.LayerNormalization()(x + widened)
    picked = keras.ops.matmul(keras.ops.one_hot(where, 64), x)
    model = keras.Model([ids, mask, types, place, where], keras.layers.Dense(2000)(picked))
    model.compile(
        keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    places = np.broadcast_to(np.arange(64), data["input_ids"].shape)
    given = [data[name] for name in ("input_ids", "input_mask", "segment_ids")]
    given += [places, data["masked_lm_positions"]]
    history = model.fit(
        [each.astype(np.int32) for each in given],
        data["masked_lm_ids"],
        sample_weight=data["masked_lm_weights"],
        batch_size=64,
        epochs=4,
        verbose=0,
    ).history["loss"]
    assert history[-1] < 0.85 * history[0]
    assert all(later < earlier for earlier, later in itertools.pairwise(history))
