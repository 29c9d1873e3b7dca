"""What a reference meant at some time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from tests.questions.conftest import now

from provender.errors import SettingsError, UnknownReference
from provender.questions import moment


def test_an_alias_over_time(ask, story):
    at = ask.as_of("reviews@golden", story.golden_is_one)
    assert (at.version.id, at.how, at.alias, at.set_by) == (story.one.id, "alias", "golden", "ann")
    assert story.after_one < at.since < story.golden_is_one < at.until < story.golden_is_two
    later = ask.as_of("reviews@golden", story.golden_is_two)
    assert (later.version.id, later.set_by) == (story.two.id, "bob")
    assert at.until == later.since
    assert later.until < story.golden_is_gone


def test_an_alias_that_was_not_there(ask, story):
    with pytest.raises(UnknownReference, match="was first set on") as caught:
        ask.as_of("reviews@golden", story.after_one)
    assert "Aliases set by" in caught.value.hint
    assert caught.value.facts["aliases"] == ["latest"]
    with pytest.raises(UnknownReference, match="had been removed by cy"):
        ask.as_of("reviews@golden", story.golden_is_gone)
    with pytest.raises(UnknownReference, match="never had an alias 'gold'"):
        ask.as_of("reviews@gold", story.golden_is_gone)


def test_a_bare_name_over_time(ask, story):
    assert ask.as_of("reviews", story.after_one).version.id == story.one.id
    after = ask.as_of("reviews", story.after_two)
    assert (after.version.id, after.alias, after.until) == (story.two.id, "latest", None)
    with pytest.raises(UnknownReference) as caught:
        ask.as_of("reviews", story.start)
    assert "The first, 1.0.0, was registered on" in caught.value.hint


def test_a_number_over_time(ask, story, catalog):
    before = now()
    catalog.retract(story.one.id, "labels shifted", "ann")
    assert ask.as_of("reviews:1.0.0", before).status == "published"
    then = ask.as_of("reviews:1.0.0", before)
    assert then.until is not None
    assert then.version.status == "retracted"
    assert ask.as_of("reviews:1.0.0", now()).status == "retracted"
    with pytest.raises(UnknownReference, match=r"no reviews 1\.0\.0"):
        ask.as_of("reviews:1.0.0", story.start)
    with pytest.raises(UnknownReference) as caught:
        ask.as_of("reviews:7.0.0", now())
    assert "There were: 1.1.0, 1.0.0." in caught.value.hint


def test_a_number_that_stood_for_two_contents(ask, make, catalog):
    first = make("reviews", "1.0.0")
    with_first = now()
    catalog.retract(first.id, "wrong", "ann")
    between = now()
    second = make("reviews", "1.0.0", salt="again")
    assert ask.as_of("reviews:1.0.0", with_first).version.id == first.id
    gone = ask.as_of("reviews:1.0.0", between)
    assert (gone.version.id, gone.status) == (first.id, "retracted")
    assert ask.as_of("reviews:1.0.0", now()).version.id == second.id


def test_without_an_alias_the_newest_published_counts(ask, make, catalog):
    one, two = make("reviews", "1.0.0"), make("reviews", "1.1.0")
    catalog.set_alias("reviews", "", "latest", None)
    gone = now()
    found = ask.as_of("reviews", gone)
    assert (found.version.id, found.how) == (two.id, "newest")
    catalog.retract(two.id, "bad", "ann")
    assert ask.as_of("reviews", gone).until is not None
    assert ask.as_of("reviews", now()).version.id == one.id


def test_trials_and_what_replaced_them(ask, make):
    one = make("reviews", "1.0.0", status="trial")
    tried = now()
    two = make("reviews", "1.0.0", salt="again", status="trial")
    found = ask.as_of("reviews:1.0.0", tried)
    assert (found.version.id, found.status, found.version.status) == (one.id, "trial", "replaced")
    assert ask.as_of("reviews:1.0.0", now()).version.id == two.id


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01 12:30", datetime(2026, 3, 1, 12, 30, tzinfo=UTC)),
        ("2026-03-01T12:30:00+02:00", datetime(2026, 3, 1, 10, 30, tzinfo=UTC)),
        (" 2026-03-01T12:30:00Z ", datetime(2026, 3, 1, 12, 30, tzinfo=UTC)),
        (date(2026, 3, 1), datetime(2026, 3, 1, tzinfo=UTC)),
        (datetime(2026, 3, 1, 1), datetime(2026, 3, 1, 1, tzinfo=UTC)),
        (
            datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=1))),
            datetime(2026, 3, 1, tzinfo=UTC),
        ),
    ],
    ids=range(7),
)
def test_times(given, meant):
    assert moment(given) == meant
    assert moment(given).utcoffset() == timedelta(0)


@pytest.mark.parametrize("given", ["yesterday", "", "2026-13-01", "12:30"])
def test_what_is_no_time(given):
    with pytest.raises(SettingsError, match="is no time"):
        moment(given)
