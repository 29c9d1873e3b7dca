"""The same calls here and in HF Datasets give the same rows, columns and types."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from provender import data as ours

theirs = import_module("datasets")
theirs.disable_progress_bars()

N = 57
COLUMNS: dict[str, Any] = {
    "i": list(range(N)),
    "text": [f"row {each % 7} of {each}" for each in range(N)],
    "f": [each / 3 if each % 5 else None for each in range(N)],
    "label": [each % 3 for each in range(N)],
    "tokens": [[f"t{j}" for j in range(each % 4)] for each in range(N)],
    "meta": [{"a": each, "b": {"c": str(each)}} for each in range(N)],
    "flag": [each % 2 == 0 for each in range(N)],
    "day": [datetime.date(2024, 1, 1 + each % 28) for each in range(N)],
}


def make(library: Any, **kinds: Any) -> Any:
    features = library.Features(
        {
            "i": library.Value("int32"),
            "text": library.Value("string"),
            "f": library.Value("float64"),
            "label": library.ClassLabel(names=["x", "y", "z"]),
            "tokens": library.List(library.Value("string")),
            "meta": {"a": library.Value("int64"), "b": {"c": library.Value("string")}},
            "flag": library.Value("bool"),
            "day": library.Value("date32"),
        }
    )
    return library.Dataset.from_dict(COLUMNS, features=features)


def same(mine: Any, other: Any) -> None:
    """Equal in rows, in columns and their order, and in types."""
    if isinstance(other, dict):
        assert list(mine) == list(other)
        for name in other:
            same(mine[name], other[name])
        return
    assert len(mine) == len(other)
    assert mine.column_names == other.column_names
    assert mine.features.to_dict() == other.features.to_dict()
    assert mine.with_format("arrow")[:].to_pylist() == other.with_format("arrow")[:].to_pylist()
    assert mine.format["type"] == other.format["type"]
    assert sorted(mine.format["columns"]) == sorted(other.format["columns"])


def add(row: dict[str, Any]) -> dict[str, Any]:
    return {"sum": row["i"] + 1, "text": row["text"].upper()}


def change_in_place(row: dict[str, Any]) -> dict[str, Any]:
    row["i"] = row["i"] * 2
    row["tokens"].append("end")
    return row


def change_quietly(row: dict[str, Any]) -> dict[str, Any]:
    row["tokens"].append("end")
    row["i"] = 7
    return {"new": 1}


def delete(row: dict[str, Any]) -> dict[str, Any]:
    del row["meta"]
    row.pop("text")
    return row


def twice(batch: dict[str, Any]) -> dict[str, Any]:
    return {"v": [x for x in batch["i"] for _ in range(2)]}


def renamed(batch: dict[str, Any]) -> dict[str, Any]:
    return {name + "_": values for name, values in batch.items()}


def labelled(row: dict[str, Any]) -> dict[str, Any]:
    return {"label": "z" if row["i"] % 2 else "x"}


def numbered(row: dict[str, Any], at: int) -> dict[str, Any]:
    return {"at": at * 10 + row["i"]}


def two(i: int, text: str, more: int = 0) -> dict[str, Any]:
    return {"both": f"{i}{text}{more}"}


def spread(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "n": len(row)}


def copied(row: dict[str, Any]) -> dict[str, Any]:
    new = row.copy()
    new["i"] = -1
    return new


def nested(row: dict[str, Any]) -> dict[str, Any]:
    return {"out": {"a": [row["i"], None], "b": [{"c": row["f"]}]}}


def as_arrow(table: pa.Table) -> pa.Table:
    return table.append_column("twice", pa.array([each * 2 for each in table["i"].to_pylist()]))


def as_frame(frame: Any) -> Any:
    return frame.assign(twice=frame["i"] * 2)[["i", "twice"]]


def shout(batch: dict[str, Any]) -> dict[str, Any]:
    return {"text": [each + "!" for each in batch["text"]]}


Step = Callable[[Any, Any], Any]

CALLS: dict[str, Step] = {
    "map": lambda ds, lib: ds.map(add),
    "map nothing": lambda ds, lib: ds.map(lambda row: None),
    "map without a function": lambda ds, lib: ds.map(),
    "map in place": lambda ds, lib: ds.map(change_in_place),
    "map in place, other columns returned": lambda ds, lib: ds.map(change_quietly),
    "map deletes": lambda ds, lib: ds.map(delete),
    "map removes": lambda ds, lib: ds.map(add, remove_columns=["text", "meta"]),
    "map removes what it returns": lambda ds, lib: ds.map(add, remove_columns="text"),
    "map removes, row returned": lambda ds, lib: ds.map(change_in_place, remove_columns=["i"]),
    "map batched": lambda ds, lib: ds.map(shout, batched=True, batch_size=10),
    "map batched in place": lambda ds, lib: ds.map(
        lambda batch: batch["tokens"][0].append("more") or {"q": batch["i"]}, batched=True
    ),
    "map grows": lambda ds, lib: ds.map(
        twice, batched=True, batch_size=10, remove_columns=ds.column_names
    ),
    "map shrinks": lambda ds, lib: ds.map(
        lambda batch: {"v": batch["i"][:1]},
        batched=True,
        batch_size=10,
        remove_columns=ds.column_names,
    ),
    "map drops the last batch": lambda ds, lib: ds.map(
        shout, batched=True, batch_size=10, drop_last_batch=True
    ),
    "map one batch": lambda ds, lib: ds.map(renamed, batched=True, batch_size=None),
    "map keeps labels": lambda ds, lib: ds.map(labelled),
    "map with indices": lambda ds, lib: ds.map(numbered, with_indices=True),
    "map with rank": lambda ds, lib: ds.map(lambda row, rank: {"rank": rank or 0}, with_rank=True),
    "map batched with indices": lambda ds, lib: ds.map(
        lambda batch, at: {"at": at}, with_indices=True, batched=True, batch_size=7
    ),
    "map input columns": lambda ds, lib: ds.map(
        two, input_columns=["i", "text"], fn_kwargs={"more": 3}
    ),
    "map one input column": lambda ds, lib: ds.map(
        lambda text: {"n": len(text)}, input_columns="text", remove_columns="text"
    ),
    "map spreads": lambda ds, lib: ds.map(spread),
    "map copies": lambda ds, lib: ds.map(copied),
    "map nested": lambda ds, lib: ds.map(nested),
    "map with features": lambda ds, lib: ds.select_columns(["i"]).map(
        lambda row: {"x": row["i"] % 2},
        remove_columns=["i"],
        features=lib.Features({"x": lib.ClassLabel(names=["even", "odd"])}),
    ),
    "map numpy format": lambda ds, lib: (
        ds.select_columns(["i", "f", "tokens"])
        .with_format("numpy")
        .map(lambda row: {"half": row["i"] / 2})
    ),
    "map numpy batched": lambda ds, lib: (
        ds.select_columns(["i", "label"])
        .with_format("numpy")
        .map(lambda batch: {"sum": batch["i"] + batch["label"]}, batched=True, batch_size=10)
    ),
    "map arrow format": lambda ds, lib: ds.with_format("arrow").map(
        as_arrow, batched=True, batch_size=10
    ),
    "map pandas format": lambda ds, lib: (
        ds.select_columns(["i", "text"])
        .with_format("pandas")
        .map(as_frame, batched=True, batch_size=10)
    ),
    "map returns a table": lambda ds, lib: ds.map(
        lambda batch: pa.table({"k": batch["i"]}), batched=True, batch_size=10
    ),
    "map after shuffle": lambda ds, lib: ds.shuffle(seed=3).map(add),
    "map with a format's columns": lambda ds, lib: ds.with_format(
        "numpy", columns=["i", "label"]
    ).map(lambda row: {"n": len(row)}),
    "filter": lambda ds, lib: ds.filter(lambda row: row["i"] % 3 == 1),
    "filter batched": lambda ds, lib: ds.filter(
        lambda batch: [each > 20 for each in batch["i"]], batched=True, batch_size=9
    ),
    "filter nothing left": lambda ds, lib: ds.filter(lambda row: False),
    "filter columns": lambda ds, lib: ds.filter(lambda i: i > 50, input_columns="i"),
    "filter with indices": lambda ds, lib: ds.filter(
        lambda row, at: at % 10 == 0, with_indices=True
    ),
    "filter twice": lambda ds, lib: (
        ds.shuffle(seed=1).filter(lambda row: row["i"] > 9).filter(lambda row: row["flag"])
    ),
    "filter arrow": lambda ds, lib: ds.with_format("arrow").filter(
        lambda table: __import__("pyarrow.compute").compute.greater(table["i"], 30), batched=True
    ),
    "shuffle": lambda ds, lib: ds.shuffle(seed=42),
    "shuffle twice": lambda ds, lib: ds.shuffle(seed=42).shuffle(seed=7),
    "shuffle by a generator": lambda ds, lib: ds.shuffle(generator=np.random.default_rng(5)),
    "select": lambda ds, lib: ds.select([5, 3, 3, 40]),
    "select a range": lambda ds, lib: ds.select(range(10, 20)),
    "select an array": lambda ds, lib: ds.select(np.arange(0, 50, 7)),
    "select of select": lambda ds, lib: ds.select([9, 8, 7, 6]).select([3, 0]),
    "select nothing": lambda ds, lib: ds.select([]),
    "select by an iterator": lambda ds, lib: ds.select(iter([1, 2, 4])),
    "take": lambda ds, lib: ds.take(5),
    "skip": lambda ds, lib: ds.skip(50),
    "repeat": lambda ds, lib: ds.take(3).repeat(3),
    "shard": lambda ds, lib: ds.shard(5, 3),
    "shard, not contiguous": lambda ds, lib: ds.shard(5, 3, contiguous=False),
    "sort": lambda ds, lib: ds.sort("text"),
    "sort by two": lambda ds, lib: ds.sort(["label", "i"], reverse=[True, False]),
    "sort nulls first": lambda ds, lib: ds.sort("f", null_placement="first"),
    "sort nulls last, downwards": lambda ds, lib: ds.sort("f", reverse=True),
    "sort after shuffle": lambda ds, lib: ds.shuffle(seed=2).sort("label"),
    "split": lambda ds, lib: ds.train_test_split(test_size=0.2, seed=1),
    "split by numbers": lambda ds, lib: ds.train_test_split(test_size=9, train_size=20, seed=1),
    "split in order": lambda ds, lib: ds.train_test_split(test_size=0.25, shuffle=False),
    "split by default": lambda ds, lib: ds.train_test_split(seed=8),
    "split stratified": lambda ds, lib: ds.train_test_split(
        test_size=0.3, stratify_by_column="label", seed=4
    ),
    "split stratified, uneven": lambda ds, lib: ds.filter(
        lambda row: row["label"] or row["i"] > 40
    ).train_test_split(test_size=11, train_size=17, stratify_by_column="label", seed=4),
    "rename": lambda ds, lib: ds.rename_column("i", "number"),
    "rename several": lambda ds, lib: ds.rename_columns({"i": "text", "text": "i"}),
    "rename under a format": lambda ds, lib: ds.with_format("numpy", columns=["i"]).rename_column(
        "i", "k"
    ),
    "remove": lambda ds, lib: ds.remove_columns(["meta", "i"]),
    "remove one": lambda ds, lib: ds.remove_columns("meta"),
    "select columns": lambda ds, lib: ds.select_columns(["text", "i"]),
    "cast": lambda ds, lib: ds.select_columns(["i", "flag"]).cast(
        lib.Features({"i": lib.Value("string"), "flag": lib.Value("int8")})
    ),
    "cast column": lambda ds, lib: ds.cast_column("i", lib.Value("float32")),
    "cast to labels": lambda ds, lib: (
        ds.select_columns(["label"])
        .cast_column("label", lib.Value("int64"))
        .cast_column("label", lib.ClassLabel(names=["p", "q", "r"]))
    ),
    "cast after select": lambda ds, lib: ds.select([3, 1]).cast_column("i", lib.Value("int64")),
    "add column": lambda ds, lib: ds.add_column("more", list(range(N))),
    "add column to a shuffled one": lambda ds, lib: ds.shuffle(seed=1).add_column(
        "more", np.arange(N)
    ),
    "add column with a feature": lambda ds, lib: ds.add_column(
        "more", [0] * N, feature=lib.Value("int8")
    ),
    "add item": lambda ds, lib: ds.select_columns(["i", "text"]).add_item({"i": 9, "text": "new"}),
    "add item after select": lambda ds, lib: (
        ds.select_columns(["i", "text"]).select([3, 2]).add_item({"i": 9, "text": "new"})
    ),
    "flatten": lambda ds, lib: ds.flatten(),
    "class encode texts": lambda ds, lib: ds.class_encode_column("text"),
    "class encode bools": lambda ds, lib: ds.class_encode_column("flag"),
    "class encode with nulls": lambda ds, lib: ds.class_encode_column("f", include_nulls=True),
    "class encode without nulls": lambda ds, lib: ds.class_encode_column("f"),
    "class encode after select": lambda ds, lib: ds.select([4, 5, 6]).class_encode_column("text"),
    "align labels": lambda ds, lib: ds.align_labels_with_mapping({"X": 2, "Y": 0, "z": 1}, "label"),
    "flatten indices": lambda ds, lib: ds.shuffle(seed=9).flatten_indices(),
    "concatenate": lambda ds, lib: lib.concatenate_datasets([ds, ds.select([1, 0])]),
    "concatenate, columns missing": lambda ds, lib: lib.concatenate_datasets(
        [ds.select_columns(["i", "text"]), ds.select_columns(["i", "f"])]
    ),
    "concatenate shuffled": lambda ds, lib: lib.concatenate_datasets(
        [ds.shuffle(seed=1), ds.shuffle(seed=2)]
    ),
    "concatenate beside": lambda ds, lib: lib.concatenate_datasets(
        [ds.select_columns("i"), ds.shuffle(seed=1).select_columns("text")], axis=1
    ),
    "concatenate empty": lambda ds, lib: lib.concatenate_datasets([ds.select([]), ds.take(2)]),
    "interleave": lambda ds, lib: lib.interleave_datasets([ds.take(3), ds.skip(50), ds.skip(53)]),
    "interleave all": lambda ds, lib: lib.interleave_datasets(
        [ds.take(3), ds.skip(50)], stopping_strategy="all_exhausted"
    ),
    "interleave all once": lambda ds, lib: lib.interleave_datasets(
        [ds.take(3), ds.skip(50)], stopping_strategy="all_exhausted_without_replacement"
    ),
    "interleave drawn": lambda ds, lib: lib.interleave_datasets(
        [ds.take(30), ds.skip(40)], probabilities=[0.7, 0.3], seed=5
    ),
    "interleave drawn, all": lambda ds, lib: lib.interleave_datasets(
        [ds.take(30), ds.skip(40)],
        probabilities=[0.7, 0.3],
        seed=5,
        stopping_strategy="all_exhausted",
    ),
    "interleave drawn, all once": lambda ds, lib: lib.interleave_datasets(
        [ds.take(30), ds.skip(40)],
        probabilities=[0.7, 0.3],
        seed=5,
        stopping_strategy="all_exhausted_without_replacement",
    ),
    "batch": lambda ds, lib: ds.select_columns(["i", "tokens"]).batch(10),
    "batch, last dropped": lambda ds, lib: ds.select_columns(["i"]).batch(10, drop_last_batch=True),
    "format kept by map": lambda ds, lib: ds.with_format("numpy", columns=["i"]).map(
        lambda row: {"new": 1}
    ),
    "format kept by removal": lambda ds, lib: ds.with_format(
        "numpy", columns=["i", "f"]
    ).remove_columns("f"),
}


@pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")
@pytest.mark.parametrize("name", list(CALLS))
def test_transform(name: str) -> None:
    same(CALLS[name](make(ours), ours), CALLS[name](make(theirs), theirs))


READS: dict[str, Callable[[Any], Any]] = {
    "row": lambda ds: ds[3],
    "last row": lambda ds: ds[-1],
    "numpy integer": lambda ds: ds[np.int64(4)],
    "slice": lambda ds: ds[2:5],
    "slice with a step": lambda ds: ds[20:2:-5],
    "empty slice": lambda ds: ds[5:5],
    "list": lambda ds: ds[[1, 5, 1]],
    "range": lambda ds: ds[range(4)],
    "array": lambda ds: ds[np.array([2, 3])],
    "column": lambda ds: list(ds["text"]),
    "column part": lambda ds: ds["i"][3:6],
    "column row": lambda ds: ds["i"][-2],
    "nested column": lambda ds: list(ds["meta"]["b"]["c"]),
    "nested column row": lambda ds: ds["meta"]["a"][4],
    "column repr": lambda ds: repr(ds["i"]),
    "rows": lambda ds: list(ds),
    "shuffled rows": lambda ds: list(ds.shuffle(seed=3)),
    "batches": lambda ds: list(ds.iter(20)),
    "batches, last dropped": lambda ds: list(ds.iter(20, drop_last_batch=True)),
    "batches of a shuffled one": lambda ds: list(ds.shuffle(seed=3).iter(25)),
    "unique": lambda ds: ds.unique("label"),
    "unique of a selection": lambda ds: ds.select([8, 4, 8]).unique("i"),
    "to_dict": lambda ds: ds.to_dict(),
    "to_list": lambda ds: ds.to_list(),
    "to_list of a selection": lambda ds: ds.select([3, 1]).to_list(),
    "to_pandas": lambda ds: ds.select_columns(["i", "text", "f"]).to_pandas().to_dict("list")["i"],
    "len": len,
    "shape": lambda ds: (ds.shape, ds.num_rows, ds.num_columns),
    "repr": repr,
    "format": lambda ds: ds.with_format("numpy", columns=["i"]).format,
    "transform": lambda ds: ds.with_transform(lambda b: {"n": [len(t) for t in b["text"]]})[:3],
    "transform of a row": lambda ds: ds.with_transform(
        lambda b: {"n": [len(t) for t in b["text"]]}, columns=["text"]
    )[7],
    "other columns too": lambda ds: sorted(
        ds.with_format("numpy", columns=["i"], output_all_columns=True)[3]
    ),
    "getitems": lambda ds: ds.select_columns(["i", "text"]).__getitems__([3, 4]),
}


@pytest.mark.parametrize("name", list(READS))
def test_read(name: str) -> None:
    assert READS[name](make(ours)) == READS[name](make(theirs))


@pytest.mark.parametrize("kind", ["numpy", "arrow", "pandas"])
@pytest.mark.parametrize(
    "key", [3, slice(2, 6), [1, 4], "i"], ids=["row", "slice", "list", "column"]
)
def test_format(kind: str, key: Any) -> None:
    columns = ["i", "f", "label", *(["text"] if kind != "numpy" else [])]
    mine = make(ours).select_columns(columns).with_format(kind)[key]
    other = make(theirs).select_columns(columns).with_format(kind)[key]
    if kind == "arrow":
        assert mine.to_pylist() == other.to_pylist()
    elif kind == "pandas":
        assert mine.equals(other)
    elif isinstance(other, dict):
        assert {name: repr(each) for name, each in mine.items()} == {
            name: repr(each) for name, each in other.items()
        }
    else:
        assert repr(mine[:]) == repr(other[:])


def test_seedless_shuffle_follows_numpys_global_state() -> None:
    orders = []
    for library in (ours, theirs):
        np.random.seed(11)
        first = make(library).shuffle()["i"][:]
        second = make(library).shuffle()["i"][:]
        split = make(library).train_test_split()["test"]["i"][:]
        orders.append((first, second, split))
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]


def test_folders_are_read_by_either(tmp_path: Any) -> None:
    make(ours).with_format("numpy", columns=["i"]).save_to_disk(tmp_path / "ours", num_shards=3)
    same(ours.load_from_disk(tmp_path / "ours"), theirs.load_from_disk(str(tmp_path / "ours")))
    make(theirs).with_format("numpy").save_to_disk(str(tmp_path / "theirs"), num_shards=2)
    same(ours.load_from_disk(tmp_path / "theirs"), theirs.load_from_disk(str(tmp_path / "theirs")))
    splits = make(ours).train_test_split(0.5, seed=0)
    splits.save_to_disk(tmp_path / "dict")
    same(ours.load_from_disk(tmp_path / "dict"), theirs.load_from_disk(str(tmp_path / "dict")))


def test_files_hold_the_same(tmp_path: Any) -> None:
    mine, other = make(ours), make(theirs)
    plain = ["i", "text", "f", "flag"]
    for library, ds in (("ours", mine), ("theirs", other)):
        ds.to_parquet(str(tmp_path / f"{library}.parquet"))
        ds.select_columns(plain).to_csv(str(tmp_path / f"{library}.csv"))
        ds.select_columns([*plain, "meta"]).to_json(str(tmp_path / f"{library}.jsonl"))
    assert (tmp_path / "ours.csv").read_text() == (tmp_path / "theirs.csv").read_text()
    from pyarrow import json as pj
    from pyarrow import parquet as pq

    assert pq.read_table(tmp_path / "ours.parquet").equals(
        pq.read_table(tmp_path / "theirs.parquet")
    )
    mine_rows = pj.read_json(tmp_path / "ours.jsonl").to_pylist()
    assert mine_rows == mine.select_columns([*plain, "meta"]).to_list()
