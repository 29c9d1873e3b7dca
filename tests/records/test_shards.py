"""Shard arithmetic against TFDS's."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from provender.errors import BuilderError
from provender.records import shard_bounds, shard_count, shard_name


@settings(deadline=None)
@given(st.integers(0, 2**42), st.integers(1, 2**31))
def test_count_equals_tfds(total: int, examples: int) -> None:
    from tensorflow_datasets.core.utils import shard_utils

    # Beyond this TFDS never returns.
    assume((total + 16 * examples) // (1 << 30) <= max(1024, examples - 1024))
    theirs = shard_utils.ShardConfig().get_number_shards(total, examples)
    assert shard_count(total, examples) == theirs


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 5000))
def test_bounds_equal_tfds(examples: int, shards: int) -> None:
    from tensorflow_datasets.core.utils import shard_utils

    assume(shards <= examples)
    bounds = shard_bounds(examples, shards)
    assert [end for _, end in bounds] == list(shard_utils.get_shard_boundaries(examples, shards))
    assert bounds[0][0] == 0
    assert all(low[1] == high[0] for low, high in pairwise(bounds))


@settings(deadline=None)
@given(st.integers(0, 2**60), st.integers(0, 2**20), st.integers(1, 2**31), st.integers(0, 2**33))
def test_count_ends_for_any_input(total: int, examples: int, low: int, more: int) -> None:
    count = shard_count(total, examples, min_size=low, max_size=low + more)
    assert 1 <= count <= max(examples, 1)


def test_few_examples_that_are_larger_than_shards() -> None:
    assert shard_count(5 << 40, 1500) == 1500
    assert shard_count(5 << 40, 10_000) == 5120


def test_sizes_are_honoured_and_a_request_wins() -> None:
    assert shard_count(100 << 20, 5000) == 1
    assert shard_count(100 << 20, 5000, min_size=1 << 20, max_size=8 << 20) == 64
    assert shard_count(100 << 20, 5000, 7) == 7


@pytest.mark.parametrize(
    ("requested", "low", "high"), [(0, 1, 2), (6, 1, 2), (None, 0, 2), (None, 3, 2)]
)
def test_senseless_requests(requested: int | None, low: int, high: int) -> None:
    with pytest.raises(BuilderError):
        shard_count(100, 5, requested, low, high)


@pytest.mark.parametrize(("examples", "shards"), [(0, 1), (3, 4), (3, 0)])
def test_bounds_that_cannot_be(examples: int, shards: int) -> None:
    with pytest.raises(BuilderError):
        shard_bounds(examples, shards)


@pytest.mark.parametrize(("index", "count"), [(0, 1), (7, 64), (99_999, 100_000), (5, 1_234_567)])
def test_name_equals_tfds(index: int, count: int) -> None:
    from tensorflow_datasets.core import naming

    template = naming.ShardedFileTemplate(
        data_dir="/d", dataset_name="my_set", split="train", filetype_suffix="tfrecord"
    )
    theirs = template.sharded_filepath(shard_index=index, num_shards=count).name
    assert shard_name("my_set", "train", index, count) == theirs
