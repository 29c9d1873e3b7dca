"""Different and frequent values: exact while few, then within what is promised."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.statistics.values import EXACT, SAMPLE, Distinct, Sample, Values, mixed, shown


def collected(values: np.ndarray, first: int = 0) -> Values:
    """One value an example; the examples' ids follow from their places."""
    found = Values()
    ids = mixed(np.arange(first, first + len(values), dtype=np.uint64))
    counts = np.ones(len(values), np.int64)
    found.add(ids, counts, mixed(values.astype(np.uint64)), lambda i: str(values[i]))
    return found


@pytest.mark.parametrize("count", [1, 100, 1000, 20_000, 300_000])
def test_the_estimate_is_within_four_standard_errors(count: int) -> None:
    found = Distinct()
    found.add(mixed(np.arange(count, dtype=np.uint64) * np.uint64(7919)))
    assert abs(found.estimate() - count) <= max(1, 4 * 0.023 * count)


def test_an_empty_estimate_is_zero() -> None:
    assert Distinct().estimate() == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4000), st.integers(1, 3000), st.data())
def test_merging_any_pieces_gives_the_whole(size: int, distinct: int, data: st.DataObject) -> None:
    values = np.random.default_rng(size).integers(0, distinct, size)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, size), max_size=4))), size]
    pieces = [collected(values[a:b], a) for a, b in itertools.pairwise(cuts)]
    merged = Values()
    for piece in data.draw(st.permutations(pieces)):
        merged.merge(Values.from_json(json.loads(json.dumps(piece.to_json()))))
    assert merged.to_json() == collected(values).to_json()


def test_few_values_are_counted_exactly() -> None:
    values = np.repeat(np.arange(EXACT), np.arange(1, EXACT + 1))
    found = collected(values)
    assert found.count() == {"count": EXACT, "exact": True}
    best = found.frequent(2)["values"]
    assert [(each["value"], each["count"]) for each in best] == [("255", 256), ("254", 255)]


def test_one_value_more_is_estimated() -> None:
    found = collected(np.arange(EXACT + 1))
    assert found.count()["exact"] is False
    assert found.frequent(5) == {"exact": False, "sample": EXACT + 1, "values": []}


def test_a_frequent_value_among_many_is_found_with_its_share() -> None:
    values = np.arange(1000, 51_000)
    values[::4] = 7
    found = collected(values).frequent(3)
    [best] = found["values"]
    assert best["value"] == "7" and best["share"] == pytest.approx(0.25, abs=0.06)
    assert SAMPLE // 2 <= found["sample"] <= SAMPLE


def test_a_sample_is_never_larger_than_it_may_be() -> None:
    found = Sample()
    for first in range(0, 60_000, 777):
        ids = mixed(np.arange(first, first + 777, dtype=np.uint64))
        found.add(ids, np.arange(777), np.ones(777, np.int64), str)
        assert len(found.members) <= SAMPLE
    assert len(found.members) > SAMPLE // 4


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"abc", "abc"),
        ("é".encode() * 60, "é" * 47 + "…"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
    ids=["empty", "short", "long", "no text"],
)
def test_texts_are_cut(data: bytes, text: str) -> None:
    assert shown(data) == text
