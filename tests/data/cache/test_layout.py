"""How results are cut: a function of length and alignment alone, without gaps or overlaps."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.data.cache.layout import (
    MAX_UNITS,
    MIN_UNITS,
    UNIT_ROWS,
    Segment,
    chosen,
    fits,
    gaps,
    missing,
    tiling,
    unit_rows,
    units,
)

totals = st.one_of(st.integers(0, 2000), st.integers(0, 5_000_000))
aligns = st.one_of(st.integers(1, 64), st.integers(1, 200_000))


@given(totals, aligns)
def test_units_cover_everything_once_and_cut_at_multiples(total: int, align: int) -> None:
    found = units(total, align)
    assert [start for start, _ in found] == [0, *(stop for _, stop in found)][: len(found)]
    assert (found[-1][1] if found else 0) == total
    assert all(start < stop and start % align == 0 for start, stop in found)
    assert all(stop - start <= max(UNIT_ROWS, align) for start, stop in found)


@given(st.integers(0, 10**13), st.integers(1, 100_000))
def test_there_are_never_many_thousand_units(total: int, align: int) -> None:
    step = unit_rows(total, align)
    assert total <= step * 2 * MAX_UNITS
    assert step % align == 0


@given(st.integers(1, 5_000_000))
def test_small_inputs_have_many_units_and_none_is_large(total: int) -> None:
    assert len(units(total)) >= min(total, MIN_UNITS)


@pytest.mark.parametrize(
    ("total", "align", "count", "first"),
    [
        (1, 1, 1, 1),
        (15, 1, 15, 1),
        (400, 1, 16, 25),
        (400, 1000, 1, 400),
        (1_000_000, 1, 16, 62_500),
        (1_000_000, 1000, 17, 62_000),
        (10_000_000, 1, 153, 65_536),
        (10_000_000, 1000, 154, 65_000),
        (1_000_000_000, 1, 4096, 244_141),
    ],
)
def test_units_stay_as_they_are(total: int, align: int, count: int, first: int) -> None:
    """Other cuts would leave the finished pieces of earlier releases unused."""
    found = units(total, align)
    assert (len(found), found[0]) == (count, (0, first))


def segments(total: int) -> st.SearchStrategy[list[Segment]]:
    spans = st.tuples(st.integers(0, total), st.integers(0, total)).map(sorted)
    one = spans.filter(lambda each: each[0] < each[1])
    return st.lists(
        st.builds(
            lambda span, digest: Segment(span[0], span[1], span[1] - span[0], 8, f"{digest:032x}"),
            one,
            st.integers(0, 3),
        ),
        max_size=12,
    )


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.just(n), segments(n))))
def test_chosen_segments_do_not_overlap_and_do_not_depend_on_the_order(
    drawn: tuple[int, list[Segment]],
) -> None:
    _, found = drawn
    kept = chosen(found)
    assert kept == chosen(reversed(found))
    assert all(a.stop <= b.start for a, b in itertools.pairwise(kept))
    assert set(kept) <= set(found)


@given(
    st.integers(1, 3000).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, 40), segments(n)))
)
def test_what_is_missing_and_what_is_there_make_the_whole(
    drawn: tuple[int, int, list[Segment]],
) -> None:
    total, align, found = drawn
    kept = chosen(each for each in found if fits(each, total, align))
    todo = missing(total, align, kept)
    covered = sorted([*todo, *((each.start, each.stop) for each in kept)])
    assert [start for start, _ in covered] == [0, *(stop for _, stop in covered)][:-1]
    assert covered[-1][1] == total
    cuts = {start for start, _ in units(total, align)}
    for start, stop in todo:
        assert start % align == 0
        assert not any(start < cut < stop for cut in cuts)
    if not kept:
        assert todo == units(total, align)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), segments(n), st.randoms())))
def test_a_tiling_is_found_whatever_lies_beside_it(drawn: tuple[int, list[Segment], Any]) -> None:
    total, others, chance = drawn
    cuts = sorted({0, total, *chance.choices(range(total + 1), k=4)})
    whole = [Segment(a, b, b - a, 8, "ff" * 16) for a, b in itertools.pairwise(cuts)]
    found = tiling(total, [*others, *whole])
    assert found is not None
    assert [each.start for each in found] == [0, *(each.stop for each in found)][:-1]
    assert found[-1].stop == total
    alone = tiling(total, others)
    assert alone is None or (alone[0].start, alone[-1].stop) == (0, total)


def test_gaps_of_an_empty_input() -> None:
    assert (units(0), gaps(0, []), missing(0, 5, [])) == ([], [], [])


def test_a_name_tells_the_segment_and_nothing_else_does() -> None:
    segment = Segment(0, 65_536, 70_000, 12_345, "0f" * 16)
    assert Segment.from_file(segment.file) == segment
    for name in (segment.file + ".tmp", ".tmp-1-ab", "manifest.json", segment.file[1:], ""):
        assert Segment.from_file(name) is None


def test_names_sort_by_start() -> None:
    found = [Segment(start, start + 1, 1, 8, "00" * 16) for start in (0, 9, 10, 1000, 99_999)]
    assert sorted(each.file for each in found) == [each.file for each in found]
