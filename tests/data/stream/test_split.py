"""Nodes and workers: every row once, positions that fit any number of nodes."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.data.stream.chains import APPLY, doubled, not_third, numbered, twice
from tests.data.stream.exact import KINDS, assert_exact_resume, make_source, rows_of, together

from provender.data.stream import IterableDataset, split_dataset_by_node
from provender.errors import ConflictError, SettingsError

pytestmark = pytest.mark.timeout(120)


def stream(kind: str = "table", total: int = 100, shards: int = 4) -> IterableDataset:
    return IterableDataset(make_source(kind, total, shards))


def numbers(ds: IterableDataset) -> list[int]:
    return [row["i"] for row in ds]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_nodes_have_every_row_once(kind: str, world: int) -> None:
    shares = [numbers(split_dataset_by_node(stream(kind), rank, world)) for rank in range(world)]
    assert sorted(together(shares)) == list(range(100))


def test_shards_are_given_whole_where_they_come_out_even() -> None:
    assert numbers(split_dataset_by_node(stream(), 1, 2)) == [*range(25, 50), *range(75, 100)]
    assert numbers(split_dataset_by_node(stream(), 1, 3)) == list(range(1, 100, 3))
    assert numbers(split_dataset_by_node(stream(), 1, 2, "examples")) == list(range(1, 100, 2))


@pytest.mark.parametrize("kind", ["table", "uncounted"])
@pytest.mark.parametrize("equal", ["drop", "pad", "balance"])
@pytest.mark.parametrize("total", [0, 2, 99, 100, 101])
def test_equal_gives_every_node_as_many_rows(kind: str, equal: str, total: int) -> None:
    made = [split_dataset_by_node(stream(kind, total), rank, 4, equal=equal) for rank in range(4)]
    if kind == "uncounted" and equal == "balance":
        with pytest.raises(SettingsError, match="number of rows"):
            numbers(made[0])
        return
    shares = [numbers(each) for each in made]
    expected = total // 4 if equal == "drop" else -(-total // 4)
    assert [len(share) for share in shares] == [expected] * 4
    got = set(together(shares))
    assert got == set(range(total)) if equal != "drop" else len(got) == 4 * expected
    if kind == "table":
        assert [len(each) for each in made] == [expected] * 4


def test_indices_are_those_of_the_whole_stream_before_and_after_a_split() -> None:
    for world in (2, 3):
        for kind in ("table", "uncounted"):
            before = stream(kind).map(numbered, with_indices=True)
            after = [
                split_dataset_by_node(stream(kind), rank, world).map(numbered, with_indices=True)
                for rank in range(world)
            ]
            for rank in range(world):
                found = numbers(split_dataset_by_node(before, rank, world))
                assert all(value % 1000 == value // 1000 for value in found)
                assert numbers(after[rank]) == found


def test_skip_after_a_split_is_done_by_every_node() -> None:
    small = IterableDataset(make_source("table", 16, 4))
    assert [numbers(split_dataset_by_node(small, rank, 2).skip(1)) for rank in (0, 1)] == [
        [1, 2, 3, 8, 9, 10, 11],
        [5, 6, 7, 12, 13, 14, 15],
    ]
    before = [numbers(split_dataset_by_node(small.skip(1), rank, 2)) for rank in (0, 1)]
    assert sorted(together(before)) == list(range(1, 16))


def test_a_shuffle_without_a_seed_is_the_same_on_every_node() -> None:
    for buffer in (50, "global"):
        shares = [
            numbers(split_dataset_by_node(stream().shuffle(buffer_size=buffer), rank, 3))  # type: ignore[arg-type]
            for rank in range(3)
        ]
        assert sorted(together(shares)) == list(range(100))


OPERATORS: dict[str, Any] = {
    "plain": lambda ds: ds,
    "map": lambda ds: ds.map(twice),
    "numbered": lambda ds: ds.map(numbered, with_indices=True),
    "filtered": lambda ds: ds.filter(not_third),
    "filtered and mapped": lambda ds: ds.filter(not_third).map(twice),
    "doubled": lambda ds: ds.map(doubled, batched=True, batch_size=7).map(twice),
    "shuffled": lambda ds: ds.shuffle(seed=1, buffer_size=20).map(twice),
    "globally shuffled": lambda ds: ds.shuffle(seed=1, buffer_size="global").map(twice),
    "batched": lambda ds: ds.map(twice).batch(7),
    "batched after a global shuffle": lambda ds: ds.shuffle(seed=1, buffer_size="global").batch(7),
    "read ahead": lambda ds: ds.map(twice).prefetch(),
}


@pytest.mark.parametrize("old,new", [(2, 3), (3, 1), (1, 4), (4, 2)])
@pytest.mark.parametrize("name", list(OPERATORS))
def test_a_position_fits_another_number_of_nodes(name: str, old: int, new: int) -> None:
    """Rows dealt out one by one: the order of the whole does not depend on how many share it."""
    whole = rows_of(OPERATORS[name](stream()))

    def node(rank: int, world: int) -> IterableDataset:
        return split_dataset_by_node(OPERATORS[name](stream()), rank, world, "examples")

    for steps in (0, 1, 5, min(17, len(whole) // old)):
        states = []
        for rank in range(old):
            ds = node(rank, old)
            given = rows_of(islice(iter(ds), steps))
            assert given == whole[rank : steps * old : old]
            states.append(json.dumps(ds.state_dict()["at"]))
        state = ds.state_dict()
        done = steps * old
        rest: dict[int, Any] = {}
        for rank in range(new):
            later = node(rank, new)
            later.load_state_dict(json.loads(json.dumps(state)))
            for place, row in enumerate(later):
                rest[done + rank + place * new] = row
        assert [rest[at] for at in sorted(rest)] == whole[done:]
        assert sorted(rest) == list(range(done, len(whole)))


def test_a_position_of_other_shards_is_refused() -> None:
    one, two = (split_dataset_by_node(stream(), rank, 2) for rank in (0, 1))
    next(iter(one))
    two.load_state_dict(one.state_dict())
    with pytest.raises(ConflictError, match="node 0 of 2"):
        next(iter(two))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 50),
    st.integers(1, 6),
    st.lists(st.sampled_from(["map", "map numbered", "filter", "rename", "cast"]), max_size=3),
    st.integers(1, 5),
    st.sampled_from(["auto", "examples"]),
    st.booleans(),
)
def test_any_split_has_every_row_once(
    kind: str, total: int, shards: int, names: list[str], world: int, strategy: str, shuffled: bool
) -> None:
    def make() -> IterableDataset:
        ds = stream(kind, total, shards)
        if shuffled:
            ds = ds.shuffle(seed=4, buffer_size=10)
        for name in names:
            ds = APPLY[name](ds)
        return ds

    whole = sorted(map(str, rows_of(make())))
    shares = [
        rows_of(split_dataset_by_node(make(), rank, world, strategy)) for rank in range(world)
    ]
    found = sorted(str(row) for share in shares for row in share)
    if shuffled and any("numbered" in name for name in names):
        assert len(found) == len(whole)
    else:
        assert found == whole


@pytest.mark.parametrize("rank", [0, 2])
def test_going_on_on_a_node(rank: int) -> None:
    assert_exact_resume(lambda: split_dataset_by_node(stream(total=40).map(twice), rank, 3))


@pytest.mark.parametrize(
    "arguments,hint",
    [
        ((3, 3), "rank from 0"),
        ((0, 0), "at least 1"),
        ((0, 2, "shard"), "examples"),
        ((0, 2, "auto", "half"), "balance"),
        ((0, 2, "shards", "drop"), "strategy"),
    ],
    ids=["rank", "world", "strategy", "equal", "both"],
)
def test_arguments_that_make_no_sense(arguments: Any, hint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        split_dataset_by_node(stream(), *arguments)
    assert hint in str(caught.value)


def test_too_few_shards_for_whole_ones() -> None:
    with pytest.raises(SettingsError, match="4 shards for 5 nodes"):
        numbers(split_dataset_by_node(stream(), 0, 5, "shards"))


def test_a_split_of_a_split() -> None:
    shares = [
        numbers(split_dataset_by_node(split_dataset_by_node(stream(), a, 2), b, 3))
        for a in range(2)
        for b in range(3)
    ]
    assert sorted(together(shares)) == list(range(100))
