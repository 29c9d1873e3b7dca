"""Case after case of what streams are used for, each as small as it shows the point."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.stream.exact import UncountedSource, assert_exact_resume, rows_of, together

from provender.data import load_dataset
from provender.data.features import Value
from provender.data.sources.base import Chunk, Position
from provender.data.stream import (
    IterableDataset,
    concatenate_streams,
    interleave_streams,
    split_dataset_by_node,
)
from provender.errors import ConflictError, SettingsError, StoreError

pytestmark = pytest.mark.timeout(60)

ROWS, FILES = 4000, 4
SOME = (0, 1, 7, 249, 250, 999, 1000, 2500, 3999, 4000)
Load = Callable[[], IterableDataset]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of 1,000 rows i, t: parquet with row groups of 250, and JSON lines."""
    made = tmp_path_factory.mktemp("rows")
    for file in range(FILES):
        numbers = range(file * 1000, (file + 1) * 1000)
        rows = {"i": list(numbers), "t": [f"text {number}" for number in numbers]}
        pq.write_table(pa.table(rows), made / f"p{file}.parquet", row_group_size=250)
        with open(made / f"j{file}.jsonl", "w") as out:
            out.writelines(json.dumps({"i": i, "t": f"text {i}"}) + "\n" for i in numbers)
    return made


@pytest.fixture
def parquet(folder: Path) -> Load:
    return lambda: _loaded("parquet", sorted(map(str, folder.glob("p*.parquet"))))


@pytest.fixture
def lines(folder: Path) -> Load:
    return lambda: _loaded("json", sorted(map(str, folder.glob("j*.jsonl"))))


@pytest.fixture(params=["parquet", "lines"])
def load(request: pytest.FixtureRequest) -> Load:
    made: Load = request.getfixturevalue(request.param)
    return made


def _loaded(kind: str, files: list[str]) -> IterableDataset:
    made: IterableDataset = load_dataset(kind, data_files=files, split="train", streaming=True)
    return made


def small(numbers: Any, shards: int = 1) -> IterableDataset:
    return IterableDataset.from_dict({"i": list(numbers)}, num_shards=shards)


def ids(ds: Any) -> list[int]:
    return [int(row["i"]) for row in ds]


def add_one(row: dict[str, Any]) -> dict[str, Any]:
    return {"j": row["i"] + 1}


def add_ones(batch: dict[str, list[Any]]) -> dict[str, Any]:
    return {"j": [value + 1 for value in batch["i"]]}


def both(batch: dict[str, list[Any]]) -> dict[str, Any]:
    return {"k": [value for each in batch["i"] for value in (each, -each)]}


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
        lambda: _loaded("parquet", one).shuffle(seed=3, buffer_size=100), (100, 500, 950)
    )
    many = sorted(map(str, folder.glob("p*.parquet")))
    assert_exact_resume(
        lambda: _loaded("parquet", many).reshard(8).shuffle(seed=3, buffer_size=1000),
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
        _loaded("parquet", [str(folder / "p0.parquet")]).map(add_one).load_state_dict(state)
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


def test_map_with_remove_columns_keeps_what_the_function_returns() -> None:
    ds = IterableDataset.from_dict({"i": [0, 1], "x": [5, 6]})
    changed = ds.map(lambda row: {"i": row["i"] + 1}, remove_columns=["i", "x"])
    assert rows_of(changed) == [{"i": 1}, {"i": 2}]
    batched = ds.map(
        lambda batch: {"i": [v + 1 for v in batch["i"]]}, batched=True, remove_columns=["i", "x"]
    )
    assert rows_of(batched) == [{"i": 1}, {"i": 2}]


def test_columns_and_features_after_map_are_known(parquet: Load) -> None:
    ds = parquet().map(lambda row: {"n": len(row["t"])}, remove_columns=["t"])
    assert ds.column_names == ["i", "n"]
    assert ds.features is not None
    assert ds.features["n"] == Value("int64")
    declared = parquet().map(
        add_one, features={"i": Value("int64"), "t": Value("string"), "j": Value("float32")}
    )
    assert declared.features["j"] == Value("float32")
    assert next(iter(declared)) == {"i": 0, "t": "text 0", "j": 1.0}


def test_column_operators_keep_features(parquet: Load) -> None:
    ds = parquet()
    assert ds.remove_columns("t").column_names == ["i"]
    assert ds.rename_column("t", "u").column_names == ["i", "u"]
    assert ds.select_columns(["i"]).column_names == ["i"]
    assert ds.cast_column("i", Value("int32")).features["i"] == Value("int32")
    assert next(iter(ds.rename_columns({"i": "a", "t": "b"}).select_columns(["b", "a"]))) == {
        "b": "text 0",
        "a": 0,
    }


@pytest.mark.parametrize("buffer_size", [0, 1, 100_000])
def test_buffers_of_odd_sizes_keep_all_rows(parquet: Load, buffer_size: int) -> None:
    assert sorted(ids(parquet().shuffle(seed=1, buffer_size=buffer_size))) == list(range(ROWS))


def test_limits_beyond_the_end(load: Load) -> None:
    assert ids(load().skip(ROWS + 1)) == []
    assert ids(load().take(0)) == []
    assert len(ids(load().take(ROWS + 1))) == ROWS
    assert ids(load().filter(lambda row: False)) == []
    assert ids(load().filter(lambda row: False).repeat()) == []


def test_lengths_are_known_where_they_can_be(parquet: Load) -> None:
    ds = parquet()
    assert len(ds) == len(ds.map(add_one)) == len(ds.shuffle(seed=1)) == ROWS
    assert len(ds.skip(10).take(20)) == 20
    assert len(ds.batch(48)) == 84
    assert len(ds.repeat(3)) == 3 * ROWS
    assert len(concatenate_streams([ds, ds.take(1)])) == ROWS + 1
    with pytest.raises(TypeError, match="not known"):
        len(ds.filter(lambda row: True))
    assert bool(ds.filter(lambda row: True))


def test_set_epoch_reaches_the_streams_that_were_combined(parquet: Load) -> None:
    ds = interleave_streams(
        [parquet().shuffle(seed=1, buffer_size=100), parquet().take(600)],
        [0.5, 0.5],
        seed=1,
        stopping_strategy="all_exhausted_without_replacement",
    )
    first = ids(ds)
    ds.set_epoch(1)
    second = ids(ds)
    assert first != second
    assert sorted(first) == sorted(second)
    assert len(first) == 4600


def test_concatenated_with_a_taken_part_can_be_shuffled(parquet: Load) -> None:
    ds = concatenate_streams([parquet().take(10), parquet()])
    shuffled = ds.shuffle(seed=1, buffer_size=100)
    for epoch in (0, 1):
        shuffled.set_epoch(epoch)
        assert len(ids(shuffled)) == 4010


def test_numbers_of_rows_are_global_for_every_node(load: Load) -> None:
    for world in (2, 3):
        for ds in (
            split_dataset_by_node(load().map(lambda row, n: {"n": n}, with_indices=True), 1, world),
            split_dataset_by_node(load(), 1, world).map(lambda row, n: {"n": n}, with_indices=True),
        ):
            assert all(row["n"] == row["i"] for row in ds)


def test_skip_is_done_where_the_rows_lie(parquet: Load) -> None:
    """A function is called for no row that is skipped, taken by others, or after the last one."""
    called: list[int] = []

    def note(row: dict[str, Any]) -> dict[str, Any]:
        called.append(row["i"])
        return {}

    assert ids(parquet().map(note).skip(3000).take(3)) == called == [3000, 3001, 3002]
    called.clear()
    assert (
        ids(split_dataset_by_node(parquet().map(note), 1, 3)) == called == list(range(1, ROWS, 3))
    )
    called.clear()
    next(iter(parquet().map(note)))
    assert called == [0]
    called.clear()
    ds = parquet().map(note)
    ds.load_state_dict(_after(parquet().map(note), 777))
    called.clear()
    next(iter(ds))
    assert called == [777]


def _after(ds: IterableDataset, rows: int) -> dict[str, Any]:
    list(islice(iter(ds), rows))
    return ds.state_dict()


class Flaky(UncountedSource):
    """Breaks once in the middle of a shard."""

    broken = False

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        for chunk in super().read(shard, position, row=row):
            if chunk.row >= 15 and not self.broken:
                self.broken = True
                raise StoreError("the connection was cut", where=f"shard {shard}")
            yield chunk


def test_a_read_that_breaks_can_be_gone_on_from() -> None:
    ds = IterableDataset(Flaky([list(range(40))])).map(add_one)
    rows = []
    with pytest.raises(StoreError):
        rows.extend(row["i"] for row in ds)
    assert rows == list(range(15))
    ds.load_state_dict(ds.state_dict())
    assert rows + ids(ds) == list(range(40))


def test_leaving_early_is_instant(parquet: Load) -> None:
    for ds in (
        parquet().shuffle(seed=1, buffer_size=100),
        interleave_streams([parquet(), parquet()]),
        parquet().map(add_one).prefetch(),
    ):
        iterator = iter(ds)
        next(iterator)
        began = time.monotonic()
        iterator.close()  # type: ignore[attr-defined]
        ds = None  # type: ignore[assignment]
        # A limit for a hang, not a measurement: what must not happen is seconds of sleep.
        assert time.monotonic() - began < 2


def test_repeat_for_ever_with_take(parquet: Load) -> None:
    assert ids(parquet().take(3).repeat().take(8)) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_batches_of_formatted_rows(parquet: Load) -> None:
    first = next(iter(parquet().with_format("numpy").batch(4)))
    assert isinstance(first["i"], np.ndarray)
    assert first["i"].tolist() == [0, 1, 2, 3]
    assert list(first["t"]) == [f"text {n}" for n in range(4)]
    plain = next(iter(parquet().batch(4)))
    assert plain == {"i": [0, 1, 2, 3], "t": [f"text {n}" for n in range(4)]}


def test_iter_in_batches(load: Load) -> None:
    sizes = [len(batch["i"]) for batch in load().iter(300)]
    assert sizes == [300] * 13 + [100]
    assert [len(batch["i"]) for batch in load().iter(300, drop_last_batch=True)] == [300] * 13
    ds = load()
    batches = ds.iter(300)
    next(batches)
    fresh = load()
    fresh.load_state_dict(ds.state_dict())
    assert next(iter(fresh))["i"] == 300
    tables = list(load().with_format("arrow").iter(1000))
    assert all(isinstance(table, pa.Table) for table in tables)
    assert sum(table.num_rows for table in tables) == ROWS
    with pytest.raises(ValueError, match="at least 1"):
        load().iter(0)


@pytest.mark.parametrize(
    "name,kind",
    [("numpy", "numpy.int64"), ("pandas", "pandas.DataFrame"), ("arrow", "pyarrow.Table")],
)
def test_formats(parquet: Load, name: str, kind: str) -> None:
    row = next(iter(parquet().with_format(name)))
    value = row["i"] if isinstance(row, dict) else row
    module = type(value).__module__.split(".")[0].replace("pyarrow", "pyarrow")
    assert f"{module}.{type(value).__name__}" == kind


def test_more_nodes_than_shards(load: Load) -> None:
    shares = [ids(split_dataset_by_node(load(), rank, 7)) for rank in range(7)]
    assert sorted(together(shares)) == list(range(ROWS))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_columns_by_name(parquet: Load) -> None:
    assert list(islice(iter(parquet()["i"]), 3)) == [0, 1, 2]
    with pytest.raises(TypeError, match="random access"):
        parquet()[0]  # type: ignore[index]


def test_a_generator_whose_lists_are_shards() -> None:
    def generate(files: list[str], factor: int) -> Iterator[dict[str, Any]]:
        for file in files:
            yield {"file": file, "n": factor}

    ds = IterableDataset.from_generator(
        generate, gen_kwargs={"files": ["a", "b", "c"], "factor": 2}
    )
    assert ds.num_shards == 3
    assert [row["file"] for row in ds] == ["a", "b", "c"]
    assert [row["file"] for row in ds.shard(3, 1)] == ["b"]
