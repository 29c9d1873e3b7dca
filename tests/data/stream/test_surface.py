"""The rest of what a stream offers: constructors, outputs, dicts of streams, copies."""

from __future__ import annotations

import asyncio
import json
import pickle
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.stream.chains import not_third, twice
from tests.data.stream.exact import make_source, rows_of

import provender
from provender.data.errors import ColumnError, TransformError
from provender.data.features import ClassLabel, Features, Image, List, Value
from provender.data.sources.base import Source
from provender.data.stream import IterableDataset, IterableDatasetDict
from provender.data.stream.leaf import Leaf
from provender.errors import SettingsError

pytestmark = pytest.mark.timeout(60)


def stream(total: int = 20, shards: int = 4) -> IterableDataset:
    return IterableDataset(make_source("table", total, shards))


def test_the_public_names() -> None:
    assert provender.data.IterableDataset is IterableDataset
    assert provender.data.IterableDatasetDict is IterableDatasetDict
    assert provender.data.split_dataset_by_node is not None


def test_a_table_is_split_by_ranges() -> None:
    table = provender.data.Dataset.from_dict({"i": list(range(10))})
    shares = [provender.data.split_dataset_by_node(table, rank, 3)["i"] for rank in range(3)]
    assert [list(share) for share in shares] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    with pytest.raises(SettingsError, match="are for streams"):
        provender.data.split_dataset_by_node(table, 0, 3, equal="drop")
    streamed = table.to_iterable_dataset(num_shards=2)
    assert [row["i"] for row in streamed.skip(7)] == [7, 8, 9]


def test_constructors() -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert list(IterableDataset.from_list(rows)) == rows
    assert list(IterableDataset.from_dict({"a": [1, 2], "b": ["x", "y"]})) == rows
    pd = import_module("pandas")
    assert list(IterableDataset.from_pandas(pd.DataFrame(rows))) == rows
    named = Features({"a": Value("int32"), "b": ClassLabel(names=["x", "y"])})
    typed = IterableDataset.from_list(rows, features=named)
    assert typed.features == named
    assert [row["b"] for row in typed] == [0, 1]
    assert typed.rename_column("b", "c").features["c"] == named["b"]  # type: ignore[index]


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_written_and_read_again(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"rows.{kind}")
    ds = stream().filter(not_third)
    assert getattr(ds, f"to_{kind}")(path) == 13
    again = getattr(IterableDataset, f"from_{kind}")(path)
    assert list(again) == list(ds)


def test_an_arrow_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    table = stream().to_arrow()
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    assert list(IterableDataset.from_file(str(path))) == list(stream())


def test_what_is_known_of_a_dataset() -> None:
    info = SimpleNamespace(description="Rows.", license="CC0", version="1.0.0")
    ds = IterableDataset(make_source("table", 5, 1), info=info, split="train").map(twice)
    assert (ds.description, ds.license, ds.version, ds.split) == ("Rows.", "CC0", "1.0.0", "train")
    assert stream().citation is None


def test_outputs() -> None:
    ds = stream(5)
    assert ds.to_list() == list(ds)
    assert ds.to_dict() == {"i": [0, 1, 2, 3, 4], "t": ["r0", "r1", "r2", "r3", "r4"]}
    assert [len(batch["i"]) for batch in ds.to_dict(2, batched=True)] == [2, 2, 1]
    assert ds.to_pandas()["i"].tolist() == [0, 1, 2, 3, 4]
    assert ds.to_arrow().schema.names == ["i", "t"]
    assert stream(0).to_arrow().schema.names == ["i", "t"]
    assert ds._head(2) == {"i": [0, 1], "t": ["r0", "r1"]}
    nested = ds.map(lambda row: {"n": {"x": row["i"]}})
    assert list(nested["n"]["x"]) == [0, 1, 2, 3, 4]


def test_a_dict_of_streams() -> None:
    both = IterableDatasetDict({"train": stream(), "test": stream(5, 1)})
    changed = both.map(twice).shuffle(seed=1).take(3)
    assert isinstance(changed, IterableDatasetDict)
    assert {split: len(list(ds)) for split, ds in changed.items()} == {"train": 3, "test": 3}
    assert both.num_shards == {"train": 4, "test": 1}
    assert both.column_names == {"train": ["i", "t"], "test": ["i", "t"]}
    changed.set_epoch(2)
    assert changed["test"].epoch == 2
    iterator = iter(both["train"])
    next(iterator)
    fresh = IterableDatasetDict({"train": stream(), "test": stream(5, 1)})
    fresh.load_state_dict(json.loads(json.dumps(both.state_dict())))
    assert len(list(fresh["train"])) == 19
    assert "test: IterableDataset" in repr(both)
    assert (
        repr(both["test"]).split()
        == "IterableDataset({ features: ['i', 't'], num_shards: 1 })".split()
    )


def test_nothing_is_read_before_somebody_iterates() -> None:
    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("read too early")

    source: Source = make_source("uncounted", 20, 4)
    source.read = forbidden  # type: ignore[method-assign]
    ds = IterableDataset(source).map(twice).filter(not_third).shuffle(seed=1).batch(3)
    assert ds.num_shards == 4
    assert repr(ds)
    ds.state_dict()
    with pytest.raises(AssertionError, match="too early"):
        next(iter(ds))


def test_copies_travel_by_pickle() -> None:
    ds = stream().map(twice).shuffle(buffer_size=5).filter(not_third)
    rows = list(ds)
    copy = pickle.loads(pickle.dumps(ds))
    assert list(copy) == rows
    copy.load_state_dict(ds.state_dict())
    waiting = stream().map(twice)
    next(iter(waiting))
    fresh = stream().map(twice)
    fresh.load_state_dict(waiting.state_dict())
    assert list(pickle.loads(pickle.dumps(fresh))) == list(stream().map(twice))[1:]


def test_async_functions_run_side_by_side() -> None:
    most = running = 0

    async def slow(row: dict[str, Any]) -> dict[str, Any]:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return {"i": row["i"] + 1}

    assert [row["i"] for row in stream(300).map(slow)] == list(range(1, 301))
    assert most > 10

    async def whole(batch: dict[str, list[Any]]) -> dict[str, Any]:
        return {"n": [len(batch["i"])] * len(batch["i"])}

    assert [row["n"] for row in stream(5).map(whole, batched=True, batch_size=2)] == [2, 2, 2, 2, 1]


def test_async_filters_are_waited_for() -> None:
    async def small(row: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        return row["i"] < 7

    async def smalls(batch: dict[str, list[Any]]) -> list[bool]:
        await asyncio.sleep(0)
        return [value < 7 for value in batch["i"]]

    class Small:
        async def __call__(self, row: dict[str, Any]) -> bool:
            return row["i"] < 7

    async def numbered(row: dict[str, Any], index: int) -> bool:
        return index < 7

    ds = stream(3000)
    for kept in (
        ds.filter(small),
        ds.filter(smalls, batched=True),
        ds.filter(Small()),
        ds.filter(lambda row: small(row)),
        ds.filter(numbered, with_indices=True),
    ):
        assert [row["i"] for row in kept] == list(range(7))


@pytest.mark.parametrize("name", ["map", "filter"])
def test_rows_before_an_error_of_an_async_function_are_given(name: str) -> None:
    async def broken(row: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"x": 1 / (row["i"] - 42)}

    rows: list[Any] = []
    with pytest.raises(ZeroDivisionError) as caught:
        rows.extend(getattr(stream(3000), name)(broken))
    assert len(rows) == 42
    assert "called for row 42 of this pass" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("batched", [False, True], ids=["rows", "batches"])
def test_map_with_features_gives_those_columns(batched: bool) -> None:
    features = Features({"i": Value("int32"), "new": Value("string")})

    def mapped(ds: IterableDataset, function: Any, **options: Any) -> IterableDataset:
        return ds.map(function, batched=batched, features=features, **options)

    made = mapped(stream(3), lambda given: {}, remove_columns="t")
    assert list(made) == [{"i": number, "new": None} for number in range(3)]
    assert made.features == features
    for wrong in (
        mapped(stream(3), lambda given: {"news": given["i"]}, remove_columns="t"),
        mapped(stream(3), lambda given: {}),
    ):
        with pytest.raises(ColumnError, match="features= does not name"):
            list(wrong)


def test_tables_with_features_are_those_columns() -> None:
    features = Features({"i": Value("int32"), "new": Value("string")})
    table = (
        stream(3)
        .with_format("arrow")
        .map(lambda table: table.drop(["t"]), batched=True, features=features)
    )
    assert list(table.with_format(None)) == [{"i": n, "new": None} for n in range(3)]


def test_functions_see_the_format_that_was_set_before_them() -> None:
    seen: list[Any] = []
    ds = stream(3).with_format("numpy").map(lambda row: seen.append(type(row["i"])) or {})
    list(ds)
    assert seen == [np.int64] * 3
    tables = (
        stream(6)
        .with_format("arrow")
        .map(
            lambda table: table.append_column("n", pa.array([1] * table.num_rows)),
            batched=True,
            batch_size=4,
        )
    )
    assert [row["n"] for row in tables.with_format(None)] == [1] * 6
    frames = (
        stream(6)
        .with_format("pandas")
        .map(lambda frame: frame.assign(n=frame["i"] + 1), batched=True)
    )
    assert [row["n"] for row in frames.with_format(None)] == list(range(1, 7))
    with pytest.raises(TransformError, match="batched=True"):
        list(stream(6).with_format("arrow").map(lambda table: table))


def test_columns_that_are_not_wanted_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]}), path)
    ds = IterableDataset.from_parquet(str(path))
    for chain in (
        ds.select_columns(["c", "a"]),
        ds.shuffle(seed=1).remove_columns("b").take(5),
        ds.take(1).select_columns("a"),
    ):
        node = chain._plan
        while node.children:
            node = node.children[0]
        assert isinstance(node, Leaf)
        assert "b" not in (node.features() or {})
    assert rows_of(ds.select_columns(["c", "a"])) == [{"c": 0.5, "a": 1}, {"c": 1.5, "a": 2}]


def test_features_of_a_row_that_fits_no_table() -> None:
    class Odd:
        pass

    ds = stream().map(lambda row: {"o": Odd()})
    assert ds.features is None
    assert isinstance(next(iter(ds))["o"], Odd)
    assert ds._resolve_features() is ds


def test_images_decoded_or_left_as_they_are() -> None:
    image = import_module("PIL.Image")
    picture = image.new("RGB", (2, 3), (1, 2, 3))
    features = Features({"p": Image(), "l": List(Image())})
    ds = IterableDataset.from_list([{"p": picture, "l": [picture]}], features=features)
    assert next(iter(ds))["p"].size == (2, 3)
    raw = next(iter(ds.decode(False)))
    assert set(raw["p"]) == set(raw["l"][0]) == {"bytes", "path"}
    assert ds.decode(False).features["p"] == Image(decode=False)  # type: ignore[index]
    again = next(iter(ds.decode(False).shuffle(seed=1).decode()))
    assert again["p"].getpixel((0, 0)) == again["l"][0].getpixel((1, 2)) == (1, 2, 3)


def test_shards_are_asked_for_their_rows_only_where_it_matters() -> None:
    asked: list[int] = []

    def source() -> Source:
        made = make_source("counted", 100, 5)
        known = made.shard_rows

        def note(shard: int) -> int | None:
            asked.append(shard)
            return known(shard)

        made.shard_rows = note  # type: ignore[method-assign]
        return made

    ds = IterableDataset(source())
    repr(ds)
    next(iter(ds.map(twice).shuffle(seed=1)))
    assert ds.num_shards == 5
    assert asked == []
    assert len(list(ds.take(3))) == 3
    assert asked == [0]
    asked.clear()
    first = next(iter(IterableDataset(source()).skip(20)))
    assert (first["i"], asked) == (20, [0, 1, 2])
    asked.clear()
    assert len(IterableDataset(source())) == 100
    assert sorted(asked) == [0, 1, 2, 3, 4]
