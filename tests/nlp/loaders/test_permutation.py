"""XLNet: what is predicted, and who may attend whom."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from provender.nlp.loaders.permutation import attention, targets
from provender.nlp.loaders.spans import Spans, choose, weights

L, P, ROWS = 64, 10, 600


def seed(number: int = 5) -> tf.Tensor:
    return tf.constant([number, 0], tf.int64)


def boundaries(rows: int = ROWS, words: int = 24) -> list[list[int]]:
    rng = np.random.default_rng(1)
    return [[*sorted(rng.choice(L, words, replace=False).tolist()), L] for _ in range(rows)]


def chosen(strategy: str, candidates: np.ndarray | None = None, **options: int) -> np.ndarray:
    allowed = np.ones((ROWS, L), bool) if candidates is None else candidates
    found = choose(
        tf.ragged.constant(boundaries(), dtype=tf.int32),
        tf.constant(allowed),
        Spans(strategy, P, **options),
        seed(),
    )
    return np.asarray(found)


@pytest.mark.parametrize("strategy", ["single_token", "whole_word", "token_span", "word_span"])
def test_at_most_so_many_are_predicted_and_never_functional_ones(strategy: str) -> None:
    allowed = np.ones((ROWS, L), bool)
    allowed[:, [20, 62, 63]] = False
    found = chosen(strategy, allowed)
    assert found.sum(1).max() <= P
    assert not found[:, [20, 62, 63]].any()
    # Single tokens and words fill the slots; spans with room around them nearly do.
    least = {"single_token": P, "whole_word": P, "token_span": 8.5, "word_span": 7.5}[strategy]
    assert found.sum(1).mean() >= least


def test_sizes_of_spans_have_weights_of_one_by_size_plus_one() -> None:
    shares = weights(Spans("token_span", P, 1, 5))
    assert sum(shares) == pytest.approx(1)
    np.testing.assert_allclose(np.array(shares) / shares[0], [2 / (n + 1) for n in range(1, 6)])


def test_drawn_spans_have_these_sizes() -> None:
    found = chosen("token_span", shortest=2, longest=4)
    edges = np.diff(np.pad(found, ((0, 0), (1, 1))).astype(int), axis=1)
    sizes = np.argwhere(edges < 0)[:, 1] - np.argwhere(edges > 0)[:, 1]
    # The last span of a row may be cut to fit, so size 1 is rare, and neighbours may touch.
    counts = np.bincount(sizes, minlength=9)
    shares = counts[2:5] / counts[2:5].sum()
    expected = np.array([1 / 3, 1 / 4, 1 / 5]) / (1 / 3 + 1 / 4 + 1 / 5)
    np.testing.assert_allclose(shares, expected, atol=0.12)


def test_whole_words_are_taken_but_for_one_that_is_cut() -> None:
    found = chosen("whole_word")
    for row, begins in zip(found, boundaries(), strict=True):
        words = [row[a:b] for a, b in itertools.pairwise(begins)]
        assert sum(word.any() and not word.all() for word in words) <= 1
        assert not row[: begins[0]].any()


def test_word_spans_begin_with_words_and_leave_the_last_word_out() -> None:
    found = chosen("word_span")
    for row, begins in zip(found, boundaries(), strict=True):
        starts = np.flatnonzero(np.diff(row.astype(int), prepend=0) == 1)
        assert set(starts) <= set(begins)
        assert not row[begins[-2] :].any()


def attended(predicted: np.ndarray, **options: float) -> np.ndarray:
    given = {"permutation_size": 16, "reuse_length": 32, "leak_ratio": 0.0, **options}
    return np.asarray(attention(tf.constant(predicted), seed=seed(), **given)).astype(bool)


def split(predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each pair (i, j): both predicted, in the same part; i plain and j predicted; earlier."""
    second = np.arange(L) >= 32
    same = second[:, None] == second[None, :]
    both = predicted[:, :, None] & predicted[:, None, :] & same
    hidden = ~predicted[:, :, None] & predicted[:, None, :] & same
    return both, hidden, np.broadcast_to(second[:, None] & ~second[None, :], both.shape)


def test_each_predicted_token_sees_those_before_it_in_a_random_order() -> None:
    predicted = chosen("single_token")
    allowed = attended(predicted)
    both, hidden, earlier = split(predicted)
    eye = np.eye(L, dtype=bool)[None]
    other = both & ~eye
    # Of two predicted tokens exactly one sees the other, and none sees itself.
    assert (allowed[other] ^ np.swapaxes(allowed, 1, 2)[other]).all()
    assert not allowed[both & eye].any()
    assert not allowed[hidden].any()
    assert allowed[earlier].all()
    assert not allowed[np.swapaxes(earlier, 1, 2)].any()
    block = np.arange(L) // 16
    within = other & (block[:, None] == block[None, :])
    assert allowed[within].mean() == pytest.approx(0.5, abs=0.001)
    forward = within & (np.arange(L)[:, None] < np.arange(L)[None, :])
    assert allowed[forward].mean() == pytest.approx(0.5, abs=0.03)
    later = other & (block[:, None] > block[None, :])
    assert allowed[later].all()


def test_tokens_that_are_not_predicted_are_seen_by_all_of_their_part() -> None:
    predicted = chosen("single_token")
    allowed = attended(predicted, reuse_length=0)
    plain = np.broadcast_to(~predicted[:, None, :], allowed.shape)
    assert allowed[plain].all()


def test_the_order_is_transitive() -> None:
    predicted = chosen("single_token")[:20]
    allowed = attended(predicted, reuse_length=0, permutation_size=64)
    for row, table in zip(predicted, allowed, strict=True):
        places = np.flatnonzero(row)
        seen = table[np.ix_(places, places)].sum(1)
        assert sorted(seen) == list(range(len(places)))


def test_leaking_tokens_are_seen_by_all_and_by_themselves() -> None:
    predicted = chosen("single_token")
    allowed = attended(predicted, leak_ratio=0.3)
    own = allowed[:, np.arange(L), np.arange(L)]
    assert own[predicted].mean() == pytest.approx(0.3, abs=0.02)
    _, hidden, _ = split(predicted)
    assert allowed[hidden].mean() == pytest.approx(0.3, abs=0.02)
    leaks = np.broadcast_to((own & predicted)[:, None, :], allowed.shape)
    assert allowed[hidden & leaks].all()
    assert not allowed[hidden & ~leaks].any()


def test_targets_are_the_predicted_tokens_in_order() -> None:
    predicted = chosen("word_span")
    ids = np.random.default_rng(2).integers(10, 500, (ROWS, L)).astype(np.int32)
    made = targets(tf.constant(ids), tf.constant(predicted), P)
    mapping, found, mask = (np.asarray(each) for each in (made.mapping, made.ids, made.mask))
    assert mapping.shape == (ROWS, P, L)
    np.testing.assert_array_equal(mapping.sum(2), mask)
    np.testing.assert_array_equal(mapping.sum(1), predicted.astype(int))
    np.testing.assert_array_equal((mapping * ids[:, None, :]).sum(2), found)
    for row, used in zip(mapping, mask, strict=True):
        assert (np.diff(row.argmax(1)[used > 0]) > 0).all()
