"""Texts in the numpy format, beside those of Hugging Face Datasets."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import provender.data as ours
from provender.data.formats import arrays

hf = import_module("datasets")

TEXTS: dict[str, Any] = {
    "texts": ["x", "yyy", "äöü", "日本"],
    "empty": ["", ""],
    "none": ["x", None, "yy"],
    "lists": [["a", "bb"], ["c", "d"]],
    "ragged": [["a", "bb"], ["c"]],
    "nulls in lists": [["a", None], ["b", "c"]],
    "deep": [[["a"], ["b"]], [["c"], ["dd"]]],
    "numbers": [1, 2],
    "lists of numbers": [[1, 2], [3, 4]],
}


def told(value: Any) -> Any:
    """A value with all types."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, [told(each) for each in value]
    if isinstance(value, dict):
        return {name: told(each) for name, each in value.items()}
    return type(value).__name__, value


@pytest.mark.parametrize("name", TEXTS)
def test_as_hugging_face_datasets_has_them(name: str) -> None:
    found = []
    for module in (hf, ours):
        ds = module.Dataset.from_dict({"s": TEXTS[name]}).with_format("numpy")
        found.append([told(ds[0]), told(ds[-1]), told(ds[:]), told(ds["s"][:]), told(list(ds)[-1])])
    assert found[0] == found[1]


def test_large_texts_too() -> None:
    features = ours.Features({"s": ours.Value("large_string")})
    ds = ours.Dataset.from_dict({"s": ["a", "bb"]}, features=features).with_format("numpy")
    assert type(ds[0]["s"]) is np.str_
    assert ds[:]["s"].dtype == np.dtype("<U2")


def test_what_a_fixed_width_cannot_hold_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = ours.Dataset.from_dict({"s": ["a\0", "b"]}).with_format("numpy")
    assert [len(each) for each in ds[:]["s"]] == [2, 1]
    assert (type(ds[0]["s"]), ds[0]["s"]) == (np.str_, "a\0")
    monkeypatch.setattr(arrays, "MOST_TEXT_BYTES", 100)
    ds = ours.Dataset.from_dict({"s": ["a" * 10, "b", "c"]}).with_format("numpy")
    assert ds[:]["s"].dtype == object
    assert type(ds[1]["s"]) is np.str_


def test_functions_may_give_them_back() -> None:
    ds = ours.Dataset.from_dict({"s": ["x", "yyy"]}).with_format("numpy")
    rows = ds.map(lambda row: {"t": row["s"], "l": [row["s"]]}).with_format(None)
    assert rows[:] == {"s": ["x", "yyy"], "t": ["x", "yyy"], "l": [["x"], ["yyy"]]}
    made = ds.map(lambda batch: {"t": np.char.upper(batch["s"])}, batched=True).with_format(None)
    assert made["t"][:] == ["X", "YYY"]
