"""Pieces of time: names, borders, spans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import SettingsError
from provender.partitions import (
    GRAINS,
    Partition,
    check_grain,
    parse_partition,
    partition_of,
    span,
)

moments = st.datetimes(datetime(1971, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC))
grains = st.sampled_from(GRAINS)


@given(moments, grains)
def test_a_moment_lies_in_its_piece_and_in_no_other(moment, grain) -> None:
    piece = partition_of(moment, grain)
    assert piece.start <= moment < piece.stop
    assert partition_of(piece.stop, grain) == piece.next()
    assert partition_of(piece.start - timedelta(seconds=1), grain).next() == piece


@given(moments, grains)
def test_a_name_is_read_back(moment, grain) -> None:
    piece = partition_of(moment, grain)
    assert parse_partition(piece.name) == piece == parse_partition(piece.name, grain)


@given(moments, st.integers(0, 400), grains)
def test_a_span_has_every_piece_once_in_order(moment, days, grain) -> None:
    last = moment + timedelta(days=days)
    pieces = span(f"{moment:%Y-%m-%d}", f"{last:%Y-%m-%d}", grain)
    assert pieces[0].start <= moment and pieces == sorted(set(pieces))
    assert all(a.next() == b for a, b in pairwise(pieces))
    assert pieces[-1] == partition_of(last.replace(hour=23), grain)


@pytest.mark.parametrize(
    ("moment", "grain", "name"),
    [
        (datetime(2026, 11, 29, 5, 59), "hour", "2026-11-29T05"),
        (datetime(2026, 11, 29, 23), "day", "2026-11-29"),
        (datetime(2027, 1, 1), "week", "2026-W53"),
        (datetime(2026, 2, 28), "month", "2026-02"),
        (datetime(2026, 12, 31, 23, 59), "year", "2026"),
    ],
)
def test_names_are_iso_8601(moment, grain, name) -> None:
    assert partition_of(moment, grain).name == name


def test_months_and_years_end_where_the_calendar_says() -> None:
    names = [each.name for each in span("2023-11-15", "2024-03-01", "month")]
    assert names == ["2023-11", "2023-12", "2024-01", "2024-02", "2024-03"]
    assert len(span("2024-02-01", "2024-02-29", "day")) == 29
    assert len(span("2026-01-01", "2026-12-31", "week")) == 53


def test_the_name_of_a_coarser_piece_means_all_of_it() -> None:
    months = [each.name for each in span("2026-10", "2026-11", "day")]
    assert (months[0], months[-1], len(months)) == ("2026-10-01", "2026-11-30", 61)
    assert len(span("2026-11-29", "2026-11-29", "hour")) == 24
    assert len(span("2026-11-29T05", "2026-11-29T06", "hour")) == 2


@pytest.mark.parametrize(
    ("name", "grain", "match", "hint"),
    [
        ("2026-13-01", None, "names no piece of time", "Did you mean 2026-12-01?"),
        ("2026-02-30", "day", "names no day", "Did you mean 2026-02-28?"),
        ("2026-11", "day", "names no day", "Did you mean 2026-11-01?"),
        ("20261105", "day", "names no day", "Did you mean 2026-11-05?"),
        ("2026-11-05 17:00", "hour", "names no hour", "Did you mean 2026-11-05T17?"),
        ("2026-W54", "week", "names no week", "Did you mean 2026-W53?"),
        ("yesterday", None, "names no piece", "Such as 2026-11-30."),
        ("../2026-11-01", "day", "names no day", "Did you mean 2026-11-01?"),
    ],
)
def test_what_is_no_name_is_told(name, grain, match, hint) -> None:
    with pytest.raises(SettingsError, match=match) as caught:
        parse_partition(name, grain)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("first", "last", "match"),
    [
        ("2026-11-02", "2026-11-01", "comes after"),
        ("2026-11-31", "2026-12-01", "names no day"),
        ("soon", "2026-12-01", "names no hour"),
        ("1990-01-01", "2026-12-01", "more than 20,000"),
    ],
)
def test_a_span_that_makes_no_sense_is_refused(first, last, match) -> None:
    with pytest.raises(SettingsError, match=match):
        span(first, last, "hour" if match != "names no day" else "day")


def test_a_grain_that_is_none_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match="daily") as caught:
        check_grain("daily", "x")
    assert "Did you mean day?" in str(caught.value)
    assert check_grain("week", "x") == "week"


def test_times_of_other_zones_are_taken_as_utc() -> None:
    from zoneinfo import ZoneInfo

    late = datetime(2026, 11, 30, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert partition_of(late, "day") == Partition(datetime(2026, 11, 29, tzinfo=UTC), "day")
