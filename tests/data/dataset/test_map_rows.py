"""Rows and batches as functions see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from provender.data import Dataset

N = 3000


@pytest.fixture
def ds() -> Dataset:
    return Dataset.from_dict({"a": list(range(N)), "text": [f"t{i}" for i in range(N)]})


def test_columns_that_are_not_used_are_not_converted(ds: Dataset) -> None:
    seen: list[int] = []

    def peek(row: Any) -> dict[str, Any]:
        seen.append(len(row._piece.lists))
        return {"n": row["a"]}

    ds.map(peek)
    assert set(seen) <= {0, 1}


def test_rows_are_dicts_in_every_respect(ds: Dataset) -> None:
    import copy
    import json
    import pickle

    plain = {"a": 3, "text": "t3"}

    def check(row: dict[str, Any]) -> dict[str, Any]:
        if row["a"] != 3:
            return {"ok": True}
        assert isinstance(row, dict)
        fresh = row.copy()
        assert list(fresh) == ["a", "text"]
        assert fresh == plain
        assert plain == fresh
        assert {**row} == plain
        assert dict(row) == plain
        assert row | {"x": 1} == {**plain, "x": 1}
        assert {"x": 1} | row == {"x": 1, **plain}
        assert json.loads(json.dumps(row)) == plain
        assert copy.deepcopy(row) == plain
        assert pickle.loads(pickle.dumps(row)) == plain
        assert row.get("zzz", 5) == 5
        assert "text" in row
        assert "zzz" not in row
        assert len(row) == 2
        assert list(row.items()) == list(plain.items())
        assert list(reversed(row)) == ["text", "a"]
        assert repr(row) == repr(plain)
        assert pa.Table.from_pydict({key: [each] for key, each in row.items()}).num_rows == 1
        fresh.setdefault("b", 1)
        assert fresh.pop("a") == 3
        assert "a" not in fresh
        with pytest.raises(KeyError):
            fresh["a"]
        with pytest.raises(KeyError):
            del fresh["a"]
        fresh.clear()
        assert not fresh
        return {"ok": (lambda **given: given == plain)(**row)}

    assert all(ds.map(check)["ok"])


def test_batches_are_dicts_for_other_libraries(ds: Dataset) -> None:
    import pandas as pd

    def check(batch: dict[str, Any]) -> dict[str, Any]:
        frame = pd.DataFrame(batch)
        table = pa.table(batch)
        assert list(frame) == table.column_names == ["a", "text"]
        return {"n": (frame["a"] * 2).tolist(), "m": table["a"], "k": frame["a"] + 1}

    made = ds.map(check, batched=True)
    assert made[7] == {"a": 7, "text": "t7", "n": 14, "m": 7, "k": 8}


def test_a_row_within_a_row(ds: Dataset) -> None:
    made = ds.map(lambda row: {"whole": row}, remove_columns=ds.column_names)
    assert made[4] == {"whole": {"a": 4, "text": "t4"}}


def test_changes_in_some_rows_only(ds: Dataset) -> None:
    def sometimes(row: dict[str, Any]) -> dict[str, Any]:
        if row["a"] % 2:
            row["text"] = "odd"
        if row["a"] == 4:
            row["new"] = 1
        return row

    made = ds.map(sometimes)
    assert made[:6] == {
        "a": [0, 1, 2, 3, 4, 5],
        "text": ["t0", "odd", "t2", "odd", "t4", "odd"],
        "new": [None, None, None, None, 1, None],
    }


def test_the_function_is_called_with_what_the_format_gives() -> None:
    ds = Dataset.from_dict({"a": [1, 2], "v": [[1.0, 2.0], [3.0, 4.0]]})
    seen: list[Any] = []
    ds.with_format("numpy").map(lambda row: seen.append(row) or {"n": row["v"].sum()})
    assert isinstance(seen[0]["v"], np.ndarray)
    ds.with_format("arrow").map(lambda table: seen.append(table) or table, batched=True)
    assert isinstance(seen[-1], pa.Table)
    ds.with_transform(lambda batch: {"n": [x * 10 for x in batch["a"]]}).map(
        lambda row: seen.append(row) or {"k": 1}
    )
    assert seen[-1] == {"n": 20}
