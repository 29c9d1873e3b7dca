"""Case after case of what streams are used for, each as small as it shows the point."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.stream.exact import assert_exact_resume, together
from tests.data.stream.four_files import (
    ROWS,
    SOME,
    Load,
    add_one,
    add_ones,
    both,
    ids,
    loaded,
    small,
)

from provender.data.stream import (
    IterableDataset,
    concatenate_streams,
    interleave_streams,
    split_dataset_by_node,
)
from provender.errors import ConflictError, SettingsError

pytestmark = pytest.mark.timeout(60)

RESUMES: dict[str, tuple[Callable[[IterableDataset], IterableDataset], Any]] = {
    "plain": (lambda ds: ds, SOME),
    "map": (lambda ds: ds.map(add_one), SOME),
    "map batched": (lambda ds: ds.map(add_ones, batched=True, batch_size=300), SOME),
    "map to more rows": (
        lambda ds: ds.map(both, batched=True, remove_columns=["i", "t"]),
        (1, 1999, 2000, 7999),
    ),
    "filter": (lambda ds: ds.filter(lambda row: row["i"] % 3 == 0), (1, 400, 1333)),
    "take": (lambda ds: ds.take(1500), (0, 1, 1000, 1499, 1500)),
    "skip": (lambda ds: ds.skip(1500), (0, 1, 1000, 2499, 2500)),
    "repeat": (lambda ds: ds.repeat(2), (1, 3999, 4000, 4001, 7999)),
    "batch": (lambda ds: ds.batch(48), (1, 20, 21, 83)),
    "shuffle": (lambda ds: ds.shuffle(seed=1, buffer_size=100), SOME),
    "shuffle then take": (lambda ds: ds.shuffle(seed=1, buffer_size=100).take(700), (1, 699)),
    "numbered rows": (
        lambda ds: ds.map(lambda row, n: {"n": n}, with_indices=True),
        SOME,
    ),
    "added column": (lambda ds: ds.add_column("n", list(range(ROWS))), (1, 250, 3999)),
    "one of three nodes": (lambda ds: split_dataset_by_node(ds, 1, 3), (0, 1, 700, 1332)),
}


@pytest.mark.parametrize("name", list(RESUMES))
def test_goes_on_exactly(load: Load, name: str) -> None:
    change, positions = RESUMES[name]
    assert_exact_resume(lambda: change(load()), positions)


def test_shuffled_small_and_large_buffers_go_on_exactly(folder: Path) -> None:
    """One file with a buffer of 100; eight shards with a buffer of 1,000."""
    one = [str(folder / "p0.parquet")]
    assert_exact_resume(
        lambda: loaded("parquet", one).shuffle(seed=3, buffer_size=100), (100, 500, 950)
    )
    many = sorted(map(str, folder.glob("p*.parquet")))
    assert_exact_resume(
        lambda: loaded("parquet", many).reshard(8).shuffle(seed=3, buffer_size=1000),
        (1, 2000, 3900),
    )


def test_combined_streams_go_on_exactly(load: Load) -> None:
    def short() -> IterableDataset:
        return load().take(600)

    assert (
        len(assert_exact_resume(lambda: concatenate_streams([load(), short()]), (1, 3999, 4300)))
        == 4600
    )
    cycled = assert_exact_resume(lambda: interleave_streams([load(), short()]), (1, 601, 1199))
    # It ends with the last row of the shorter stream: 600 of each but for whose turn comes first.
    assert len(cycled) == 1200

    def drawn() -> IterableDataset:
        return interleave_streams(
            [load(), short()], [0.7, 0.3], seed=5, stopping_strategy="all_exhausted"
        )

    assert_exact_resume(drawn, (1, 1000, 4100))


def test_a_state_of_epoch_one_goes_on_in_a_fresh_stream(parquet: Load) -> None:
    def make() -> IterableDataset:
        return parquet().shuffle(seed=1, buffer_size=100)

    ds = make()
    ds.set_epoch(1)
    rows = ids(ds)
    iterator = iter(ds)
    list(islice(iterator, 700))
    fresh = make()
    fresh.load_state_dict(json.loads(json.dumps(ds.state_dict())))
    assert fresh.epoch == 1
    assert ids(fresh) == rows[700:]
    asked = make()
    asked.load_state_dict(ds.state_dict())
    with pytest.raises(ConflictError, match="epoch 1 is loaded"):
        asked.set_epoch(0)
    asked.set_epoch(1)
    assert ids(asked) == rows[700:]


def test_after_a_finished_epoch_the_next_one_may_be_asked_for(parquet: Load) -> None:
    ds = parquet()
    assert len(ids(ds)) == ROWS
    fresh = parquet()
    fresh.load_state_dict(ds.state_dict())
    fresh.set_epoch(1)
    assert len(ids(fresh)) == ROWS
    again = parquet()
    again.load_state_dict(ds.state_dict())
    assert ids(again) == []
    assert len(ids(again)) == ROWS


def test_a_loaded_state_is_used_once(parquet: Load) -> None:
    ds = parquet()
    list(islice(iter(ds), 700))
    fresh = parquet()
    fresh.load_state_dict(ds.state_dict())
    assert [len(ids(fresh)), len(ids(fresh))] == [3300, 4000]


def test_a_state_of_something_else_is_refused(parquet: Load, lines: Load, folder: Path) -> None:
    ds = parquet().map(add_one)
    list(islice(iter(ds), 10))
    state = ds.state_dict()
    with pytest.raises(ConflictError, match="source reads other data"):
        loaded("parquet", [str(folder / "p0.parquet")]).map(add_one).load_state_dict(state)
    with pytest.raises(ConflictError, match="its map is another function"):
        parquet().map(lambda row: {"j": row["i"] + 2}).load_state_dict(state)
    with pytest.raises(ConflictError, match="it has the steps map <- source, this one source"):
        parquet().load_state_dict(state)
    with pytest.raises(ConflictError, match="not a position"):
        parquet().load_state_dict({"examples_iterable": {}})
    with pytest.raises(ConflictError, match="format 99"):
        parquet().load_state_dict({**state, "provender": 99})
    parquet().map(add_one).load_state_dict(state)


def test_a_state_is_small_json(parquet: Load) -> None:
    ds = interleave_streams([parquet().map(add_one), parquet().map(add_one)], [0.5, 0.5], seed=1)
    list(islice(iter(ds), 1234))
    assert len(json.dumps(ds.state_dict())) < 2000


def test_weights_may_change_at_a_resume() -> None:
    def make(weights: list[float]) -> IterableDataset:
        streams = [small([0] * 5000), small([1] * 5000)]
        return interleave_streams(streams, weights, seed=2)

    ds = make([0.5, 0.5])
    list(islice(iter(ds), 1000))
    state = ds.state_dict()
    rest = []
    for _ in range(2):
        later = make([0.9, 0.1])
        later.load_state_dict(state)
        rest.append(ids(islice(iter(later), 2000)))
    assert rest[0] == rest[1]
    assert 0.05 < np.mean(rest[0]) < 0.15


def test_shuffle_depends_on_its_seed_alone(load: Load) -> None:
    first, same, other = (ids(load().shuffle(seed=seed, buffer_size=100)) for seed in (1, 1, 2))
    assert first == same
    assert first != other
    assert sorted(first) == sorted(other) == list(range(ROWS))
    drawn = load().shuffle(buffer_size=100)
    assert ids(drawn) == ids(drawn)
    assert ids(load().shuffle(buffer_size=100)) != ids(drawn)


def test_a_drawn_seed_travels_with_the_state(parquet: Load) -> None:
    ds = parquet().shuffle(buffer_size=100)
    rows = ids(ds)
    list(islice(iter(ds), 500))
    fresh = parquet().shuffle(buffer_size=100)
    fresh.load_state_dict(ds.state_dict())
    assert ids(fresh) == rows[500:]
    assert ids(fresh) == rows


def test_a_generator_is_a_seed(parquet: Load) -> None:
    made = [
        ids(parquet().shuffle(generator=np.random.default_rng(seed), buffer_size=100))
        for seed in (1, 1, 2)
    ]
    assert made[0] == made[1] != made[2]


def test_set_epoch_leaves_the_order_of_what_was_never_shuffled(load: Load) -> None:
    ds = load().map(add_one)
    ds.set_epoch(1)
    assert ids(ds) == list(range(ROWS))


def test_every_epoch_has_its_own_order_and_seeds_do_not_run_into_epochs(parquet: Load) -> None:
    def order(seed: int, epoch: int) -> list[int]:
        ds = (
            parquet()
            .shuffle(seed=seed, buffer_size=100)
            .map(add_one)
            .filter(lambda row: row["i"] % 2)
        )
        ds = ds.batch(10)
        ds.set_epoch(epoch)
        return [value for row in ds for value in row["i"]]

    orders = [order(42, 0), order(42, 1), order(43, 0)]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert len({tuple(sorted(each)) for each in orders}) == 1


def test_take_and_skip_fix_the_order_of_shards(parquet: Load) -> None:
    shuffled = ids(parquet().shuffle(seed=5, buffer_size=10))
    assert max(shuffled[:100]) > 1000
    for ds in (parquet().take(2000), parquet().skip(0)):
        assert max(ids(ds.shuffle(seed=5, buffer_size=10))[:100]) < 200
    train, test = parquet().skip(1000), parquet().take(1000)
    for epoch in (0, 1):
        for each in (train, test):
            each.set_epoch(epoch)
        assert not set(ids(train.shuffle(seed=1))) & set(ids(test.shuffle(seed=1)))


@pytest.mark.parametrize(
    "strategy,expected",
    [
        ("first_exhausted", [0, 10, 1, 11, 2]),
        ("all_exhausted", [0, 10, 1, 11, 2, 12, 0, 13, 1, 14]),
        ("all_exhausted_without_replacement", [0, 10, 1, 11, 2, 12, 13, 14]),
    ],
)
def test_stopping_strategies_in_turn(strategy: str, expected: list[int]) -> None:
    ds = interleave_streams([small([0, 1, 2]), small(range(10, 15))], stopping_strategy=strategy)
    assert ids(ds) == expected
    assert len(ds) == len(expected)


def test_interleave_gives_each_stream_its_share() -> None:
    ds = interleave_streams([small([0] * 20000), small([1] * 20000)], [0.7, 0.3], seed=1)
    assert abs(np.mean(ids(ds.take(10000))) - 0.3) < 0.015


@pytest.mark.parametrize("strategy", ["all_exhausted", "all_exhausted_without_replacement"])
def test_empty_streams_and_zero_probabilities_end(strategy: str) -> None:
    empty, full = small([]), small([0, 1, 2])
    for weights in (None, [0.5, 0.5], [0.0, 1.0]):
        ds = interleave_streams([empty, full], weights, seed=1, stopping_strategy=strategy)
        found = ids(ds)
        assert set(found) == {0, 1, 2}
        assert ids(
            interleave_streams([full, full], [0.0, 1.0], seed=1, stopping_strategy=strategy)
        ) == [0, 1, 2]
    assert ids(interleave_streams([empty, empty], stopping_strategy=strategy)) == []


def test_first_exhausted_with_an_empty_stream_ends_at_once() -> None:
    assert ids(interleave_streams([small([0, 1, 2]), small([])])) == [0]


def test_probabilities_that_make_no_sense() -> None:
    streams = [small([0]), small([1])]
    with pytest.raises(SettingsError, match=r"sum to 1\.2, not to 1"):
        interleave_streams(streams, [0.7, 0.5])
    with pytest.raises(SettingsError, match="2 datasets and 3"):
        interleave_streams(streams, [0.2, 0.3, 0.5])
    with pytest.raises(SettingsError, match="negative"):
        interleave_streams(streams, [1.5, -0.5])
    with pytest.raises(SettingsError, match="Did you mean 'all_exhausted'"):
        interleave_streams(streams, stopping_strategy="all_exhaust")
    with pytest.raises(SettingsError, match="no datasets"):
        interleave_streams([])


def test_shuffle_after_interleave_still_exhausts_every_stream() -> None:
    ds = interleave_streams(
        [small(range(10), 2), small(range(10, 40), 2)], stopping_strategy="all_exhausted"
    )
    assert set(ids(ds)) == set(range(40))
    assert set(ids(ds.shuffle(seed=1, buffer_size=10))) == set(range(40))


def test_shuffle_keeps_the_number_of_shards(parquet: Load) -> None:
    ds = parquet().shuffle(seed=1, buffer_size=100)
    assert ds.num_shards == ds.n_shards == 4
    for count in (2, 4):
        found = [ids(ds.shard(count, index)) for index in range(count)]
        assert sorted(together(found)) == list(range(ROWS))
        assert all(found)


def test_shards_in_one_piece_or_one_by_one(parquet: Load) -> None:
    assert ids(parquet().shard(2, 0)) == list(range(2000))
    assert ids(parquet().shard(2, 0, contiguous=False)) == [*range(1000), *range(2000, 3000)]
    finer = [ids(parquet().shard(6, index)) for index in range(6)]
    assert sorted(together(finer)) == list(range(ROWS))


def test_reshard(parquet: Load, lines: Load) -> None:
    assert parquet().reshard().num_shards == 16
    assert lines().reshard(8).num_shards > 4
    for ds in (parquet().reshard(), lines().reshard(8), lines().map(add_one).reshard(8)):
        assert ids(ds) == list(range(ROWS))
