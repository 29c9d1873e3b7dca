"""Splits in all places: numbers of rows, splits of splits, nodes with equally many rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.data.stream.chains import not_third, numbered, twice
from tests.data.stream.exact import assert_exact_resume, make_source, rows_of, together

from provender.data.stream import (
    IterableDataset,
    concatenate_streams,
    interleave_streams,
    passing,
    split_dataset_by_node,
)
from provender.errors import SettingsError

pytestmark = pytest.mark.timeout(120)


def stream(kind: str = "table", total: int = 100, shards: int = 4) -> IterableDataset:
    return IterableDataset(make_source(kind, total, shards))


def labelled(batch: dict[str, list[Any]], indices: list[int]) -> dict[str, Any]:
    return {"k": indices}


def at_its_place(row: dict[str, Any], index: int) -> bool:
    return bool(row["i"] == index)


def at_their_places(batch: dict[str, list[Any]], indices: list[int]) -> list[bool]:
    return [value == index for value, index in zip(batch["i"], indices, strict=True)]


@pytest.mark.parametrize("kind", ["table", "uncounted"])
@pytest.mark.parametrize("equal", [None, "drop", "pad"], ids=str)
@pytest.mark.parametrize("world", [2, 3])
def test_numbers_behind_a_split_are_those_of_the_whole(
    kind: str, equal: str | None, world: int
) -> None:
    for rank in range(world):
        node = split_dataset_by_node(stream(kind), rank, world, equal=equal)
        for ds in (node, node.map(twice).map(lambda row: {"i": row["i"] // 2}), node.prefetch()):
            rows = list(ds.map(labelled, with_indices=True, batched=True, batch_size=7))
            assert rows
            assert all(row["i"] == row["k"] for row in rows)
            count = len(rows)
            assert len(list(ds.filter(at_its_place, with_indices=True))) == count
            asked = ds.filter(at_their_places, with_indices=True, batched=True, batch_size=7)
            assert len(list(asked)) == count
            numbers = [row["i"] for row in ds.map(numbered, with_indices=True)]
            assert all(value % 1000 == value // 1000 for value in numbers)


def test_going_on_where_numbers_come_from_below_a_split() -> None:
    for strategy in ("auto", "examples"):

        def node(strategy: str = strategy) -> IterableDataset:
            made: IterableDataset = split_dataset_by_node(stream(total=30), 1, 2, strategy)
            return made

        assert_exact_resume(
            lambda: node().map(labelled, with_indices=True, batched=True, batch_size=4)
        )
        assert_exact_resume(lambda: node().filter(at_its_place, with_indices=True))
        assert_exact_resume(
            lambda: node().filter(at_their_places, with_indices=True, batched=True, batch_size=4)
        )


def split(ds: IterableDataset, rank: int, world: int) -> IterableDataset:
    made: IterableDataset = split_dataset_by_node(ds, rank, world)
    return made


NESTED: dict[str, Callable[[], IterableDataset]] = {
    "of a shard": lambda: split(stream("uncounted", 20, 1).shard(2, 0), 1, 3),
    "of a split": lambda: split(split(stream("uncounted", 20, 1), 0, 2), 1, 2),
    "of a mapped split": lambda: split(split(stream("uncounted", 20, 1), 0, 2).map(twice), 0, 2),
    "of a numbered split": lambda: split(
        split(stream("uncounted", 20, 1), 0, 2).map(numbered, with_indices=True), 1, 2
    ),
    "of a shard of filtered rows": lambda: split(
        stream("uncounted", 30, 1).filter(not_third).skip(1).shard(2, 1), 1, 2
    ),
    "of a shard in batches": lambda: split(stream("uncounted", 40, 1).shard(2, 0).batch(3), 1, 2),
    "of a globally shuffled split": lambda: split(
        split(stream(total=20).shuffle(seed=1, buffer_size="global"), 0, 2).map(twice), 1, 2
    ),
}


@pytest.mark.parametrize("name", list(NESTED))
def test_going_on_in_a_split(name: str) -> None:
    assert assert_exact_resume(NESTED[name])


def test_a_position_of_a_split_of_a_shard_fits_another_number_of_nodes() -> None:
    def node(rank: int, world: int) -> IterableDataset:
        return split(stream("uncounted", 60, 1).shard(2, 1), rank, world)

    whole = [row["i"] for row in stream("uncounted", 60, 1).shard(2, 1)]
    ds = node(1, 3)
    iterator = iter(ds)
    assert [next(iterator)["i"] for _ in range(4)] == whole[1:12:3]
    state = json.loads(json.dumps(ds.state_dict()))
    for rank in range(2):
        later = node(rank, 2)
        later.load_state_dict(state)
        assert [row["i"] for row in later] == whole[12 + rank :: 2]


BALANCED: dict[str, Callable[[], IterableDataset]] = {
    "globally shuffled": lambda: stream().shuffle(seed=1, buffer_size="global"),
    "numbered, shuffled and numbered": lambda: (
        stream()
        .map(numbered, with_indices=True)
        .shuffle(seed=1, buffer_size="global")
        .map(numbered, with_indices=True)
    ),
    "in batches": lambda: stream().batch(7),
    "in whole batches": lambda: stream().batch(7, drop_last_batch=True),
    "interleaved": lambda: interleave_streams([stream(), stream(total=30)]),
    "one after another": lambda: concatenate_streams([stream().take(31), stream().take(70)]),
    "repeated": lambda: stream(total=31).repeat(2).map(twice),
    "read ahead": lambda: stream().take(50).repeat(1).prefetch(),
    "lines": lambda: stream("countable").map(twice),
    "lines shuffled": lambda: stream("countable").shuffle(seed=1, buffer_size=10),
}


@pytest.mark.parametrize("name", list(BALANCED))
@pytest.mark.parametrize("world", [3, 4])
def test_balance_where_the_number_of_rows_can_be_known(name: str, world: int) -> None:
    whole = rows_of(BALANCED[name]())
    nodes = [
        split_dataset_by_node(BALANCED[name](), rank, world, equal="balance")
        for rank in range(world)
    ]
    shares = [rows_of(node) for node in nodes]
    each = -(-len(whole) // world)
    assert [len(share) for share in shares] == [each] * world
    if name != "lines shuffled":
        starts = [max(len(whole) * (rank + 1) // world - each, 0) for rank in range(world)]
        assert shares == [whole[start : start + each] for start in starts]
    assert sorted({json.dumps(row) for row in together(shares)}) == sorted(
        {json.dumps(row) for row in whole}
    )
    if not name.startswith("lines"):
        assert [len(node) for node in nodes] == [each] * world


@pytest.mark.parametrize("name", list(BALANCED))
def test_going_on_in_a_balanced_share(name: str) -> None:
    def node() -> IterableDataset:
        made: IterableDataset = split_dataset_by_node(BALANCED[name](), 1, 3, equal="balance")
        return made

    assert_exact_resume(node, range(0, len(list(node())) + 1, 3))


def test_balance_of_json_lines_counts_them(tmp_path: Path) -> None:
    paths = []
    for at in range(2):
        paths.append(str(tmp_path / f"{at}.jsonl"))
        lines = (json.dumps({"i": at * 10 + k, "t": "x"}) for k in range(10))
        Path(paths[-1]).write_text("\n".join(lines) + "\n")
    for columns in (["i", "t"], ["i"]):
        shares = []
        for rank in range(3):
            ds = IterableDataset.from_json(paths).select_columns(columns)
            shares.append([row["i"] for row in split_dataset_by_node(ds, rank, 3, equal="balance")])
        assert [len(share) for share in shares] == [7, 7, 7]
        assert set(together(shares)) == set(range(20))


@pytest.mark.parametrize(
    "ds,who",
    [
        (stream("table").filter(not_third).map(twice), "filter does not"),
        (stream("uncounted").map(twice), "UncountedSource does not"),
    ],
    ids=["filter", "source"],
)
def test_balance_says_what_keeps_the_number_from_being_known(ds: IterableDataset, who: str) -> None:
    node = split_dataset_by_node(ds, 0, 2, equal="balance")
    assert node.num_shards == 1
    with pytest.raises(SettingsError, match=who):
        list(node)


@pytest.mark.parametrize("name", ["plain", "mapped", "shuffled", "globally shuffled", "batched"])
def test_balanced_nodes_have_as_many_rows_in_each_of_their_workers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def node(rank: int) -> IterableDataset:
        ds = stream(total=400).take(101)
        if name == "shuffled":
            ds = ds.shuffle(seed=1, buffer_size=10)
        if name == "globally shuffled":
            ds = ds.shuffle(seed=1, buffer_size="global")
        made: IterableDataset = split_dataset_by_node(ds, rank, 3, equal="balance")
        if name == "batched":
            return made.batch(5).unbatch()
        return made.map(twice) if name == "mapped" else made

    for workers in (2, 3):
        counts, found = [], []
        for rank in range(3):
            for index in range(workers):
                monkeypatch.setattr(passing, "worker", lambda at=(index, workers): at)
                found.append([row["i"] for row in node(rank)])
                counts.append(len(found[-1]))
        assert counts[:workers] * 3 == counts
        assert sum(counts) == 3 * 34
        assert len(set(together(found))) == 101


def test_contiguous_shards_of_an_uneven_number() -> None:
    def shards(contiguous: bool) -> list[list[int]]:
        return [
            sorted({row["i"] // 10 for row in stream(total=60, shards=6).shard(4, at, contiguous)})
            for at in range(4)
        ]

    assert shards(True) == [[0, 1], [2, 3], [4], [5]]
    assert shards(False) == [[0, 4], [1, 5], [2], [3]]


def test_contiguous_shards_are_those_of_datasets() -> None:
    datasets = import_module("datasets")

    def rows(s: list[int]) -> Any:
        yield from ({"s": each} for each in s)

    for total in (4, 5, 7):
        theirs = datasets.IterableDataset.from_generator(rows, gen_kwargs={"s": list(range(total))})
        ours = IterableDataset.from_generator(rows, gen_kwargs={"s": list(range(total))})
        for index in range(3):
            assert list(ours.shard(3, index)) == list(theirs.shard(3, index))
