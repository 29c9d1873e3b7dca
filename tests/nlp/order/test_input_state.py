"""The input state: exact at every step, JSON, other hosts, other weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import SettingsError
from provender.nlp.order.plan import SourceFacts
from provender.nlp.order.state import InputState

FACTS = (SourceFacts("news", 30, "aa"), SourceFacts("books", 17, "bb"))


def state_of(
    shares: tuple[int, ...] = (2, 1), batch: int = 4, facts: tuple[SourceFacts, ...] = FACTS
) -> InputState:
    return InputState(facts, shares, 5, batch)


def elements(state: InputState, count: int) -> list[tuple[str, int]]:
    """The next elements, by name of the source and record."""
    start, order = state.snapshot()
    sources, records = order.at(np.arange(start, start + count))
    names = [each.name for each in state.sources]
    return [
        (names[at], record) for at, record in zip(sources.tolist(), records.tolist(), strict=True)
    ]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.integers(1, 9))
def test_any_number_of_resumes_changes_nothing(steps: list[int], batch: int) -> None:
    whole = elements(state_of(batch=batch), (sum(steps) + 3) * batch)
    state = state_of(batch=batch)
    for each in steps:
        state.advance(each)
        fresh = state_of(batch=batch)
        fresh.load(json.loads(json.dumps(state.as_dict())))
        state = fresh
    assert state.step == sum(steps)
    assert elements(state, 3 * batch) == whole[sum(steps) * batch :]


@given(st.integers(0, 80), st.integers(0, 80))
def test_weights_may_change_at_a_resume(before: int, after: int) -> None:
    """Each source goes on where it was, so that none of its epochs loses or repeats a record."""
    first = state_of((2, 1))
    found = elements(first, before * 4)
    first.advance(before)
    second = state_of((1, 3))
    second.load(first.to_json())
    later = elements(second, after * 4)
    second.advance(after)
    third = state_of((1, 3))
    third.load(second.to_json())
    found += later + elements(third, 200)
    for name, records in (("news", 30), ("books", 17)):
        own = [record for source, record in found if source == name]
        for epoch in range(len(own) // records):
            part = own[epoch * records : (epoch + 1) * records]
            assert sorted(part) == list(range(records))
    news = sum(1 for source, _ in later if source == "news")
    assert abs(news - len(later) / 4) < 1


def test_a_changed_weight_survives_the_next_resume() -> None:
    first = state_of((2, 1))
    first.advance(5)
    second = state_of((1, 3))
    second.load(first.to_json())
    whole = elements(second, 400)
    second.advance(7)
    third = state_of((1, 3))
    third.load(second.to_json())
    assert elements(third, 200) == whole[28:228]


def test_sources_may_come_and_go() -> None:
    first = state_of()
    first.advance(6)
    books = first.report().sources["books"].examples
    only = state_of((1,), facts=FACTS[:1])
    only.load(first.to_json())
    only.advance(3)
    assert only.report().former == {"books": books}
    assert only.report().examples == 36
    back = state_of((1, 1))
    back.load(only.to_json())
    assert back.report().sources["books"].examples == books
    assert back.report().former == {}


def test_the_batch_may_change_at_a_resume() -> None:
    first = state_of(batch=4)
    first.advance(9)
    second = state_of(batch=6)
    second.load(first.to_json())
    assert second.examples == 36
    second.advance(2)
    assert (second.step, second.examples) == (11, 48)


def test_a_followed_step_may_be_restored_before_or_after() -> None:
    saved = state_of()
    saved.advance(7)
    for variable_first in (True, False):
        step = [0]
        fresh = state_of()
        fresh.follow(lambda step=step: step[0])
        if variable_first:
            step[0] = 7
        fresh.load(saved.to_json())
        step[0] = 7
        assert (fresh.step, fresh.examples) == (7, 28)
        step[0] = 9
        assert fresh.examples == 36
    with pytest.raises(SettingsError, match="from a variable"):
        fresh.advance()


def test_a_step_that_was_not_restored_is_an_error() -> None:
    saved = state_of()
    saved.advance(7)
    fresh = state_of()
    fresh.follow(lambda: 3)
    fresh.load(saved.to_json())
    with pytest.raises(SettingsError, match="of step 7, and the step counter is at 3"):
        fresh.snapshot()


def test_report() -> None:
    state = state_of()
    state.advance(15)
    report = state.report()
    news, books = report.sources["news"], report.sources["books"]
    assert (report.step, report.examples) == (15, 60)
    assert (news.examples, news.epoch, news.coverage) == (40, 1, pytest.approx(1 / 3))
    assert (books.examples, books.epochs, books.epoch) == (20, pytest.approx(20 / 17), 1)
    assert (news.share, books.weight) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert json.loads(json.dumps(report.as_dict()))["sources"]["books"]["records"] == 17
    assert [line.split() for line in str(report).splitlines()] == [
        ["step", "15,", "60", "examples"],
        ["source", "records", "examples", "epochs", "share", "weight"],
        ["news", "30", "40", "1.333", "66.67%", "66.67%"],
        ["books", "17", "20", "1.176", "33.33%", "33.33%"],
    ]


def test_report_before_the_first_step() -> None:
    news = state_of().report().sources["news"]
    assert (news.examples, news.epochs, news.coverage, news.share) == (0, 0.0, 0.0, 0.0)


def test_other_data_are_refused() -> None:
    saved = state_of().to_json()
    grown = (SourceFacts("news", 31, "aa"), FACTS[1])
    with pytest.raises(SettingsError, match="30 records then, 31 now") as caught:
        state_of(facts=grown).load(saved)
    assert "news" in str(caught.value.where)
    renamed = (SourceFacts("news", 30, "cc"), FACTS[1])
    with pytest.raises(SettingsError, match="other data"):
        state_of(facts=renamed).load(saved)


def test_another_seed_is_refused() -> None:
    with pytest.raises(SettingsError, match="seed 5, the config says 6"):
        InputState(FACTS, (2, 1), 6, 4).load(state_of().as_dict())


@pytest.mark.parametrize("document", [{}, [], {"format": "provender-input-state", "version": 99}])
def test_what_is_no_state(document: object) -> None:
    with pytest.raises(SettingsError, match="no input state"):
        state_of().load(document)  # type: ignore[arg-type]
