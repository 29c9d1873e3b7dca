"""Features and formats beside those of Hugging Face Datasets: types, JSON, values, errors."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
from decimal import Decimal
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import provender.data.features as ours
from provender.data.errors import FeatureTypeError
from provender.data.formats import formatter

hf = import_module("datasets")

FEATURES = {
    "scalars": lambda m: {
        each.replace("[", "_").replace("]", "_"): m.Value(each)
        for each in (
            "null bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
            "float double date32 date64 string large_string binary large_binary string_view "
            "binary_view timestamp[s] timestamp[ns] duration[ms] time32[s] time64[us]"
        ).split()
    },
    "more_scalars": lambda m: {
        "a": m.Value("timestamp[us, tz=America/New_York]"),
        "b": m.Value("decimal128(10, 2)"),
        "c": m.Value("decimal256(40, -3)"),
        "d": m.Value("fixed_size_binary[16]"),
    },
    "labels": lambda m: {
        "a": m.ClassLabel(num_classes=3),
        "b": m.ClassLabel(names=["no", "yes"]),
        "c": m.List(m.ClassLabel(2)),
    },
    "lists": lambda m: {
        "a": m.List(m.Value("int64")),
        "b": m.List(m.List(m.Value("string")), length=2),
        "c": m.LargeList(m.Value("float32")),
        "d": m.Sequence(m.Value("int32"), length=4),
        "e": m.Sequence({"x": m.Value("int64"), "y": m.List(m.Value("string"))}),
        "f": m.Sequence({"x": m.List(m.Value("int64"))}),
        "g": [m.Value("int8")],
        "h": m.List({"x": m.Value("int64")}),
    },
    "dicts": lambda m: {"a": {"b": {"c": m.Value("int64")}, "d": m.ClassLabel(names=["x"])}},
    "files": lambda m: {
        "a": m.Image(),
        "b": m.Image(mode="RGB", decode=False),
        "c": m.Audio(sampling_rate=16000),
        "d": m.List(m.Image()),
    },
    "translations": lambda m: {
        "a": m.Translation(languages=["fr", "en"]),
        "b": m.TranslationVariableLanguages(languages=["fr", "en", "de"]),
    },
    "tensors": lambda m: {
        "a": m.Array2D(shape=(2, 3), dtype="int32"),
        "b": m.Array3D(shape=(None, 2, 3), dtype="float64"),
        "c": m.Array4D((1, 1, 1, 2), "uint8"),
        "d": m.Array5D((1, 1, 1, 1, 2), "bool"),
    },
}


def storage(kind: pa.DataType) -> pa.DataType:
    """The type without Hugging Face's extension types for tensors."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, storage(each.type)) for each in kind])
    return kind


def as_json(features: Any) -> Any:
    return json.loads(json.dumps(features.to_dict()))


@pytest.mark.parametrize("case", FEATURES)
def test_types_json_and_schemas_are_the_same(case: str) -> None:
    mine, theirs = ours.Features(FEATURES[case](ours)), hf.Features(FEATURES[case](hf))
    assert mine.type == storage(theirs.type)
    assert mine.to_dict() == as_json(theirs)
    assert ours.Features.from_dict(theirs.to_dict()) == mine
    assert hf.Features.from_dict(mine.to_dict()) == theirs
    assert ours.Features.from_arrow_schema(mine.arrow_schema) == mine
    assert ours.Features.from_arrow_schema(theirs.arrow_schema) == mine
    read = hf.Features.from_arrow_schema(mine.arrow_schema)
    assert {n: each for n, each in read.items() if case != "tensors"} == (
        theirs if case != "tensors" else {}
    )
    assert repr(mine).replace("'", '"') == repr(theirs).replace("'", '"')


@pytest.mark.parametrize("case", FEATURES)
def test_copies_and_flattened_features(case: str) -> None:
    import pickle

    mine, theirs = ours.Features(FEATURES[case](ours)), hf.Features(FEATURES[case](hf))
    assert mine.copy() == mine and mine.copy() is not mine
    assert pickle.loads(pickle.dumps(mine)) == mine
    if case != "files":
        assert mine.flatten().to_dict() == as_json(theirs.flatten())
    assert mine.reorder_fields_as(mine).type == mine.type


VALUES: dict[str, tuple[Any, list[Any]]] = {
    "int_from": (lambda m: m.Value("int64"), [1, "5", True, np.int32(7), 2.0, None]),
    "float_from": (lambda m: m.Value("float32"), [1, "0.5", 2.5, np.float64(0.25), True]),
    "bool_from": (lambda m: m.Value("bool"), [True, 0, 1, np.bool_(False)]),
    "text_from": (lambda m: m.Value("string"), ["a", 5, 2.5, True, np.str_("x")]),
    "label": (lambda m: m.ClassLabel(names=["a", "b", "c", "d"]), ["b", 0, -1, "3", " c "]),
    "labels": (lambda m: m.List(m.ClassLabel(names=["a", "b"])), [["a", "b"], [], [1], None]),
    "list": (lambda m: m.List(m.Value("int64")), [[1, 2], (3,), np.arange(3), []]),
    "dict": (
        lambda m: {"a": m.Value("int64"), "b": m.ClassLabel(names=["x", "y"])},
        [{"a": 1, "b": "y"}, {"a": 2}, {"a": 1, "b": 0, "more": 3}, None],
    ),
    "rows": (
        lambda m: m.List({"x": m.ClassLabel(names=["p", "q"])}),
        [[{"x": "q"}, {"x": "p"}], []],
    ),
    "translation": (
        lambda m: m.TranslationVariableLanguages(languages=["en", "de"]),
        [{"en": "a", "de": ["c", "b"]}],
    ),
    "image_file": (lambda m: m.Image(), ["/x.png", b"raw", {"bytes": b"1", "path": "n.png"}]),
    "image_array": (lambda m: m.Image(), [np.zeros((2, 3, 3), np.uint8), np.eye(3, dtype=bool)]),
    "json": (lambda m: m.Json(), ['{"a": 1}', "text", None]),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_are_encoded_the_same(case: str) -> None:
    make, values = VALUES[case]
    mine, theirs = ours.Features({"x": make(ours)}), hf.Features({"x": make(hf)})
    for value in values:
        expected = theirs.encode_example({"x": value})
        got = mine.encode_example({"x": value})
        assert normal(got) == normal(expected), value


def normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: normal(each) for name, each in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        return [normal(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


REFUSED: dict[str, tuple[Any, Any]] = {
    "no_int": (lambda m: m.Value("int64"), "x"),
    "no_float": (lambda m: m.Value("float32"), "x"),
    "unknown_class": (lambda m: m.ClassLabel(names=["a"]), "zzz"),
    "class_number": (lambda m: m.ClassLabel(names=["a"]), 5),
    "language": (lambda m: m.TranslationVariableLanguages(languages=["en"]), {"fr": "x"}),
    "no_image": (lambda m: m.Image(), {"bytes": None, "path": None}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_there_is_refused_here(case: str) -> None:
    make, value = REFUSED[case]
    with pytest.raises((ValueError, TypeError)):
        hf.Features({"x": make(hf)}).encode_example({"x": value})
    with pytest.raises(FeatureTypeError):
        ours.Features({"x": make(ours)}).encode_example({"x": value})


def test_what_is_changed_silently_there_is_refused_here() -> None:
    cases = [("int64", 2.5), ("bool", "False"), ("bool", 7)]
    for dtype, value in cases:
        hf.Features({"x": hf.Value(dtype)}).encode_example({"x": value})
        with pytest.raises(FeatureTypeError):
            ours.Features({"x": ours.Value(dtype)}).encode_example({"x": value})


ROWS: dict[str, list[dict[str, Any]]] = {
    "simple": [{"a": 1, "b": "x", "c": 0.5, "d": True, "e": b"\0"}, {"a": 2, "b": None}],
    "mixed_numbers": [{"a": 1}, {"a": 2.5}],
    "nulls": [{"a": None, "b": []}, {"a": None, "b": []}],
    "null_then_value": [{"a": None, "b": []}, {"a": 3, "b": ["x"]}],
    "nested": [{"a": {"b": [1, 2], "c": {"d": "x"}}}, {"a": {"b": [], "c": None}}],
    "lists_of_dicts": [{"a": [{"b": 1}, {"b": 2}]}, {"a": []}],
    "numpy": [{"a": np.int32(1), "b": np.float32(0.5), "c": np.arange(3, dtype=np.uint8)}],
    "numpy_2d": [{"a": np.zeros((2, 2), np.float32)}, {"a": np.ones((1, 2), np.float32)}],
    "numpy_3d": [{"a": np.zeros((2, 1, 2), np.int16)}] * 2,
    "numpy_in_lists": [{"a": [np.arange(2), np.arange(3)]}],
    "dates": [{"a": dt.datetime(2020, 1, 2), "b": dt.date(2020, 1, 2), "c": dt.timedelta(1)}],
    "pandas_times": [{"a": pd.Timestamp("2020-01-02"), "b": pd.Timedelta("1h")}],
    "decimals": [{"a": Decimal("1.50")}],
    "tuples": [{"a": (1, 2)}, {"a": (3,)}],
    "big": [{"a": 2**62, "b": -(2**63)}],
    "series": [{"a": pd.Series([1, 2])}],
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_become_the_same_tables(case: str) -> None:
    theirs = hf.Dataset.from_list(ROWS[case])
    mine = ours.table_from_rows(ROWS[case])
    assert mine.schema.remove_metadata() == theirs.data.table.schema.remove_metadata()
    assert mine.to_pylist() == theirs.data.table.to_pylist()
    assert ours.infer_features(mine).to_dict() == theirs.features.to_dict()
    columns = {name: [row.get(name) for row in ROWS[case]] for name in mine.column_names}
    assert ours.table_from_batch(columns).equals(mine)


def test_images_become_the_same_tables() -> None:
    from PIL import Image

    drawn = Image.fromarray(np.arange(27, dtype=np.uint8).reshape(3, 3, 3))
    rows = [{"a": drawn, "b": [drawn, drawn]}, {"a": None, "b": []}]
    theirs, mine = hf.Dataset.from_list(rows), ours.table_from_rows(rows)
    assert mine.to_pylist() == theirs.data.table.to_pylist()
    assert ours.infer_features(mine).to_dict() == theirs.features.to_dict()


CASTS: dict[str, tuple[pa.Array, Any]] = {
    "text_to_int": (pa.array(["1", None, "3"]), lambda m: m.Value("int64")),
    "int_to_text": (pa.array([1, None]), lambda m: m.Value("string")),
    "float_to_int": (pa.array([1.0, 2.0]), lambda m: m.Value("int32")),
    "null_to_list": (pa.nulls(2), lambda m: m.List(m.Value("int64"))),
    "lists": (pa.array([[1, 2], None, []]), lambda m: m.List(m.Value("float32"))),
    "list_to_large": (pa.array([[1, 2], None, []]), lambda m: m.LargeList(m.Value("int64"))),
    "list_to_fixed": (pa.array([[1, 2], [3, 4]]), lambda m: m.List(m.Value("int64"), length=2)),
    "list_to_fixed_null": (
        pa.array([[1, 2], None, [3, 4]]),
        lambda m: m.List(m.Value("int32"), length=2),
    ),
    "fixed_to_list": (
        pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        lambda m: m.List(m.Value("int64")),
    ),
    "struct": (
        pa.array([{"a": 1, "b": "x"}, None]),
        lambda m: {"b": m.Value("string"), "a": m.Value("int8"), "c": m.Value("string")},
    ),
    "names_to_labels": (
        pa.array(["no", None, "yes"]),
        lambda m: m.ClassLabel(names=["no", "yes"]),
    ),
    "numbers_to_labels": (pa.array([0, 1], pa.int8()), lambda m: m.ClassLabel(num_classes=2)),
    "path_to_image": (pa.array(["/a.png", None]), lambda m: m.Image()),
    "bytes_to_image": (pa.array([b"a", None]), lambda m: m.Image()),
    "struct_to_image": (pa.array([{"bytes": b"1"}]), lambda m: m.Image()),
    "string_to_audio": (pa.array(["x.wav"]), lambda m: m.Audio()),
    "dictionary": (pa.array(["a", "b", "a"]).dictionary_encode(), lambda m: m.Value("string")),
    "times": (
        pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us")),
        lambda m: m.Value("timestamp[ns]"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASTS)
def test_casts_are_the_same(case: str) -> None:
    from datasets.table import cast_array_to_feature

    array, make = CASTS[case]
    expected = (
        cast_array_to_feature(array, make(hf)) if case != "dictionary" else array.cast("string")
    )
    got = ours.cast_array(array, make(ours))
    assert got.type == expected.type
    assert got.to_pylist() == expected.to_pylist()
    sliced = pa.concat_arrays([array, array]).slice(1, len(array))
    if case != "dictionary":
        theirs = cast_array_to_feature(sliced, make(hf)).to_pylist()
        assert ours.cast_array(sliced, make(ours)).to_pylist() == theirs


BAD_CASTS: dict[str, tuple[list[Any], Any]] = {
    "text": (["1", "x"], lambda m: m.Value("int64")),
    "fraction": ([1.0, 2.5], lambda m: m.Value("int64")),
    "large": ([1, 300], lambda m: m.Value("int8")),
    "class": (["no", "maybe"], lambda m: m.ClassLabel(names=["no", "yes"])),
    "class_number": ([0, 7], lambda m: m.ClassLabel(num_classes=2)),
    "length": ([[1, 2], [3]], lambda m: m.List(m.Value("int64"), length=2)),
    "list": ([1, 2], lambda m: m.List(m.Value("int64"))),
}


@pytest.mark.parametrize("case", BAD_CASTS)
def test_casts_that_fail_name_column_row_and_value(case: str) -> None:
    values, make = BAD_CASTS[case]
    # They take class numbers on trust where the Arrow type is right.
    with (
        contextlib.nullcontext()
        if case == "class_number"
        else pytest.raises((ValueError, TypeError))
    ):
        hf.Dataset.from_dict({"col": values}).cast(hf.Features({"col": make(hf)}))
    table = pa.table({"col": pa.chunked_array([pa.array(values[:1]), pa.array(values[1:])])})
    with pytest.raises(FeatureTypeError) as caught:
        ours.cast_table(table, {"col": make(ours)})
    row = 0 if case == "list" else 1
    assert caught.value.facts["column"] == "col" and caught.value.facts["row"] == row
    assert repr(values[row]) in str(caught.value)


# --- formats -------------------------------------------------------------------------------------

TABLES: dict[str, Any] = {
    "numbers": lambda m: ({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]}, None),
    "small_numbers": lambda m: (
        {"a": [1, 2], "b": [1, 2], "c": [0.5, 1.5]},
        {"a": m.Value("int32"), "b": m.Value("uint8"), "c": m.Value("float32")},
    ),
    "texts": lambda m: ({"a": ["x", "yyy"], "b": ["p", "q"]}, None),
    "nulls": lambda m: ({"a": [1, None], "b": ["x", None], "c": [0.5, None]}, None),
    "lists": lambda m: ({"a": [[1, 2], [3, 4]], "b": [[1.5], [2.5]]}, None),
    "ragged": lambda m: ({"a": [[1, 2], [3]]}, None),
    "deep": lambda m: ({"a": [[[1], [2]], [[3], [4]]]}, None),
    "dicts": lambda m: ({"a": [{"x": 1, "y": [1, 2]}, {"x": 2, "y": [3, 4]}]}, None),
    "rows": lambda m: ({"a": [[{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]]}, None),
    "tensors": lambda m: (
        {"a": np.arange(12).reshape(2, 2, 3).tolist()},
        {"a": m.Array2D((2, 3), "int64")},
    ),
    "dynamic": lambda m: (
        {"a": [[[1, 2]], [[3, 4], [5, 6]]]},
        {"a": m.Array2D((None, 2), "float32")},
    ),
    "labels": lambda m: ({"a": [0, 1]}, {"a": m.ClassLabel(names=["x", "y"])}),
    "images": lambda m: (
        {"a": [np.zeros((2, 2, 3), np.uint8), np.ones((2, 2, 3), np.uint8)]},
        {"a": m.Image()},
    ),
    "image_sizes": lambda m: (
        {"a": [np.zeros((2, 2, 3), np.uint8), np.ones((3, 2, 3), np.uint8)]},
        {"a": m.Image()},
    ),
    "times": lambda m: ({"a": [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)]}, None),
}


def both(case: str, form: str) -> tuple[Any, Any, pa.Table, ours.Features | None]:
    columns, kinds = TABLES[case](hf)
    theirs = hf.Dataset.from_dict(columns, features=hf.Features(kinds) if kinds else None)
    columns, kinds = TABLES[case](ours)
    features = ours.Features(kinds) if kinds else None
    table = ours.table_from_batch(columns, features, coerce=True)
    return theirs.with_format(form), formatter(form), table, features


def same(got: Any, expected: Any, where: str = "") -> None:
    """Equal in kind, type, shape and values, but for three things.

    Texts are numpy objects here and numpy texts there; scalars that are no numbers are numpy
    scalars here and arrays without dimensions there; lists of dicts are arrays of arrays.
    """
    if isinstance(got, np.generic) and isinstance(expected, np.ndarray) and expected.ndim == 0:
        expected = expected[()]
    if isinstance(expected, dict):
        assert isinstance(got, dict) and list(got) == list(expected), where
        for name in expected:
            same(got[name], expected[name], f"{where}/{name}")
    elif isinstance(expected, np.ndarray) and expected.dtype.kind in "US":
        assert got.tolist() == expected.tolist(), where
    elif isinstance(expected, np.ndarray) and isinstance(expected.reshape(-1)[0], dict):
        same(normal(got), normal(expected), where)
    elif isinstance(expected, np.ndarray):
        assert isinstance(got, np.ndarray), (where, type(got))
        assert got.dtype == expected.dtype and got.shape == expected.shape, (where, got, expected)
        for a, b in zip(got.reshape(-1).tolist(), expected.reshape(-1).tolist(), strict=True):
            same(a, b, where)
    elif isinstance(expected, np.generic):
        assert isinstance(got, str) or got.dtype == expected.dtype, (where, got, expected)
        assert got == expected or (got != got and expected != expected), where
    elif isinstance(expected, list):
        assert len(got) == len(expected), where
        for a, b in zip(got, expected, strict=True):
            same(a, b, where)
    elif hasattr(expected, "__array_interface__"):
        assert np.array_equal(np.asarray(got), np.asarray(expected)), where
    else:
        assert type(got) is type(expected), (where, got, expected)
        assert got == expected or (got != got and expected != expected), where


@pytest.mark.parametrize("form", ["python", "numpy"])
@pytest.mark.parametrize("case", TABLES)
def test_formats_give_the_same(case: str, form: str) -> None:
    theirs, mine, table, _ = both(case, form)
    same(mine.batch(table), theirs[:], "batch")
    for index in range(table.num_rows):
        same(mine.row(table, index), theirs[index], f"row {index}")
    for index, row in enumerate(mine.rows(table)):
        same(row, theirs[index], f"rows {index}")
    for name in table.column_names:
        same(mine.column(table, name), theirs[:][name], name)


@pytest.mark.parametrize("case", [each for each in TABLES if each not in ("tensors", "dynamic")])
def test_pandas_gives_the_same(case: str) -> None:
    theirs, mine, table, _ = both(case, "pandas")
    got, expected = mine.batch(table), theirs[:]
    if case.startswith("image"):
        for a, b in zip(got["a"], expected["a"], strict=True):
            assert np.array_equal(np.asarray(a), np.asarray(b))
    else:
        pd.testing.assert_frame_equal(got, expected)
        pd.testing.assert_frame_equal(mine.row(table, 1), theirs[1])


def test_arrow_files_and_parquet_of_either_are_read_by_the_other(tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    kinds = {"a": ours.ClassLabel(names=["x", "y"]), "b": ours.Image(decode=False)}
    table = ours.table_from_rows([{"a": "y", "b": b"png"}], kinds)
    pq.write_table(table, tmp_path / "ours.parquet")
    read = hf.Dataset.from_parquet(str(tmp_path / "ours.parquet"), cache_dir=str(tmp_path))
    assert read.features["a"] == hf.ClassLabel(names=["x", "y"])
    assert read.features["b"] == hf.Image(decode=False)
    made = hf.Dataset.from_dict(
        {"t": [[[1, 2]]], "l": ["x"]},
        features=hf.Features({"t": hf.Array2D((1, 2), "int32"), "l": hf.ClassLabel(names=["x"])}),
    )
    made.save_to_disk(str(tmp_path / "theirs"))
    with pa.memory_map(str(tmp_path / "theirs" / "data-00000-of-00001.arrow")) as file:
        theirs = pa.ipc.open_stream(io.BytesIO(file.read())).read_all()
    assert ours.infer_features(theirs) == ours.Features(
        {"t": ours.Array2D((1, 2), "int32"), "l": ours.ClassLabel(names=["x"])}
    )
    batch = formatter("numpy").batch(theirs)
    assert batch["t"].shape == (1, 1, 2) and batch["l"].tolist() == [0]


def test_keys_that_only_later_rows_have_are_kept() -> None:
    rows = [{"a": 1}, {"b": 2}, {"a": 3, "b": 4}]
    assert "b" not in hf.Dataset.from_list(rows).column_names
    made = ours.table_from_rows(rows)
    assert made.to_pydict() == {"a": [1, None, 3], "b": [None, 2, 4]}


def test_what_a_null_does_to_its_neighbours() -> None:
    table = pa.table({"a": [2**53 - 1, None], "b": [[2**53 - 1], [None]]})
    rows = list(formatter("numpy").rows(table))
    assert rows[0]["a"] == 2**53 - 1 and rows[0]["a"].dtype == np.int64
    assert rows[0]["b"].tolist() == [2**53 - 1] and np.isnan(rows[1]["a"])


def test_their_features_may_be_passed_in() -> None:
    import provender.data as ours

    columns = {"a": [1, 2], "label": ["x", "y"], "l": [[1], [2]], "d": [{"v": 1}, {"v": 2}]}
    theirs = hf.Features(
        {
            "a": hf.Value("int32"),
            "label": hf.ClassLabel(names=["x", "y"]),
            "l": hf.List(hf.Value("int16")),
            "d": {"v": hf.Value("float32")},
        }
    )
    expected = ours.Features(
        {
            "a": ours.Value("int32"),
            "label": ours.ClassLabel(names=["x", "y"]),
            "l": ours.List(ours.Value("int16")),
            "d": {"v": ours.Value("float32")},
        }
    )
    assert ours.Features(theirs) == expected
    ds = ours.Dataset.from_dict(columns, features=theirs)
    assert ds.features == expected
    plain = ours.Dataset.from_dict({**columns, "label": [0, 1]})
    assert plain.cast(theirs).features == expected
    assert plain.cast_column("a", hf.Value("int8")).features["a"] == ours.Value("int8")
    assert ds.map(lambda row: row, features=theirs).features == expected
    stream = plain.to_iterable_dataset()
    assert stream.cast(theirs).features == expected
    assert stream.cast_column("a", hf.Value("int8")).features["a"] == ours.Value("int8")
    assert ours.Features({"x": hf.Image(decode=False)})["x"] == ours.Image(decode=False)
