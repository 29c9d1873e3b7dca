"""Mixtures by integer arithmetic: shares are kept at every place, and every place is computable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import SettingsError
from provender.nlp.order.mixing import MOST, Proportions, shares_of

SHARES = st.lists(st.integers(0, 60), min_size=1, max_size=7).filter(any)


@given(SHARES, st.integers(0, 10**12))
def test_no_source_is_ever_an_element_away_from_its_share(shares: list[int], start: int) -> None:
    mixture = Proportions(shares)
    places = np.arange(start, start + 2 * mixture.cycle, dtype=np.int64)
    sources, numbers = mixture.at(places)
    counts = mixture.counts(start)
    for place, source, number in zip(
        places.tolist(), sources.tolist(), numbers.tolist(), strict=True
    ):
        assert number == counts[source]
        counts[source] += 1
        for have, share in zip(counts, shares, strict=True):
            assert abs(have * mixture.cycle - share * (place + 1)) < mixture.cycle
    assert mixture.counts(start + 2 * mixture.cycle) == counts


@given(SHARES, st.integers(0, 10**9), st.data())
def test_place_of_is_the_inverse(shares: list[int], number: int, data: st.DataObject) -> None:
    mixture = Proportions(shares)
    source = data.draw(st.sampled_from([at for at, share in enumerate(shares) if share]))
    place = mixture.place_of(source, number)
    found = mixture.at(np.array([place], np.int64))
    assert [each.tolist() for each in found] == [[source], [number]]


def test_many_small_sources_do_not_come_in_a_row() -> None:
    """Sorting by the middle of each element's span would give the small ones one after another."""
    shares = [20] + [1] * 20
    sources, _ = Proportions(shares).at(np.arange(40))
    assert set(np.diff(np.flatnonzero(sources == 0)).tolist()) == {2}


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ([0.7, 0.3], (7, 3)),
        ([2, 4], (1, 2)),
        ([0.1, 0.2, 0.7], (1, 2, 7)),
        ([1e-3, 0.0], (1, 0)),
        ([5], (1,)),
    ],
)
def test_weights_mean_their_decimals(weights: list[float], shares: tuple[int, ...]) -> None:
    assert shares_of(weights, [str(at) for at in range(len(weights))]) == shares


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=6).filter(any))
def test_shares_are_near_the_weights(weights: list[float]) -> None:
    shares = shares_of(weights, [str(at) for at in range(len(weights))])
    assert sum(shares) <= MOST
    for weight, share in zip(weights, shares, strict=True):
        assert (share > 0) == (weight > 0)
        assert abs(share / sum(shares) - weight / sum(weights)) <= (len(weights) + 1) / MOST


@pytest.mark.parametrize("weights", [[1, -1], [0, 0], [float("nan"), 1], [True, 1], ["x", 1]])
def test_weights_that_make_no_sense(weights: list[float]) -> None:
    with pytest.raises(SettingsError, match="weight"):
        shares_of(weights, ["news", "books"])
