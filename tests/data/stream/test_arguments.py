"""Arguments and properties as users of `datasets` write them; batches by column."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.data.stream.chains import twice
from tests.data.stream.exact import KINDS, assert_exact_resume, make_source, rows_of

from provender.data.errors import ColumnError
from provender.data.stream import IterableDataset, IterableDatasetDict, split_dataset_by_node

pytestmark = pytest.mark.timeout(60)


def stream(total: int = 20, shards: int = 4, kind: str = "table") -> IterableDataset:
    return IterableDataset(make_source(kind, total, shards))


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_written_into_an_open_file(kind: str) -> None:
    out = io.BytesIO()
    assert getattr(stream(), f"to_{kind}")(path_or_buf=out, batch_size=7) == 20
    out.seek(0)
    if kind == "parquet":
        found = pq.read_table(out).column("i").to_pylist()
    elif kind == "json":
        found = [json.loads(line)["i"] for line in out]
    else:
        found = [int(line.split(b",")[0]) for line in out.readlines()[1:]]
    assert found == list(range(20))


def test_no_rows_are_written_as_the_names_of_columns() -> None:
    out = io.BytesIO()
    assert stream(0).to_csv(out) == 0
    assert out.getvalue() == b'"i","t"\n'


def test_json_into_an_open_text_file() -> None:
    out = io.StringIO()
    assert stream(3).to_json(path_or_buf=out) == 3
    assert [json.loads(line)["t"] for line in out.getvalue().splitlines()] == ["r0", "r1", "r2"]


def test_what_is_told_of_where_the_rows_come_from() -> None:
    told = {
        "builder_name": "speech",
        "config_name": "small",
        "supervised_keys": ("x", "y"),
        "download_checksums": {"https://x": "ab"},
        "download_size": 3,
        "dataset_size": 4,
        "size_in_bytes": 7,
    }
    ds = IterableDataset(make_source("table", 5, 1), info=SimpleNamespace(**told)).map(twice)
    assert {name: getattr(ds, name) for name in told} == told
    assert {getattr(stream(), name) for name in told} == {None}


def test_columns_of_a_dict_of_streams() -> None:
    both: Any = IterableDatasetDict({"train": stream(), "test": stream().select_columns(["i"])})
    assert both.num_columns == {"train": 2, "test": 1}
    assert set(both.batch(by_column="i").num_columns.values()) == {1, 2}


def test_numbers_of_numpy_are_as_good() -> None:
    five: Any = np.int64(5)
    two: Any = np.int32(2)

    def chain(five: Any, two: Any) -> IterableDataset:
        ds = stream().shuffle(seed=1, buffer_size=five, max_buffer_input_shards=two)
        ds = ds.map(dict, batched=True, batch_size=five).skip(two).take(five + five)
        ds = ds.repeat(two).shard(num_shards=two, index=two - two).batch(batch_size=two)
        made: IterableDataset = split_dataset_by_node(ds, two - two, two)
        return made.prefetch(memory=five)

    first = chain(five, two)
    assert list(first) == list(chain(5, 2))
    assert first.fingerprint == chain(5, 2).fingerprint
    whole = stream().shuffle(seed=1, buffer_size="global", block_rows=two, window_rows=five + five)
    assert sorted(row["i"] for row in whole.reshard(two)) == list(range(20))


@pytest.mark.parametrize(
    "call",
    [
        lambda ds: ds.take(2.5),
        lambda ds: ds.skip("3"),
        lambda ds: ds.repeat(1.0),
        lambda ds: ds.batch(True),
        lambda ds: ds.shuffle(buffer_size=2.0),
        lambda ds: ds.shard(2.0, 0),
        lambda ds: ds.map(dict, batched=True, batch_size=2.5),
    ],
    ids=["take", "skip", "repeat", "batch", "shuffle", "shard", "map"],
)
def test_a_count_is_a_whole_number(call: Any) -> None:
    with pytest.raises(ValueError, match="is a whole number, not"):
        call(stream())


def sevens(row: dict[str, Any]) -> dict[str, Any]:
    return {"g": row["i"] // 7 % 3 or None, "h": row["i"] // 4}


def grouped(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, list[Any]]]:
    return [
        {name: [row[name] for row in group] for name in rows[0]}
        for group in ([*found] for _, found in groupby(rows, lambda r: [r[n] for n in names]))
    ]


@pytest.mark.parametrize("size", [None, 1, 3, 1000], ids=str)
@pytest.mark.parametrize("names", [["g"], ["g", "h"], ["t"]], ids="-".join)
def test_batches_of_rows_with_the_same_value(names: list[str], size: int | None) -> None:
    ds = stream(60).map(sevens)
    made = ds.batch(by_column=names if len(names) > 1 else names[0], batch_size=size)
    assert rows_of(made) == grouped(list(ds), names)


@pytest.mark.parametrize("kind", KINDS)
def test_going_on_in_batches_by_column(kind: str) -> None:
    rows = assert_exact_resume(
        lambda: stream(40, 3, kind).map(sevens).batch(by_column="g", batch_size=3)
    )
    assert sum(len(row["i"]) for row in rows) == 40
    assert_exact_resume(lambda: stream(40, 3, kind).batch(by_column="i").unbatch())


def test_batches_by_column_are_those_of_datasets() -> None:
    datasets = import_module("datasets")
    rows = [{"a": number // 4, "b": number // 6} for number in range(30)]

    def made() -> Iterator[dict[str, int]]:
        yield from rows

    theirs = datasets.Dataset.from_list(rows)
    for columns in ("a", ["a", "b"]):
        ours = IterableDataset.from_list(rows).batch(by_column=columns)
        assert list(ours) == list(theirs.batch(by_column=columns))
        assert list(IterableDataset.from_generator(made).batch(by_column=columns)) == list(ours)


def test_formats_and_features_of_batches_by_column() -> None:
    ds = stream(6).cast_column("i", make_source("table", 1, 1).features["i"])  # type: ignore[index]
    made = ds.batch(by_column="i")
    assert made.column_names == ["i", "t"]
    assert made.features == ds.batch(1).features
    assert [table.num_rows for table in made.with_format("arrow").iter(4)] == [4, 2]


@pytest.mark.parametrize(
    "arguments,error,message",
    [
        ({}, ValueError, "batch_size or by_column"),
        ({"by_column": []}, ValueError, "no column"),
        ({"by_column": "x"}, ColumnError, "x"),
        ({"by_column": "i", "drop_last_batch": True}, ValueError, "have no size"),
        ({"batch_size": 0}, ValueError, "at least 1"),
    ],
    ids=["nothing", "no column", "unknown", "drop", "size"],
)
def test_batches_that_make_no_sense(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        stream().batch(**arguments)
