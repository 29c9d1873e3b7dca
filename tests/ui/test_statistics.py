"""Statistics as plots: right for what is kept, and never broken by what is not."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ui.world import story_statistics

from provender.statistics.histogram import Numbers
from provender.ui import plots
from provender.ui.statistics import _columns, split_cards
from provender.ui.view import environment


def numbers(values: list[float], *, whole: bool = True) -> dict[str, Any]:
    found = Numbers(whole=whole)
    found.add(np.array(values, np.int64 if whole else np.float32))
    return found.summary()


def card(**parts: Any) -> Any:
    document = {"examples": 10, "features": {"f": {"kind": "int", "examples": 10, **parts}}}
    return split_cards({"train": document})[0].cards[0]


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=200))
def test_every_number_is_in_a_column(values: list[int]) -> None:
    doc = numbers([float(each) for each in values])
    if doc["min"] == doc["max"]:
        return
    columns = _columns(doc["histogram"], doc["min"], doc["max"])
    assert sum(columns) == len(values)


def test_small_whole_numbers_have_columns_of_their_own() -> None:
    doc = numbers([0, 0, 0, 1, 3, 3, 7])
    assert _columns(doc["histogram"], 0, 7) == [3, 1, 0, 2, 0, 0, 0, 1]


@pytest.mark.parametrize("shape", ["uniform", "normal"])
def test_columns_follow_the_distribution(shape: str) -> None:
    rng = np.random.default_rng(7)
    values = rng.uniform(0, 1000, 50_000) if shape == "uniform" else rng.normal(500, 90, 50_000)
    doc = numbers(list(values), whole=False)
    found = np.array(_columns(doc["histogram"], doc["min"], doc["max"]))
    wanted, _ = np.histogram(values.astype(np.float32), bins=40, range=(doc["min"], doc["max"]))
    # The kept buckets are a 64th of their number wide; whatever straddles an edge may move.
    assert np.abs(found - wanted).sum() < 0.35 * len(values)
    assert (
        abs(np.average(np.arange(40), weights=found) - np.average(np.arange(40), weights=wanted))
        < 0.6
    )


def test_a_long_tail_is_left_out_and_told() -> None:
    plot = card(numbers=numbers([*range(100), *range(100), 1_000_000])).plots[0]
    assert "without the lowest and the highest hundredth" in plot.note
    assert ("most", "1,000,000") in plot.facts and plot.high != "1,000,000"


def test_what_is_always_the_same_is_one_word() -> None:
    found = card(bytes=numbers([140, 140]), width=numbers([8, 8]))
    assert list(found.plots) == []
    assert ("bytes", "always 140 B") in found.facts and ("width, pixels", "always 8") in found.facts


def test_labels_have_names_and_those_that_never_come() -> None:
    labels = {
        "classes": 30,
        "counts": [[i, 0 if i > 25 else i] for i in range(30)],
        "names": {"25": "z"},
    }
    found = card(labels=labels)
    assert found.bars[0].label == "z" and found.bars[0].text == "25"
    assert "12 of 30 labels" in found.note and "5 never come" in found.note


def test_values_that_all_come_once_are_not_ranked() -> None:
    frequent = {
        "exact": True,
        "values": [{"value": str(i), "count": 1, "share": 0.1} for i in range(9)],
    }
    assert list(card(frequent=frequent).bars) == []


_ODD = st.sampled_from(
    [None, "", "nan", "inf", -1, 1e308, [], {}, [[]], {"a": None}, True, "<b>", 1 << 17, -(1 << 90)]
)


@settings(deadline=None)  # the machine may be busy
@given(st.data())
def test_odd_documents_break_no_page(data: st.DataObject) -> None:
    document = copy.deepcopy(_DOCUMENT)
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
                place = place[key]
                continue
            place[key] = copy.deepcopy(data.draw(_ODD))
            break
    cards = split_cards({"train": document})
    environment().get_template("statistics.html").render(statistics=cards)


_DOCUMENT = json.loads(json.dumps(story_statistics(40, "a")))


def test_bars_are_never_wider_than_all() -> None:
    for value, most in (
        (1, 2),
        (5, 2),
        (0, 0),
        (-1, 5),
        (float("nan"), 1),
        (1, float("inf")),
        (None, 3),
    ):
        drawn = plots.bar(value, most)
        assert 'width="-' not in drawn and "nan" not in drawn and "inf" not in drawn


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1e-3, 1e6))
def test_spans_lie_inside_their_chart(start: float, length: float, total: float) -> None:
    import re

    drawn = plots.span(start, start + length, total, "succeeded")
    found = re.search(r'x="([\d.]+)%" width="([\d.]+)%"', drawn)
    assert found and float(found[1]) + float(found[2]) <= 100.02
