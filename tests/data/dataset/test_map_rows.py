"""Rows and batches as functions see them."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from provender.data import Dataset, Features
from provender.data.errors import TransformError
from provender.fingerprint import Hasher

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


def test_rows_have_all_that_dicts_have(ds: Dataset) -> None:
    import copy
    import json
    import pickle

    plain = {"a": 3, "text": "t3"}

    def check(row: dict[str, Any]) -> dict[str, Any]:
        if row["a"] != 3:
            return {"ok": True}
        assert isinstance(row, MutableMapping)
        assert not isinstance(row, dict)
        fresh = row.copy()
        assert list(fresh) == ["a", "text"]
        assert fresh == plain
        assert plain == fresh
        assert {**row} == plain
        assert dict(row) == plain
        assert row | {"x": 1} == {**plain, "x": 1}
        assert {"x": 1} | row == {"x": 1, **plain}
        assert json.loads(json.dumps(dict(row))) == plain
        assert row.copy() | row == plain
        assert copy.copy(row) == row
        merged = {"a": 0, "x": 1}
        merged |= row
        assert merged == {**plain, "x": 1}
        match row:
            case {"a": 3, **rest}:
                assert rest == {"text": "t3"}
            case _:
                pytest.fail("a row is a mapping to match as well")
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


def test_batches_are_mappings_for_other_libraries(ds: Dataset) -> None:
    import pandas as pd

    def check(batch: dict[str, Any]) -> dict[str, Any]:
        with pytest.raises(TypeError, match="dict"):
            pd.DataFrame(batch)
        frame = pd.DataFrame(dict(batch))
        assert pd.DataFrame([batch]).columns.to_list() == ["a", "text"]
        table = pa.table(dict(batch))
        assert list(frame) == table.column_names == ["a", "text"]
        return {"n": (frame["a"] * 2).tolist(), "m": table["a"], "k": frame["a"] + 1}

    made = ds.map(check, batched=True)
    assert made[7] == {"a": 7, "text": "t7", "n": 14, "m": 7, "k": 8}


def test_a_row_within_a_row(ds: Dataset) -> None:
    made = ds.map(lambda row: {"whole": row}, remove_columns=ds.column_names)
    assert made[4] == {"whole": {"a": 4, "text": "t4"}}


def _whole(row: Any) -> Any:
    return {"a": row["a"], "text": row["text"]}


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        pytest.param(lambda row: [row], lambda row: [_whole(row)], id="list"),
        pytest.param(lambda row: (row,), lambda row: [_whole(row)], id="tuple"),
        pytest.param(lambda row: {"k": row}, lambda row: {"k": _whole(row)}, id="dict"),
        pytest.param(lambda row: [[None, row]], lambda row: [[None, _whole(row)]], id="deep"),
        pytest.param(lambda row: [row["a"], [row]][1], lambda row: [_whole(row)], id="one read"),
    ],
)
@pytest.mark.parametrize("given", [False, True], ids=["found", "given"])
def test_a_row_anywhere_within_what_is_returned(
    ds: Dataset, function: Callable[[Any], Any], wanted: Callable[[Any], Any], given: bool
) -> None:
    features = None
    if given:
        shown = Dataset.from_list([{"z": wanted({"a": 1, "text": "t"})}])
        features = Features({**ds.features, **shown.features})
    made = ds.map(lambda row: {"z": function(row)}, features=features)
    for at in (0, 1234, N - 1):
        assert made[at] == {**ds[at], "z": wanted(ds[at])}


def test_batches_within_what_is_returned(ds: Dataset) -> None:
    made = ds.select(range(20)).map(
        lambda batch: {"z": [batch] * len(batch["a"])}, batched=True, batch_size=10
    )
    assert made[13]["z"] == {"a": list(range(10, 20)), "text": [f"t{i}" for i in range(10, 20)]}


def test_code_in_c_does_not_look_past_a_row(ds: Dataset) -> None:
    """What takes nothing but dicts says so, rather than find an empty one."""
    import json

    few = ds.select(range(3))
    with pytest.raises(TransformError, match="TypeError"):
        few.map(lambda row: {"z": json.dumps(row)})
    with pytest.raises(TransformError, match="TypeError"):
        few.map(lambda row: {"z": dict.copy(row)["a"]})
    with pytest.raises(TransformError, match="TypeError"):
        few.map(lambda row: {"z": len(list(dict.items(row)))})
    made = few.map(lambda row: {"z": json.dumps(dict(row))})
    assert json.loads(made[2]["z"]) == {"a": 2, "text": "t2"}


def test_a_row_has_the_fingerprint_of_its_dict(ds: Dataset) -> None:
    def digests(row: Any) -> dict[str, Any]:
        if row["a"] == 1:
            del row["text"]
            row["new"] = [1]
        nested = Hasher.hash([row]) == Hasher.hash([dict(row)])
        return {"same": Hasher.hash(row) == Hasher.hash(dict(row)) and nested, "text": "x"}

    assert ds.select(range(3)).map(digests)["same"][:] == [True] * 3


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
