"""Tensor formats beside those of Hugging Face Datasets, for the libraries that are installed."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import provender.data.features as ours
from provender.data.errors import FormatError
from provender.data.formats import formatter

hf = import_module("datasets")


def needs(name: str) -> Any:
    return pytest.param(
        name,
        marks=pytest.mark.skipif(
            importlib.util.find_spec(name) is None, reason=f"{name} is not installed"
        ),
    )


FORMATS = [needs("tensorflow"), needs("torch"), needs("jax")]


def drawn() -> Any:
    from PIL import Image

    return Image.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3))


TABLES: dict[str, Any] = {
    "numbers": lambda m: ({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]}, None),
    "small": lambda m: (
        {"a": [1, 2], "b": [0.5, 1.5], "c": [3, 4]},
        {"a": m.Value("uint8"), "b": m.Value("float32"), "c": m.Value("uint16")},
    ),
    "texts": lambda m: ({"a": ["x", "yyy"], "b": [1, 2]}, None),
    "lists": lambda m: ({"a": [[1, 2], [3, 4]], "b": [[1.5], [2.5]]}, None),
    "ragged": lambda m: ({"a": [[1, 2], [3]]}, None),
    "tensors": lambda m: (
        {"a": np.arange(12).reshape(2, 2, 3).tolist()},
        {"a": m.Array2D((2, 3), "int64")},
    ),
    "labels": lambda m: ({"a": [0, 1]}, {"a": m.ClassLabel(names=["x", "y"])}),
    "dicts": lambda m: ({"a": [{"x": 0.5}, {"x": 1.5}]}, None),
    "images": lambda m: (
        {"a": [np.zeros((2, 2, 3), np.uint8), np.ones((2, 2, 3), np.uint8)]},
        {"a": m.Image()},
    ),
    "gray": lambda m: ({"a": [np.zeros((2, 3), np.uint8)] * 2}, {"a": m.Image()}),
    "films": lambda m: (
        {"a": [[drawn()] * 2] * 2},
        {"a": m.List(m.Image())},
    ),
    "sizes": lambda m: (
        {"a": [np.zeros((2, 2, 3), np.uint8), np.ones((3, 2, 3), np.uint8)]},
        {"a": m.Image()},
    ),
}


def both(case: str, form: str, **kwargs: Any) -> tuple[Any, Any, Any]:
    columns, kinds = TABLES[case](hf)
    theirs = hf.Dataset.from_dict(columns, features=hf.Features(kinds) if kinds else None)
    columns, kinds = TABLES[case](ours)
    table = ours.table_from_batch(columns, ours.Features(kinds) if kinds else None, coerce=True)
    return theirs.with_format(form, **kwargs), formatter(form, **kwargs), table


def same(got: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        assert list(got) == list(expected), where
        for name in expected:
            same(got[name], expected[name], f"{where}/{name}")
    elif isinstance(expected, list | tuple):
        assert len(got) == len(expected), where
        for a, b in zip(got, expected, strict=True):
            same(a, b, where)
    elif hasattr(expected, "to_list"):
        assert type(got) is type(expected) and got.to_list() == expected.to_list(), where
    elif hasattr(expected, "shape"):
        assert type(got) is type(expected), (where, type(got), type(expected))
        assert got.dtype == expected.dtype and got.shape == expected.shape, (where, got, expected)
        assert np.array_equal(np.asarray(got), np.asarray(expected)), where
    else:
        assert type(got) is type(expected) and got == expected, (where, got, expected)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", TABLES)
def test_tensors_are_the_same(case: str, form: str) -> None:
    theirs, mine, table = both(case, form)
    same(mine.batch(table), theirs[:], "batch")
    for index in range(table.num_rows):
        same(mine.row(table, index), theirs[index], f"row {index}")
    for index, row in enumerate(mine.rows(table)):
        same(row, theirs[index], f"rows {index}")
    for name in table.column_names:
        same(mine.column(table, name), theirs[:][name], name)


@pytest.mark.parametrize("form", FORMATS)
def test_a_dtype_that_is_asked_for(form: str) -> None:
    module = importlib.import_module("jax.numpy" if form == "jax" else form)
    theirs, mine, table = both("lists", form, dtype=module.float16)
    same(mine.batch(table), theirs[:], "batch")


@pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="polars is not installed")
def test_polars_frames() -> None:
    theirs, mine, table = both("texts", "polars")
    assert mine.batch(table).equals(theirs[:])
    assert mine.row(table, 1).equals(theirs[1])


@pytest.mark.parametrize("form", ["torch", "jax", "polars"])
def test_a_library_that_is_not_installed_is_named(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FormatError, match=f"needs the package {form}") as caught:
        formatter(form)
    assert caught.value.hint == f"pip install {form}"
