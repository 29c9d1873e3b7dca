"""Features and tables of rows: what is accepted, what is refused, and how it is said."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.data.errors import (
    ColumnError,
    ColumnLengthError,
    FeatureTypeError,
    FormatError,
    ReturnError,
    TransformError,
    unknown_column,
)
from provender.data.features import (
    Array2D,
    Array3D,
    Audio,
    ClassLabel,
    Features,
    Image,
    Json,
    LargeList,
    List,
    Sequence,
    Translation,
    Value,
    Video,
    cast_table,
    infer_features,
    table_from_batch,
    table_from_rows,
    unify,
)
from provender.errors import InputError, ProvenderError, UnknownReference

# --- errors --------------------------------------------------------------------------------------


def test_errors_are_caught_as_what_they_were_before() -> None:
    for kind, others in {
        ColumnError: (UnknownReference, KeyError, ValueError),
        FeatureTypeError: (InputError, TypeError, ValueError),
        ColumnLengthError: (InputError, ValueError),
        FormatError: (InputError, ValueError),
        TransformError: (InputError,),
        ReturnError: (TransformError, TypeError),
    }.items():
        error = kind("What.", where="there", hint="next", facts={"row": 3})
        assert all(isinstance(error, each) for each in others)
        assert str(error) == "What.\n  where: there\n  next:  next"
        again = ProvenderError.from_json(error.to_json())
        assert type(again) is kind and again.facts == {"row": 3}


def test_an_unknown_column_names_what_comes_near() -> None:
    error = unknown_column("txt", ["text", "label"])
    assert "Did you mean 'text'?" in str(error) and error.facts["near"] == ["text"]
    assert "no columns" in str(unknown_column("a", []))


# --- rows and batches ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "row", "types"),
    [
        pytest.param([1, 2, "x"], 2, ("int", "str"), id="int_then_text"),
        pytest.param(["a", "b", 3], 2, ("str", "int"), id="text_then_int"),
        pytest.param([None, [1], 2], 2, ("list", "int"), id="list_then_int"),
        pytest.param([{"a": 1}, {"a": "x"}], 1, ("dict", "dict"), id="in_a_dict"),
        pytest.param([True, 1], 1, ("bool", "int"), id="bool_then_int"),
    ],
)
def test_types_that_change_half_way_name_column_row_and_both_types(
    values: list[Any], row: int, types: tuple[str, str]
) -> None:
    rows = [{"ok": 0, "col": each} for each in values]
    with pytest.raises(FeatureTypeError) as caught:
        table_from_rows(rows, first_row=3_000_000)
    facts = caught.value.facts
    assert facts["column"] == "col" and facts["row"] == 3_000_000 + row
    assert (facts["expected"], facts["found"]) == types
    assert f"row {3_000_000 + row}" in str(caught.value)


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        pytest.param(Value("int64"), 2.5, id="fraction"),
        pytest.param(Value("int64"), "5", id="text"),
        pytest.param(Value("int64"), True, id="bool"),
        pytest.param(Value("int8"), 300, id="too_large"),
        pytest.param(Value("string"), 5, id="number"),
        pytest.param(Value("string"), b"x", id="bytes"),
        pytest.param(Value("float32"), "x", id="no_number"),
        pytest.param(List(Value("int64")), [1, 2.5], id="in_a_list"),
        pytest.param(List(Value("int64"), length=2), [1], id="length"),
        pytest.param({"a": Value("int64")}, {"a": 1, "b": 2}, id="another_field"),
        pytest.param(ClassLabel(names=["a"]), "b", id="unknown_class"),
        pytest.param(Array2D((2, 2), "int64"), [[1, 2]], id="shape"),
        pytest.param(Value("timestamp[us]"), 5, id="number_as_time"),
    ],
)
def test_what_a_later_batch_must_not_hold(feature: Any, value: Any) -> None:
    good = {"x": None}
    with pytest.raises(FeatureTypeError) as caught:
        table_from_rows([good, good, {"x": value}], Features(x=feature), first_row=10)
    assert caught.value.facts["row"] == 12 and caught.value.facts["column"] == "x"


@pytest.mark.parametrize(
    ("feature", "value", "stored"),
    [
        pytest.param(Value("int64"), 2.0, 2, id="whole_float"),
        pytest.param(Value("float32"), 3, 3.0, id="int_to_float"),
        pytest.param(Value("int64"), np.int16(4), 4, id="numpy"),
        pytest.param(Value("uint64"), 2**64 - 1, 2**64 - 1, id="uint64"),
        pytest.param(Value("binary"), "x", b"x", id="text_to_bytes"),
        pytest.param(Value("large_string"), "x", "x", id="large"),
        pytest.param(LargeList(Value("int32")), [1, 2], [1, 2], id="large_list"),
        pytest.param({"a": Value("int8"), "b": Value("string")}, {"a": 1}, {"a": 1, "b": None}, id="lacks"),
        pytest.param(Array2D((2, 2), "float32"), np.eye(2), [[1, 0], [0, 1]], id="tensor"),
        pytest.param(Array3D((None, 1, 2), "int8"), np.zeros((3, 1, 2), np.int8), [[[0, 0]]] * 3, id="dynamic"),
        pytest.param(ClassLabel(names=["a", "b"]), "b", 1, id="class_name"),
        pytest.param(Json(), {"a": [1, None]}, '{"a": [1, null]}', id="json"),
        pytest.param(Translation(["de", "en"]), {"en": "x", "de": "y"}, {"de": "y", "en": "x"}, id="pair"),
    ],
)  # fmt: skip
def test_what_widens_is_stored(feature: Any, value: Any, stored: Any) -> None:
    features = Features(x=feature)
    table = table_from_rows([{"x": value}, {"x": None}], features)
    assert table.to_pylist() == [{"x": stored}, {"x": None}]
    assert infer_features(table) == features
    assert table.schema.field("x").type == features.arrow_schema.field("x").type
    assert table_from_batch({"x": [value, None]}, features).equals(table)


def test_coercion_is_asked_for_and_loses_nothing() -> None:
    features = Features(a=Value("int64"), b=Value("string"), c=Value("float32"))
    table = table_from_rows([{"a": "5", "b": 5, "c": "0.5"}], features, coerce=True)
    assert table.to_pylist() == [{"a": 5, "b": "5", "c": 0.5}]
    with pytest.raises(FeatureTypeError, match=r"2\.5 \(float\)"):
        table_from_rows([{"a": 2.5}], features, coerce=True)


def test_keys_of_rows() -> None:
    assert table_from_rows([{"a": 1}, {"b": 2}]).to_pylist() == [
        {"a": 1, "b": None},
        {"a": None, "b": 2},
    ]
    with pytest.raises(ColumnError, match="no column 'tect'") as caught:
        table_from_rows([{"text": "x"}, {"tect": "x"}], Features(text=Value("string")), first_row=5)
    assert caught.value.facts["row"] == 6 and "'text'" in str(caught.value)
    with pytest.raises(FeatureTypeError, match="Row 1 is a list, not a dict"):
        table_from_rows([{"a": 1}, [1]])  # type: ignore[list-item]


def test_batches_that_are_none() -> None:
    with pytest.raises(ColumnLengthError, match="a: 2, b: 3"):
        table_from_batch({"a": [1, 2], "b": [1, 2, 3]})
    with pytest.raises(FeatureTypeError, match="'a' of a batch is a str"):
        table_from_batch({"a": "text"})
    with pytest.raises(FeatureTypeError, match="not list"):
        table_from_batch([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="no column 'a'"):
        table_from_batch({"a": [1]}, Features(b=Value("int64")))


def test_columns_of_any_kind() -> None:
    import pandas as pd

    expected = [1.5, 2.5]
    for column in (
        expected,
        tuple(expected),
        np.array(expected),
        pa.array(expected),
        pa.chunked_array([[1.5], [2.5]]),
        pd.Series(expected),
        pa.array(expected).dictionary_encode(),
    ):
        assert table_from_batch({"x": column})["x"].to_pylist() == expected
    assert table_from_batch(pd.DataFrame({"x": expected}))["x"].to_pylist() == expected
    table = table_from_rows([{"l": "a"}], Features(l=ClassLabel(names=["a"])))
    assert infer_features(table_from_batch(table)) == Features(l=ClassLabel(names=["a"]))
    times = np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")
    assert table_from_batch({"x": times})["x"].type == pa.date32()
    assert table_from_rows([{"x": times[0]}])["x"].type == pa.date32()


class Tensor:
    """What tensors of other libraries look like from here."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._array if dtype is None else self._array.astype(dtype)

    def __len__(self) -> int:
        return len(self._array)


def test_tensors_of_other_libraries() -> None:
    rows = [{"x": Tensor(np.eye(2, dtype=np.float32)), "y": Tensor(np.array(3))}] * 2
    table = table_from_rows(rows)
    assert table["x"].type == pa.list_(pa.list_(pa.float32())) and table["y"].to_pylist() == [3, 3]
    batch = table_from_batch({"x": Tensor(np.zeros((4, 2, 3), np.int16))})
    assert batch["x"].type == pa.list_(pa.list_(pa.int16())) and len(batch) == 4


def test_objects_that_cannot_be_stored_are_named() -> None:
    with pytest.raises(FeatureTypeError, match="a object cannot be stored") as caught:
        table_from_rows([{"x": None}, {"x": object()}])
    assert caught.value.facts["row"] == 1


# --- features ------------------------------------------------------------------------------------


def test_a_sequence_of_a_dict_is_a_dict_of_lists() -> None:
    made = Sequence({"a": Value("int64")}, length=2)
    assert made == {"a": List(Value("int64"), length=2)}
    assert isinstance(Sequence(Value("int64")), List) and isinstance(List(Value("int8")), Sequence)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        pytest.param(lambda: Value("int46"), "no type 'int46'", id="type"),
        pytest.param(lambda: Features(a=5), "5 is not a feature", id="number"),
        pytest.param(lambda: ClassLabel(), "needs num_classes", id="no_names"),
        pytest.param(lambda: ClassLabel(names=["a", "a"]), "more than once: a", id="twice"),
        pytest.param(lambda: ClassLabel(3, names=["a"]), "num_classes=3", id="contradiction"),
        pytest.param(lambda: Array2D((1, 2, 3), "int8"), "has 2 dimensions", id="rank"),
        pytest.param(lambda: Array2D((1, None), "int8"), "first dimension", id="dynamic"),
        pytest.param(lambda: List([Value("int8"), Value("int8")]), "one item", id="two"),
        pytest.param(
            lambda: Features.from_dict({"a": {"_type": "Vlaue"}}), "no feature kind", id="kind"
        ),
    ],
)
def test_features_that_make_no_sense(make: Any, match: str) -> None:
    with pytest.raises(FeatureTypeError, match=match):
        make()


def test_class_labels() -> None:
    label = ClassLabel(names=["no", "yes"])
    assert label.str2int(["yes", "no"]) == [1, 0] and label.int2str([1, 0]) == ["yes", "no"]
    assert label.num_classes == 2
    with pytest.raises(FeatureTypeError, match="Did you mean yes") as caught:
        label.str2int("yess")
    assert caught.value.facts["value"] == "yess"
    with pytest.raises(FeatureTypeError, match="no class number 2"):
        label.int2str(2)


def test_kinds_of_others_in_a_file_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    schema = Features(a=Value("string"), b=ClassLabel(names=["x"])).arrow_schema
    doc = schema.metadata[b"huggingface"].replace(
        b'"string", "_type": "Value"', b'"x", "_type": "Pdf"'
    )
    read = Features.from_arrow_schema(schema.with_metadata({b"huggingface": doc}))
    assert read == Features(a=Value("string"), b=ClassLabel(names=["x"]))
    assert "'a' is read by its Arrow type alone" in caplog.text


def test_names_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("a\n\n b \n")
    assert ClassLabel(names_file=str(tmp_path / "names.txt")).names == ["a", "b"]


def test_features_of_two_parts_that_go_together() -> None:
    nothing = Features(a=Value("null"), b=List(Value("null")))
    full = Features(a=Value("int64"), b=List(Value("string")), c=Value("bool"))
    assert unify(nothing, full) == full == unify(full, nothing)
    with pytest.raises(FeatureTypeError, match="'a' is Value"):
        unify(full, Features(a=Value("string")))


def test_a_cast_must_name_every_column() -> None:
    table = pa.table({"a": [1], "b": [2]})
    with pytest.raises(ColumnError, match="do not name the column 'b'"):
        cast_table(table, {"a": Value("int8")})
    with pytest.raises(ColumnError, match="no column 'c'"):
        cast_table(table, {"a": Value("int8"), "b": Value("int8"), "c": Value("int8")})
    made = cast_table(table, {"b": Value("string"), "a": Value("float32")})
    assert made.to_pydict() == {"b": ["2"], "a": [1.0]}


# --- files ---------------------------------------------------------------------------------------


def test_images_are_read_upright_and_in_their_mode(tmp_path: Path) -> None:
    from PIL import Image as Pillow

    made = Pillow.fromarray(np.arange(24, dtype=np.uint8).reshape(4, 2, 3))
    exif = made.getexif()
    exif[0x0112] = 6
    made.save(tmp_path / "a.png", exif=exif)
    value = Image().encode_example(str(tmp_path / "a.png"))
    assert Image().decode_example(value).size == (4, 2)
    assert Image(mode="L").decode_example(value).mode == "L"
    with pytest.raises(FeatureTypeError, match="decode=True"):
        Image(decode=False).decode_example(value)
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(FeatureTypeError, match="cannot be decoded"):
        Image().decode_example(value)
    (tmp_path / "a.png").unlink()
    with pytest.raises(FeatureTypeError, match="stored as a path only"):
        Image().decode_example(value)


def test_arrays_that_are_no_images() -> None:
    assert Image().encode_example(np.full((2, 2, 3), 200))["bytes"][:4] == b"\x89PNG"
    for wrong in (np.full((2, 2, 3), 300), np.zeros((2, 2, 3)), np.zeros(3, np.uint8)):
        with pytest.raises(FeatureTypeError, match=r"not an image|2 or 3 dimensions"):
            Image().encode_example(wrong)


def test_sounds(tmp_path: Path) -> None:
    samples = np.array([0.0, 0.5, -0.5, 1.0], np.float32)
    stored = Audio().encode_example({"array": samples, "sampling_rate": 8000})
    with wave.open(io.BytesIO(stored["bytes"])) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (8000, 1, 4)
    read = Audio().decode_example(stored)
    assert read["sampling_rate"] == 8000
    np.testing.assert_allclose(read["array"], samples, atol=1e-4)
    with pytest.raises(FeatureTypeError, match="8000 Hz"):
        Audio(sampling_rate=16000).decode_example(stored)
    stereo = Audio().encode_example({"array": np.stack([samples, -samples]), "sampling_rate": 8000})
    assert Audio().decode_example(stereo)["array"].shape == (2, 4)
    np.testing.assert_allclose(
        Audio(num_channels=1).decode_example(stereo)["array"], 0 * samples, atol=1e-4
    )


def test_formats_that_need_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "soundfile", None)
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", None)
    with pytest.raises(FormatError, match="'soundfile' is not installed"):
        Audio().decode_example({"bytes": b"fLaC", "path": "a.flac"})
    with pytest.raises(FormatError, match="'torchcodec'"):
        Video().decode_example({"bytes": b"", "path": None})


# --- properties ----------------------------------------------------------------------------------

scalars = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False, width=32),
    "string": st.text(max_size=8),
    "binary": st.binary(max_size=8),
    "bool": st.booleans(),
}


def of_kind(depth: int) -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    """A feature, and the values that it holds (with nulls everywhere)."""
    leaf = st.sampled_from(sorted(scalars)).map(
        lambda name: (Value(name), st.none() | scalars[name])
    )
    if depth == 0:
        return leaf
    inner = of_kind(depth - 1)
    lists = inner.map(lambda kv: (List(kv[0]), st.none() | st.lists(kv[1], max_size=3)))
    dicts = st.dictionaries(st.sampled_from("pqr"), inner, min_size=1, max_size=2).map(
        lambda fields: (
            {name: kv[0] for name, kv in fields.items()},
            st.none() | st.fixed_dictionaries({name: kv[1] for name, kv in fields.items()}),
        )
    )
    return leaf | lists | dicts


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_rows_come_back_as_they_went_in_whatever_their_shape(data: st.DataObject) -> None:
    from provender.data.formats import formatter

    columns = data.draw(st.lists(of_kind(2), min_size=1, max_size=2))
    features = Features({f"c{i}": feature for i, (feature, _) in enumerate(columns)})
    row = st.fixed_dictionaries({f"c{i}": values for i, (_, values) in enumerate(columns)})
    rows = data.draw(st.lists(row, max_size=12))
    table = table_from_rows(rows, features)
    table.validate(full=True)
    assert Features.from_arrow_schema(table.schema) == features
    assert list(formatter().rows(table)) == rows
    pieces = [table_from_rows(rows[:3], features), table_from_rows(rows[3:], features)]
    joined = pa.concat_tables(pieces)
    assert formatter().batch(joined) == table.to_pydict()
    start = data.draw(st.integers(0, len(rows)))
    part = table.slice(start, 5)
    assert list(formatter().rows(part)) == rows[start : start + 5]
    for index in range(part.num_rows):
        assert formatter().row(part, index) == rows[start + index]
    numpy_rows = list(formatter("numpy").rows(part))
    for index, row_made in enumerate(numpy_rows):
        assert repr(row_made) == repr(formatter("numpy").row(part, index))
