"""The same chains through `datasets`: same rows, names and features where the meanings agree."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from tests.data.stream.exact import plain

from provender.data import concatenate_datasets, interleave_datasets
from provender.data.stream import IterableDataset, split_dataset_by_node

pytestmark = pytest.mark.timeout(120)
theirs = import_module("datasets")

COLUMNS = {
    "i": list(range(48)),
    "t": [f"text {number}" for number in range(48)],
    "f": [number / 4 for number in range(48)],
    "l": [list(range(number % 4)) for number in range(48)],
}


def even(row: dict[str, Any]) -> bool:
    return row["i"] % 2 == 0


def evens(batch: dict[str, list[Any]]) -> list[bool]:
    return [value % 2 == 0 for value in batch["i"]]


CHAINS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda ds: ds,
    "map": lambda ds: ds.map(lambda row: {"n": row["i"] + 1}),
    "map over a column": lambda ds: ds.map(lambda row: {"t": row["t"].upper()}),
    "map numbered": lambda ds: ds.map(lambda row, n: {"n": n}, with_indices=True),
    "map of columns": lambda ds: ds.map(lambda i, f: {"s": i + f}, input_columns=["i", "f"]),
    "map with arguments": lambda ds: ds.map(
        lambda row, by: {"i": row["i"] * by}, fn_kwargs={"by": 3}
    ),
    "map with removal": lambda ds: ds.map(
        lambda row: {"t": row["t"], "n": 1}, remove_columns=["t", "f"]
    ),
    "map batched": lambda ds: ds.map(
        lambda b: {"n": [v + 1 for v in b["i"]]}, batched=True, batch_size=7
    ),
    "map batched to more rows": lambda ds: ds.map(
        lambda b: {"n": [v for v in b["i"] for _ in range(2)]},
        batched=True,
        batch_size=7,
        remove_columns=["i", "t", "f", "l"],
    ),
    "map batched without the last": lambda ds: ds.map(
        lambda b: {"n": b["i"]}, batched=True, batch_size=7, drop_last_batch=True
    ),
    "map batched numbered": lambda ds: ds.map(
        lambda b, n: {"n": n}, batched=True, batch_size=7, with_indices=True
    ),
    "map of everything at once": lambda ds: ds.map(
        lambda b: {"n": [len(b["i"])] * len(b["i"])}, batched=True, batch_size=None
    ),
    "filter": lambda ds: ds.filter(even),
    "filter batched": lambda ds: ds.filter(evens, batched=True, batch_size=9),
    "filter numbered": lambda ds: ds.filter(lambda row, n: n % 3 == 0, with_indices=True),
    "filter of columns": lambda ds: ds.filter(lambda i: i > 10, input_columns="i"),
    "batch": lambda ds: ds.batch(8),
    "batch without the last": lambda ds: ds.batch(8, drop_last_batch=True),
    "take and skip": lambda ds: ds.skip(3).take(20).skip(2),
    "repeat": lambda ds: ds.take(4).repeat(3),
    "shard": lambda ds: ds.shard(2, 1),
    "shard one by one": lambda ds: ds.shard(num_shards=2, index=1, contiguous=False),
    "rename": lambda ds: ds.rename_column("t", "u").rename_columns({"i": "a", "f": "b"}),
    "remove": lambda ds: ds.remove_columns(["t", "l"]),
    "select": lambda ds: ds.select_columns(["f", "i"]),
    "add column": lambda ds: ds.add_column("new", list(range(100, 148))),
    "map then select": lambda ds: ds.map(lambda row: {"n": 1}).select_columns(["n", "i"]),
    "filter then batch": lambda ds: ds.filter(even).batch(4),
    "batched after batch": lambda ds: ds.batch(4).map(lambda row: {"n": [v + 1 for v in row["i"]]}),
}


def ours(**kwargs: Any) -> IterableDataset:
    return IterableDataset.from_dict(COLUMNS, **kwargs)


@pytest.mark.parametrize("name", list(CHAINS))
def test_the_same_rows(name: str) -> None:
    change = CHAINS[name]
    expected = list(change(theirs.Dataset.from_dict(COLUMNS).to_iterable_dataset(num_shards=4)))
    found = list(change(ours(num_shards=4)))
    assert found == expected
    if expected:
        assert list(found[0]) == list(expected[0])


@pytest.mark.parametrize("format_name", ["numpy", "pandas", "arrow"])
@pytest.mark.parametrize("name", ["plain", "map", "filter", "map numbered"])
def test_the_same_rows_in_a_format(name: str, format_name: str) -> None:
    change = CHAINS[name]
    source = theirs.Dataset.from_dict(COLUMNS).to_iterable_dataset(num_shards=4)
    expected = [_comparable(row) for row in change(source).with_format(format_name)]
    found = [_comparable(row) for row in change(ours(num_shards=4)).with_format(format_name)]
    assert found == expected


def _comparable(row: Any) -> Any:
    if hasattr(row, "to_pylist"):
        return row.to_pylist()
    if hasattr(row, "to_dict"):
        return [plain(each) for each in row.to_dict("records")]
    # Texts and empty lists are typed by the formats, which have tests of their own.
    numbers = {name: str(row[name].dtype) for name in row if name in ("i", "f", "n")}
    return {name: plain(value) for name, value in row.items()}, numbers


@pytest.mark.parametrize("name", ["plain", "rename", "remove", "select"])
def test_the_same_names_and_types(name: str) -> None:
    change = CHAINS[name]
    source = change(theirs.Dataset.from_dict(COLUMNS).to_iterable_dataset(num_shards=4))
    made = change(ours(num_shards=4))
    assert made.column_names == source.column_names
    assert made.num_shards == source.num_shards
    features = made.features
    assert features is not None
    assert {k: str(v) for k, v in features.items()} == {
        k: str(v) for k, v in source.features.items()
    }


@pytest.mark.parametrize(
    "strategy", ["first_exhausted", "all_exhausted", "all_exhausted_without_replacement"]
)
@pytest.mark.parametrize("lengths", [(3, 5), (5, 3), (4, 4), (1, 6, 2)], ids=str)
def test_the_same_turns(strategy: str, lengths: tuple[int, ...]) -> None:
    columns = [{"i": [place * 100 + n for n in range(size)]} for place, size in enumerate(lengths)]
    expected = theirs.interleave_datasets(
        [theirs.Dataset.from_dict(each).to_iterable_dataset() for each in columns],
        stopping_strategy=strategy,
    )
    found = interleave_datasets(
        [IterableDataset.from_dict(each) for each in columns], stopping_strategy=strategy
    )
    assert list(found) == list(expected)


def test_the_same_concatenation() -> None:
    other = {"i": [1, 2], "x": ["a", "b"]}
    expected = theirs.concatenate_datasets(
        [
            theirs.Dataset.from_dict(COLUMNS).to_iterable_dataset(),
            theirs.Dataset.from_dict(other).to_iterable_dataset(),
        ]
    )
    found = concatenate_datasets([ours(), IterableDataset.from_dict(other)])
    assert list(found) == list(expected)
    assert found.column_names == expected.column_names
    beside = concatenate_datasets(
        [ours(), IterableDataset.from_dict({"z": list(range(48))})], axis=1
    )
    assert list(beside) == [{**row, "z": n} for n, row in enumerate(ours())]


@pytest.mark.parametrize("world", [2, 3, 4])
def test_the_same_rows_on_every_node(world: int) -> None:
    from datasets.distributed import split_dataset_by_node as split

    source = theirs.Dataset.from_dict(COLUMNS).to_iterable_dataset(num_shards=4)
    for rank in range(world):
        expected = list(split(source, rank, world))
        assert list(split_dataset_by_node(ours(num_shards=4), rank, world)) == expected


def test_the_same_batches() -> None:
    source = theirs.Dataset.from_dict(COLUMNS).to_iterable_dataset(num_shards=4)
    for drop in (False, True):
        assert list(ours(num_shards=4).iter(8, drop)) == list(source.iter(8, drop))
