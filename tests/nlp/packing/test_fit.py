"""Which examples share a row: best fit, and what holds for every packing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.errors import SettingsError
from provender.nlp.packing.fit import BestFit, Room, lay_out

ROOM = Room(tokens=32, segments=4, masks=6)
examples = st.lists(st.tuples(st.integers(0, 32), st.integers(0, 6)), max_size=80)
ways = st.tuples(st.none() | st.integers(1, 5), st.booleans())


def packed(pairs, room=ROOM, open_rows=None, decreasing=True):
    tokens, masks = ([each[at] for each in pairs] for at in (0, 1))
    return lay_out(tokens, masks, room, open_rows=open_rows, decreasing=decreasing)


@settings(deadline=None)
@given(pairs=examples, way=ways)
def test_examples_lie_side_by_side_and_inside_their_rows(pairs, way):
    layout = packed(pairs, open_rows=way[0], decreasing=way[1])
    assert set(layout.row.tolist()) == set(range(layout.rows))
    for row in range(layout.rows):
        inside = sorted(np.nonzero(layout.row == row)[0], key=lambda each: layout.segment[each])
        assert [int(layout.segment[each]) for each in inside] == list(range(1, len(inside) + 1))
        assert len(inside) <= ROOM.segments
        token = mask = 0
        for each in inside:
            assert (layout.token[each], layout.mask[each]) == (token, mask)
            token += max(1, pairs[each][0])
            mask += pairs[each][1]
        assert token <= ROOM.tokens
        assert mask <= ROOM.masks


@settings(deadline=None)
@given(pairs=examples, way=ways)
def test_rows_come_in_the_order_of_their_first_examples_every_time(pairs, way):
    layout = packed(pairs, open_rows=way[0], decreasing=way[1])
    first = [int(np.nonzero(layout.row == row)[0][0]) for row in range(layout.rows)]
    assert first == sorted(first)
    again = packed(pairs, open_rows=way[0], decreasing=way[1])
    np.testing.assert_array_equal(layout.row, again.row)
    np.testing.assert_array_equal(layout.token, again.token)


@settings(deadline=None)
@given(lengths=st.lists(st.integers(1, 32), min_size=1, max_size=120))
def test_no_two_rows_could_have_been_one(lengths):
    layout = lay_out(lengths, None, Room(32, segments=200))
    sizes = sorted(np.bincount(layout.row, weights=lengths).tolist())
    assert len(sizes) == 1 or sizes[0] + sizes[1] > 32


def test_the_longest_first_packs_better_than_as_they_come():
    lengths = np.random.default_rng(0).integers(1, 33, 1000)
    rows = {
        decreasing: lay_out(
            lengths, None, Room(32, segments=32), open_rows=None, decreasing=decreasing
        ).rows
        for decreasing in (True, False)
    }
    assert -(-lengths.sum() // 32) <= rows[True] < rows[False]


def slow_best_fit(pairs, room, open_rows):
    """The rule, word by word: a list of rows, searched from end to end for each example."""
    rows, open_now = [], [None] * open_rows
    found = []
    for tokens, masks in pairs:
        tokens = max(1, tokens)
        fitting = [
            (rows[row][0] - tokens, slot)
            for slot, row in enumerate(open_now)
            if row is not None
            and rows[row][0] >= tokens
            and rows[row][1] >= masks
            and rows[row][2] >= 1
        ]
        if fitting:
            slot = min(fitting)[1]
        else:
            left = [(0 if row is None else rows[row][0], slot) for slot, row in enumerate(open_now)]
            slot = min(left)[1]
            open_now[slot] = len(rows)
            rows.append([room.tokens, room.masks, room.segments])
        row = rows[open_now[slot]]
        row[0], row[1], row[2] = row[0] - tokens, row[1] - masks, row[2] - 1
        found.append(open_now[slot])
    return found


@settings(deadline=None)
@given(pairs=examples, open_rows=st.integers(1, 6))
def test_each_example_goes_where_it_leaves_least(pairs, open_rows):
    layout = packed(pairs, open_rows=open_rows, decreasing=False)
    assert layout.row.tolist() == slow_best_fit(pairs, ROOM, open_rows)


def test_the_best_row_is_taken_not_the_first():
    fit = BestFit(Room(10, segments=9), open_rows=2)
    assert [fit.place(each) for each in (4, 7)] == [(0, True), (1, True)]
    assert fit.place(3) == (1, False)
    assert fit.place(6) == (0, False)


def test_without_room_the_fullest_row_is_closed():
    fit = BestFit(Room(10, segments=9), open_rows=2)
    assert [fit.place(each) for each in (8, 6, 9)] == [(0, True), (1, True), (0, True)]
    assert fit.place(4) == (1, False)


def test_segments_and_masks_limit_a_row_too():
    assert packed([(1, 0)] * 9, Room(32, segments=4, masks=0)).rows == 3
    assert packed([(1, 2)] * 9, Room(32, segments=9, masks=6)).rows == 3


def test_a_buffer_of_nothing_has_no_rows():
    assert packed([]).rows == 0


@pytest.mark.parametrize("pair", [(33, 0), (3, 7)])
def test_an_example_that_no_row_can_hold_is_refused(pair):
    with pytest.raises(SettingsError, match=f"{pair[0]} tokens and {pair[1]} masked positions"):
        packed([(1, 1), pair])


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, -1)])
def test_rows_without_room_are_refused(sizes):
    with pytest.raises(SettingsError):
        Room(*sizes)


def test_no_open_row_is_refused():
    with pytest.raises(SettingsError, match="open_rows is 0"):
        packed([(1, 1)], open_rows=0)
