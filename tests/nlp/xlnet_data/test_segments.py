"""Where A and B lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.nlp.xlnet_data.segments import LongRuns, Segments, choose, fitted

HIGH = np.uint32(0xFFFFFFFF)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 60))
def test_the_longer_one_is_cut_token_by_token(a: int, b: int, room: int) -> None:
    x, y = a, b
    while x + y > room:
        if x > y:
            x -= 1
        else:
            y -= 1
    assert fitted(a, b, room) == (x, y)


def sides_of(lengths: list[int]) -> np.ndarray:
    return np.repeat(np.arange(len(lengths)) & 1, lengths).astype(np.uint8)


def slow(sides: list[int], begin: int, room: int, coin: bool, cut: float, place: float) -> Segments:
    """As XLNet's paper's code says it, a token at a time."""
    cuts = []
    end = begin + 1
    while end < len(sides):
        if sides[end] != sides[end - 1]:
            if end - begin >= room:
                break
            cuts.append(end)
        end += 1
    chosen = cuts[int(cut * len(cuts))] if cuts else end
    if cuts and coin:
        a, b, first, follows = chosen - begin, end - chosen, chosen, True
    else:
        length = max(1, room - (chosen - begin))
        first = int(place * (len(sides) - length))
        last = first + length
        while first > 0 and sides[first - 1] == sides[first]:
            first -= 1
        while last < len(sides) and sides[last] == sides[last - 1]:
            last += 1
        a, b, follows = chosen - begin, last - first, False
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    return Segments(begin, begin + a, first, first + b, follows)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
    st.integers(2, 24),
    st.data(),
)
def test_segments_are_those_of_the_slow_search(
    lengths: list[int], room: int, data: st.DataObject
) -> None:
    sides = sides_of([*lengths, room + 2])
    begin = data.draw(st.integers(0, len(sides) - room - 1))
    words = [data.draw(st.integers(0, int(HIGH))) for _ in range(3)]
    found = choose(sides, begin, room, np.array(words, np.uint32))
    shares = [each / 2**32 for each in words]
    assert found == slow(sides.tolist(), begin, room, words[0] >= 2**31, *shares[1:])
    assert found.a_end - found.a_begin + found.b_end - found.b_begin == room
    assert 0 <= found.b_begin < found.b_end <= len(sides)
    if found.follows:
        assert sides[found.b_begin] != sides[found.b_begin - 1]


def test_a_sentence_longer_than_many_blocks() -> None:
    sides = sides_of([5000, 7, 5000, 9000])
    words = np.array([HIGH, 0, HIGH], np.uint32)
    found = choose(sides, 100, 50, words)
    assert (found.follows, found.a_end - found.a_begin) == (False, 25)
    assert found.b_begin == 10007
    assert choose(sides, 4990, 50, words) == Segments(4990, 5000, 5000, 5040, True)


class Counted(np.ndarray):
    """An array that counts how many of its items were looked at in slices."""

    seen = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(key, slice):
            Counted.seen += len(found)
            return np.asarray(found)
        return found


@pytest.mark.parametrize("lengths", [[400_000], [200_000, 3, 199_000, 50]])
def test_long_sentences_are_searched_once(lengths: list[int]) -> None:
    sides = np.asarray(sides_of([*lengths, 60]), np.uint8)
    counted = sides.view(Counted)
    runs = LongRuns()
    rng = np.random.default_rng(4)
    Counted.seen = 0
    for begin in rng.integers(0, len(sides) - 100, 400).tolist():
        words = rng.integers(0, 2**32, 3).astype(np.uint32)
        found = choose(counted, begin, 50, words, runs)
        assert found == choose(sides, begin, 50, words)
    # Each call looks at a block or two by itself; the sentence is searched once for all of them.
    assert Counted.seen < 3 * len(sides) + 400 * 3000
