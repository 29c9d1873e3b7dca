"""Random numbers by counter: the published ones, whatever they are computed together with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.nlp.pretraining import counter
from provender.nlp.pretraining.counter import Purpose, below, philox, threshold, words

# Philox4x32-10 known answers of the authors' library (Random123, kat_vectors).
KNOWN = [
    ([0, 0, 0, 0], 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (
        [0xFFFFFFFF] * 4,
        0xFFFFFFFFFFFFFFFF,
        [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
    ),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        0x299F31D0A4093822,
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("count", "key", "expected"), KNOWN)
def test_known_answers(count: list[int], key: int, expected: list[int]) -> None:
    found = philox([np.array([each], np.uint64) for each in count], key)
    assert found[:, 0].tolist() == expected


def test_many_are_the_same_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = np.arange(100)
    whole = words(7, Purpose.SHAPE, 0, instance, 5, 2)
    monkeypatch.setattr(counter, "_AT_ONCE", 7)
    assert np.array_equal(whole, words(7, Purpose.SHAPE, 0, instance, 5, 2))
    single = [words(7, Purpose.SHAPE, 0, each, 5, 2)[:, 0] for each in range(100)]
    assert np.array_equal(whole, np.array(single).T)


def test_everything_in_a_counter_counts() -> None:
    base = (7, Purpose.SHAPE, 1, 2, 3, 4)
    changed = [
        (8, Purpose.SHAPE, 1, 2, 3, 4),
        (7, Purpose.PARTNER, 1, 2, 3, 4),
        (7, Purpose.SHAPE, 2, 2, 3, 4),
        (7, Purpose.SHAPE, 1, 3, 3, 4),
        (7, Purpose.SHAPE, 1, 2, 4, 4),
        (7, Purpose.SHAPE, 1, 2, 3, 5),
        (7 + (1 << 40), Purpose.SHAPE, 1, 2, 3, 4),
    ]
    drawn = {tuple(words(*each)[:, 0].tolist()) for each in [base, *changed]}
    assert len(drawn) == len(changed) + 1


def test_negative_seeds_are_seeds() -> None:
    assert not np.array_equal(
        words(-1, Purpose.SHAPE, 0, 0, 0, 0), words(1, Purpose.SHAPE, 0, 0, 0, 0)
    )


@given(st.integers(0, (1 << 32) - 1), st.integers(1, (1 << 32) - 1))
def test_below_is_the_share_of_the_bound(word: int, bound: int) -> None:
    found = int(below(np.array([word], np.uint32), bound)[0])
    assert found == word * bound >> 32 < bound


def test_below_is_even() -> None:
    drawn = words(1, Purpose.CHOOSE, np.arange(30_000), 0, 0, 0).ravel()
    counts = np.bincount(below(drawn, 12))
    assert len(counts) == 12
    expected = len(drawn) / 12
    assert ((counts - expected) ** 2 / expected).sum() < 31  # chi-square, 11 degrees, p = 0.001


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_threshold(probability: float) -> None:
    drawn = words(3, Purpose.DECIDE, np.arange(20_000), 0, 0, 0).ravel().astype(np.uint64)
    share = (drawn < threshold(probability)).mean()
    assert abs(share - probability) < 0.01
