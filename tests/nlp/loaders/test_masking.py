"""Masks: how many, of what, and what becomes of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from provender.nlp.loaders.masking import Masking, mask_tokens

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = (PAD, UNK, CLS, SEP, MASK)
SIZE = 1000
RULES = Masking(rate=0.15, max_predictions=20, mask_id=MASK, never=SPECIAL, vocabulary_size=SIZE)


def batch(rows: int, length: int = 96, seed: int = 0) -> np.ndarray:
    """Rows of ``[CLS] a [SEP] b [SEP]`` of several lengths, padded."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(len(SPECIAL), SIZE, (rows, length))
    ends = rng.integers(8, length + 1, rows)
    for row, end in zip(ids, ends, strict=True):
        row[0], row[end // 2], row[end - 1] = CLS, SEP, SEP
        row[end:] = PAD
    return ids.astype(np.int32)


def masked(ids: np.ndarray, rules: Masking = RULES, seed: int = 7) -> dict[str, np.ndarray]:
    made = mask_tokens(tf.constant(ids), rules, tf.constant([seed, 0], tf.int64))
    return {each.name: getattr(made, each.name).numpy() for each in dataclasses.fields(made)}


def test_shares_are_those_of_bert() -> None:
    ids = batch(4000)
    made = masked(ids)
    used = made["weights"] > 0
    ordinary = (~np.isin(ids, SPECIAL)).sum(1)
    wanted = np.minimum(20, np.ceil(np.float32(0.15) * ordinary.astype(np.float32)))
    np.testing.assert_array_equal(used.sum(1), wanted)

    new = np.take_along_axis(made["ids"], made["positions"], 1)[used]
    old = made["labels"][used]
    assert (new == MASK).mean() == pytest.approx(0.8, abs=0.01)
    assert (new == old).mean() == pytest.approx(0.1, abs=0.01)
    random = new[(new != MASK) & (new != old)]
    assert len(random) / len(new) == pytest.approx(0.1, abs=0.01)
    # Drawn evenly: the mean of 5 .. 999, and about every id once in a while.
    assert random.mean() == pytest.approx((len(SPECIAL) + SIZE - 1) / 2, rel=0.03)
    assert len(np.unique(random)) > 0.9 * (SIZE - len(SPECIAL))


def test_special_tokens_are_neither_chosen_nor_inserted() -> None:
    ids = batch(4000, seed=1)
    made = masked(ids)
    used = made["weights"] > 0
    assert not np.isin(made["labels"][used], SPECIAL).any()
    special = np.isin(ids, SPECIAL)
    np.testing.assert_array_equal(made["ids"][special], ids[special])
    changed = made["ids"] != ids
    inserted = made["ids"][changed]
    assert not np.isin(inserted[inserted != MASK], SPECIAL).any()


def test_labels_are_the_tokens_that_were_there_and_slots_are_filled_from_the_left() -> None:
    ids = batch(200, seed=2)
    made = masked(ids)
    used = made["weights"] > 0
    np.testing.assert_array_equal(
        np.take_along_axis(ids, made["positions"], 1)[used], made["labels"][used]
    )
    assert (np.diff(used.astype(int), axis=1) <= 0).all()
    assert (made["labels"][~used] == 0).all() and (made["positions"][~used] == 0).all()
    for positions, row in zip(made["positions"], used, strict=True):
        assert (np.diff(positions[row]) > 0).all()


def test_every_place_is_as_likely_as_any_other() -> None:
    ids = np.full((6000, 20), 500, np.int32)
    made = masked(ids, dataclasses.replace(RULES, max_predictions=3))
    counts = np.bincount(made["positions"][made["weights"] > 0], minlength=20)
    assert counts.sum() == 6000 * 3
    assert counts.min() > 0.9 * 900 and counts.max() < 1.1 * 900


def test_whole_words_are_masked_wholly_or_not_at_all() -> None:
    continues = tuple(range(500, SIZE))
    ids = batch(500, seed=3)
    rules = dataclasses.replace(RULES, continuations=continues)
    made = masked(ids, rules)
    hit = np.zeros_like(ids, bool)
    for row, (positions, weights) in enumerate(
        zip(made["positions"], made["weights"], strict=True)
    ):
        hit[row, positions[weights > 0]] = True
    assert hit.sum(1).max() <= 20
    partial = 0
    for tokens, chosen in zip(ids, hit, strict=True):
        ordinary = ~np.isin(tokens, SPECIAL)
        word = np.cumsum(ordinary & ~np.isin(tokens, continues))
        # Pieces before the first beginning of a word count to the first word.
        word = np.maximum(word, 1)
        for each in np.unique(word[ordinary]):
            of_word = chosen[ordinary & (word == each)]
            partial += of_word.any() and not of_word.all()
    assert partial == 0
    assert hit.any(1).all()


def test_the_same_seed_gives_the_same_masks_and_another_one_others() -> None:
    ids = batch(50, seed=4)
    first, again, other = masked(ids), masked(ids), masked(ids, seed=8)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert (first["positions"] != other["positions"]).any()


def test_rows_shorter_than_the_slots_are_padded() -> None:
    ids = np.array([[CLS, 7, 8, SEP], [CLS, SEP, PAD, PAD]], np.int32)
    made = masked(ids)
    assert made["positions"].shape == made["labels"].shape == made["weights"].shape == (2, 20)
    assert made["weights"].sum(1).tolist() == [1, 0]
