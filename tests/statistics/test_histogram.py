"""Sums are exact, quantiles within what is promised, and merging changes nothing."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from provender.statistics.edges import WIDTH, edges
from provender.statistics.histogram import Histogram, Numbers

FLOATS = hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(width=32))
WHOLES = hnp.arrays(np.int64, st.integers(1, 60), elements=st.integers(-(2**63), 2**63 - 1))


def of(values: np.ndarray) -> Numbers:
    found = Numbers(whole=values.dtype.kind != "f")
    found.add(values)
    return found


def finite(values: np.ndarray) -> list:
    return [x for x in values.tolist() if math.isfinite(x)]


@settings(deadline=None)
@given(FLOATS)
def test_float_sums_are_exact(values: np.ndarray) -> None:
    found, exact = of(values), [Fraction(x) for x in finite(values)]
    assert Fraction(found.total, 2**149) == sum(exact)
    assert Fraction(found.squares, 2**298) == sum(x * x for x in exact)
    assert found.nan + found.infinite + found.weighed == len(values) == found.count
    if exact:
        assert found.mean == float(sum(exact) / len(exact))
        assert (found.low, found.high) == (min(finite(values)), max(finite(values)))


@settings(deadline=None)
@given(WHOLES)
def test_whole_sums_are_exact(values: np.ndarray) -> None:
    found, exact = of(values), values.tolist()
    assert (found.total, found.squares) == (sum(exact), sum(x * x for x in exact))
    assert found.zeros == exact.count(0)


@settings(deadline=None)
@given(hnp.arrays(np.float32, 50, elements=st.floats(-1e6, 1e6, width=32)))
def test_the_deviation_is_that_of_numpy(values: np.ndarray) -> None:
    exact = np.std(values.astype(np.float64))
    assert of(values).std == pytest.approx(exact, rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(st.one_of(FLOATS, WHOLES), st.data())
def test_merging_any_pieces_gives_the_whole(values: np.ndarray, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    pieces = [of(part) for part in np.split(values, cuts)]
    order = data.draw(st.permutations(pieces))
    merged = Numbers(whole=values.dtype.kind != "f")
    for piece in order:
        merged.merge(Numbers.from_json(json.loads(json.dumps(piece.to_json()))))
    assert merged.to_json() == of(values).to_json()


@settings(deadline=None)
@given(
    hnp.arrays(
        np.float32,
        st.integers(1, 300),
        elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False),
    ),
    st.floats(0, 1),
)
def test_quantiles_are_within_half_a_bucket(values: np.ndarray, share: float) -> None:
    exact = float(np.sort(values)[math.floor(share * (len(values) - 1))])
    [found] = of(values).quantiles([share]).values()
    assert abs(found - exact) <= WIDTH / 2 * abs(exact) * 1.0001


@settings(deadline=None)
@given(hnp.arrays(np.int64, st.integers(1, 300), elements=st.integers(-127, 127)))
def test_quantiles_of_small_whole_numbers_are_exact(values: np.ndarray) -> None:
    for share, found in of(values).quantiles([0, 0.25, 0.5, 0.9, 1]).items():
        assert found == np.quantile(values, float(share), method="lower")


@settings(deadline=None)
@given(st.floats(-1e300, 1e300))
def test_a_number_lies_in_its_bucket(value: float) -> None:
    found = Histogram()
    found.add(np.array([value]))
    [(low, high, count)] = found.ordered()
    assert count == 1
    assert low <= value < high if value >= 0 else low < value <= high
    nearest = min(abs(low), abs(high))
    assert high - low <= nearest * WIDTH * 1.0001 or nearest < 1e-300


def test_buckets_are_neighbours() -> None:
    for code in (0, 1, 65000, 66111):
        assert edges(code)[1] == edges(code + 1)[0]


def test_nothing_is_nothing() -> None:
    found = Numbers(whole=True)
    found.add(np.array([], np.int64))
    assert found.summary()["mean"] is None and found.summary()["quantiles"] == {}


def test_unsigned_numbers_keep_their_size() -> None:
    found = of(np.array([2**64 - 1, 2**63], np.uint64))
    assert (found.low, found.high, found.total) == (2**63, 2**64 - 1, 2**63 + 2**64 - 1)
