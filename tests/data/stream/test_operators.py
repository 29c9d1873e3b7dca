"""What operators do to rows, columns, lengths and formats."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.data.stream.exact import UncountedSource, rows_of, together
from tests.data.stream.four_files import ROWS, Load, add_one, ids

from provender.data.features import Value
from provender.data.sources.base import Chunk, Position
from provender.data.stream import (
    IterableDataset,
    concatenate_streams,
    interleave_streams,
    split_dataset_by_node,
)
from provender.errors import StoreError

pytestmark = pytest.mark.timeout(60)


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
