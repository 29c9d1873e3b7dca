"""Distances between distributions, against scipy's, and what they are measured on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.statistics.drifting import distance, drift, numbers_distance
from provender.statistics.histogram import Histogram

COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10_000), min_size=1)


@settings(deadline=None)
@given(COUNTS, COUNTS)
def test_the_distance_is_that_of_scipy(p: dict, q: dict) -> None:
    from scipy.spatial.distance import jensenshannon

    keys = sorted(p.keys() | q.keys())
    theirs = jensenshannon([p.get(k, 0) for k in keys], [q.get(k, 0) for k in keys], base=2)
    assert distance(p, q) == pytest.approx(theirs, abs=1e-6)


@settings(deadline=None)
@given(COUNTS, COUNTS)
def test_it_is_a_distance(p: dict, q: dict) -> None:
    assert distance(p, q) == pytest.approx(distance(q, p))
    assert 0 <= distance(p, q) <= 1
    assert distance(p, {k: 3 * n for k, n in p.items()}) == pytest.approx(0, abs=1e-7)


def test_what_shares_nothing_is_as_far_as_can_be() -> None:
    assert distance({"a": 1}, {"b": 5}) == 1
    assert (distance({}, {}), distance({}, {"a": 1})) == (0, 1)


def histogram(values: np.ndarray) -> list:
    found = Histogram()
    found.add(values)
    return found.to_json()


def test_numbers_of_one_source_hardly_drift() -> None:
    rng = np.random.default_rng(5)
    one, other = (histogram(rng.lognormal(size=20_000)) for _ in range(2))
    assert numbers_distance(one, other) < 0.02


def test_numbers_that_moved_drift() -> None:
    rng = np.random.default_rng(5)
    one = histogram(rng.normal(size=5000))
    assert numbers_distance(one, histogram(rng.normal(1, 1, 5000))) > 0.25
    assert numbers_distance(one, histogram(rng.normal(100, 1, 5000))) == 1


def test_a_constant_that_changes_drifts() -> None:
    same, other = histogram(np.full(9, 3.0)), histogram(np.full(9, 4.0))
    assert (numbers_distance(same, same), numbers_distance(same, other)) == (0, 1)


def feature(kind: str, **more) -> dict:
    return {"kind": kind, "examples": 100, "missing": 0, "empty": 0, **more}


def labels(counts: list, names: dict) -> dict:
    return {
        "classes": len(counts),
        "counts": [[i, n] for i, n in enumerate(counts)],
        "names": names,
    }


def test_labels_are_compared_by_name_where_there_are_names() -> None:
    before = feature("label", labels=labels([70, 30], {"0": "calm", "1": "loud"}))
    after = feature("label", labels=labels([30, 70], {"0": "loud", "1": "calm"}))
    [found] = drift({"features": {"y": before}}, {"features": {"y": after}}, "train")
    assert (found.split, found.feature, found.distance) == ("train", "y", 0)
    nameless = feature("label", labels=labels([30, 70], {}))
    [found] = drift({"features": {"y": before}}, {"features": {"y": nameless}})
    assert found.distance > 0.25 and found.main == "labels"


def test_missing_values_are_drift() -> None:
    [found] = drift(
        {"features": {"y": feature("int")}}, {"features": {"y": feature("int", missing=50)}}
    )
    assert found.main == "missing" and found.distance > 0.4


def test_only_features_of_one_kind_on_both_sides_are_compared() -> None:
    one = {"features": {"a": feature("int"), "b": feature("text"), "c": feature("int")}}
    other = {"features": {"a": feature("float"), "b": feature("text"), "d": feature("int")}}
    assert [each.feature for each in drift(one, other)] == ["b"]
    assert drift({}, other) == []
