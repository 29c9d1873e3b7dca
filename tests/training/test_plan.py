"""What each host reads."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from provender.errors import SplitError
from provender.training.feed.plan import Piece, for_host, pieces_of
from provender.training.splits import resolve_split

LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=12)
SPLITS = ["a", "a+b", "a+a", "a[10%:90%]", "a[1:]", "all", "a[1shard:]+b[:50%]"]


def records(pieces: tuple[Piece, ...]) -> list[tuple[str, int]]:
    return [(each.name, at) for each in pieces for at in range(each.start, each.stop)]


@given(LENGTHS, LENGTHS, st.sampled_from(SPLITS), st.integers(1, 12))
def test_hosts_share_what_a_split_means_evenly(
    a: list[int], b: list[int], split: str, count: int
) -> None:
    shards = {"a": a, "b": b}
    files = {
        name: [(f"{name}{at}", length) for at, length in enumerate(lengths)]
        for name, lengths in shards.items()
    }
    assume(split != "a[1:]" or sum(a))
    pieces = pieces_of(resolve_split(split, shards), files)
    every = Counter(records(pieces))
    assume(sum(every.values()) >= count)
    for remainder in ("keep", "drop", "pad"):
        hosts = [records(for_host(pieces, host, count, remainder)) for host in range(count)]
        sizes = [len(each) for each in hosts]
        found = Counter(each for host in hosts for each in host)
        if remainder == "keep":
            assert found == every
            assert max(sizes) - min(sizes) <= 1
            continue
        assert len(set(sizes)) == 1
        few, many = (found, every) if remainder == "drop" else (every, found)
        assert few <= many
        assert many.total() - few.total() < count


def test_whole_files_where_they_divide_evenly() -> None:
    files = {"a": [(f"a{at}", 10 + at % 2) for at in range(8)]}
    pieces = pieces_of(resolve_split("a", {"a": [n for _, n in files["a"]]}), files)
    assert all(each.whole for each in for_host(pieces, 1, 4, "keep"))
    # Files of other sizes would leave one host with more than an example more to read.
    uneven = {"a": [("a0", 14), ("a1", 10), ("a2", 10), ("a3", 10)]}
    pieces = pieces_of(resolve_split("a", {"a": [14, 10, 10, 10]}), uneven)
    assert [len(records(for_host(pieces, host, 2, "drop"))) for host in (0, 1)] == [22, 22]


def test_more_hosts_than_examples() -> None:
    pieces = (Piece("a", 0, 3, 3),)
    with pytest.raises(SplitError, match="3 examples cannot be shared evenly by 4 hosts"):
        for_host(pieces, 0, 4)
    kept = [len(records(for_host(pieces, host, 4, "keep"))) for host in range(4)]
    assert kept == [1, 1, 1, 0]
