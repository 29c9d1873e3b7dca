"""Permutations, the buffer and the global shuffle: every row once, how random, from anywhere."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.stream.chains import not_third, numbered, twice
from tests.data.stream.exact import assert_exact_resume, make_source

from provender.data.stream import IterableDataset, split_dataset_by_node
from provender.data.stream.draws import Draws, key_of, order_of
from provender.data.stream.permutation import BlockOrder, Permutation
from provender.errors import SettingsError

pytestmark = pytest.mark.timeout(120)


def stream(total: int, shards: int = 1) -> IterableDataset:
    return IterableDataset.from_dict({"i": np.arange(total)}, num_shards=shards)


def ids(ds: IterableDataset) -> np.ndarray:
    return np.concatenate([table["i"].to_numpy() for table in ds.with_format("arrow").iter(4096)])


def correlation(order: np.ndarray) -> float:
    """Spearman's rank correlation of an order with the order of the files."""
    return float(np.corrcoef(np.arange(len(order)), order)[0, 1])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, 300_000), st.integers(0, 5))
def test_a_permutation_gives_everything_once(n: int, key: int) -> None:
    made = Permutation(n, key).at(np.arange(n))
    assert np.array_equal(np.sort(made), np.arange(n))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 20_000), st.integers(1, 400), st.integers(2, 2000), st.integers(0, 3))
def test_a_block_order_gives_everything_once(n: int, block: int, window: int, key: int) -> None:
    order = BlockOrder(n, block, max(window, 2 * block), key)
    made = order.at(np.arange(n))
    assert np.array_equal(np.sort(made), np.arange(n))
    some = np.arange(0, n, 7)
    assert np.array_equal(order.at(some), made[some])


def test_small_permutations_are_all_equally_likely() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for key in range(2400):
        made = tuple(Permutation(4, key_of(key)).at(np.arange(4)).tolist())
        seen[made] = seen.get(made, 0) + 1
    assert len(seen) == 24
    assert 60 < min(seen.values()) <= max(seen.values()) < 145


def test_a_large_permutation_looks_random() -> None:
    n = 1 << 17
    made = Permutation(n, 3).at(np.arange(n))
    assert abs(correlation(made)) < 0.01
    # Neighbours are as far apart as in any random order: a third of n on the average.
    assert abs(np.abs(np.diff(made)).mean() / n - 1 / 3) < 0.01
    ups = float((np.diff(made) > 0).mean())
    assert abs(ups - 0.5) < 0.01


def test_draws_are_a_function_of_their_place() -> None:
    whole = Draws(7).words(0, 1000)
    for start in (0, 1, 2, 3, 4, 5, 998):
        assert np.array_equal(Draws(7).words(start, 2), whole[start : start + 2])
    drawn = Draws(7).below(10, 0, 10_000)
    assert drawn.min() == 0
    assert drawn.max() == 9
    # These numbers must never change: positions kept by users depend on them.
    assert Draws(key_of("shuffle", 1, 0)).words(0, 2).tolist() == PINNED
    assert order_of(5, 6).tolist() == PINNED_ORDER


PINNED = [2704228502440570605, 289155201902209286]
PINNED_ORDER = [2, 4, 3, 1, 5, 0]


@pytest.mark.parametrize("files", [1, 10, 100])
@pytest.mark.parametrize("block", [1, 256, 10_000], ids=str)
def test_a_global_shuffle_has_no_trace_of_the_file_order(files: int, block: int) -> None:
    ds = stream(200_000, files).shuffle(seed=1, buffer_size="global", block_rows=block)
    order = ids(ds)
    assert np.array_equal(np.sort(order), np.arange(200_000))
    assert abs(correlation(order)) < 0.02


def test_a_buffer_larger_than_the_data_shuffles_all() -> None:
    order = ids(stream(20_000).shuffle(seed=1, buffer_size=50_000))
    assert abs(correlation(order)) < 0.02


@pytest.mark.parametrize("size", [2, 3, 10, 100])
def test_every_row_stays_a_bounded_time_in_the_buffer(size: int) -> None:
    order = ids(stream(5000).shuffle(seed=2, buffer_size=size))
    given = np.empty(5000, np.int64)
    given[order] = np.arange(5000)
    # Row j can be given from draw j - size + 1 on; every slot is emptied within 4 x size draws.
    waited = given - np.arange(5000)
    assert waited.min() >= -size + 1
    assert waited.max() <= 4 * (size + 1)


def test_a_global_shuffle_goes_on_from_anywhere_and_skips_by_arithmetic() -> None:
    def make() -> IterableDataset:
        return stream(300, 3).shuffle(seed=4, buffer_size="global").map(twice)

    rows = assert_exact_resume(make, range(0, 301, 7), epoch=1)
    assert sorted(row["i"] for row in rows) == list(range(0, 600, 2))

    def blocks() -> IterableDataset:
        return stream(300, 3).shuffle(seed=4, buffer_size="global", block_rows=16, window_rows=64)

    assert_exact_resume(blocks, range(0, 301, 7))
    whole = [row["i"] for row in blocks()]
    assert [row["i"] for row in blocks().skip(123)] == whole[123:]


def test_the_order_does_not_depend_on_shards_or_on_what_reads_them() -> None:
    one = ids(stream(5000, 1).shuffle(seed=1, buffer_size="global"))
    many = ids(stream(5000, 7).shuffle(seed=1, buffer_size="global"))
    assert np.array_equal(one, many)


def test_numbers_of_rows_before_a_global_shuffle_are_those_of_the_rows() -> None:
    before = stream(50).map(numbered, with_indices=True).shuffle(seed=1, buffer_size="global")
    assert all(row["i"] % 1000 == row["i"] // 1000 for row in before)
    after = stream(50).shuffle(seed=1, buffer_size="global").map(numbered, with_indices=True)
    assert [row["i"] % 1000 for row in after] == list(range(50))


def test_where_a_global_shuffle_cannot_be_it_says_what_to_do() -> None:
    with pytest.raises(SettingsError, match="cannot come after filter"):
        stream(10).filter(not_third).shuffle(buffer_size="global")
    with pytest.raises(SettingsError, match="cannot read rows by their number"):
        IterableDataset(make_source("uncounted", 10, 2)).shuffle(buffer_size="global")
    shuffled = stream(10).shuffle(seed=1, buffer_size="global").filter(not_third)
    assert len(list(shuffled)) == 6


def test_skipping_far_through_a_shuffle_reads_only_what_is_held() -> None:
    def make() -> IterableDataset:
        return stream(60_000, 5).shuffle(seed=1, buffer_size=500)

    whole = [row["i"] for row in make()]
    for count in (3, 4000, 40_000, 59_400, 59_990, 60_000, 70_000):
        assert [row["i"] for row in make().skip(count)] == whole[count:]
    ds = make()
    list(islice(iter(ds), 30_000))
    assert len(json.dumps(ds.state_dict())) < 2000


@pytest.mark.parametrize(
    "argument",
    [{"buffer_size": "all"}, {"buffer_size": 1.5}, {"seed": "a"}, {"max_buffer_input_shards": 0}],
    ids=str,
)
def test_arguments_that_make_no_sense(argument: Any) -> None:
    with pytest.raises(ValueError, match=r"global|whole number|at least 1"):
        stream(10).shuffle(**argument)


def test_nodes_that_step_over_each_others_batches_of_a_shuffle() -> None:
    """Skipping within a pass, to the end and from the middle of a buffer."""

    def make() -> IterableDataset:
        return stream(3000, 3).shuffle(seed=3, buffer_size=20).batch(900)

    whole = list(make())
    for world in (2, 3, 4):
        found = [
            list(split_dataset_by_node(make(), rank, world, "examples")) for rank in range(world)
        ]
        assert [found[at % world][at // world] for at in range(len(whole))] == whole
