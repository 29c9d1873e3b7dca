"""`ExampleReader` without TensorFlow: any records, damaged ones too, as the plain parser reads them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.data.errors import ColumnError, FeatureTypeError
from provender.data.examples import ExampleReader
from provender.data.examples import reader as reader_module
from provender.data.examples.scanning import layout_of
from provender.errors import DamageError
from provender.records import protobuf

CORE = "tensorflow_datasets.core.features."


def tensor(dtype: str, *shape: int) -> dict[str, Any]:
    dimensions = {"dimensions": [str(each) for each in shape]} if shape else {}
    return {"pythonClassName": f"{CORE}Tensor", "tensor": {"shape": dimensions, "dtype": dtype}}


def sequence(inner: dict[str, Any]) -> dict[str, Any]:
    return {"pythonClassName": f"{CORE}Sequence", "sequence": {"feature": inner, "length": "-1"}}


TEXT = {"pythonClassName": f"{CORE}Text", "text": {}}
LABEL = {"pythonClassName": f"{CORE}ClassLabel", "classLabel": {"numClasses": "3"}}
FIELDS: dict[str, dict[str, Any]] = {
    "text": TEXT,
    "number": tensor("int64"),
    "score": tensor("float32"),
    "label": LABEL,
    "pair": tensor("float32", 2),
    "ids": sequence(tensor("int64")),
    "tags": sequence(TEXT),
    "raw": tensor("string"),
}
DOC = {"featuresDict": {"features": FIELDS}}


def reader(*names: str) -> ExampleReader:
    fields = {name: FIELDS[name] for name in names or FIELDS}
    return ExampleReader({"featuresDict": {"features": fields}}, {"label": ["a", "b", "c"]})


def encoded(row: dict[str, Any], order: Callable[[list[str]], list[str]] = sorted) -> bytes:
    """A row as wire bytes, entries in any order."""
    parts = []
    for name in order(list(row)):
        value = row[name]
        values = value if isinstance(value, list) else [value]
        if name in ("text", "tags", "raw"):
            raw = [v.encode() if isinstance(v, str) else v for v in values]
            feature = protobuf.bytes_feature(raw)
        elif name in ("score", "pair"):
            feature = protobuf.float_feature(protobuf.packed_floats(np.array(values, np.float32)))
        else:
            packed = protobuf.packed_varints(np.array(values, np.int64))
            feature = protobuf.int64_feature(packed)
        parts.append(protobuf.entry(name.encode(), feature))
    body = b"".join(parts)
    return protobuf.example_prefix(len(body)) + body


int64 = st.integers(-(2**63), 2**63 - 1)
float32 = st.floats(width=32, allow_nan=False)
rows = st.fixed_dictionaries(
    {
        "text": st.text(max_size=200),
        "number": int64 | st.integers(0, 300),
        "score": float32,
        "label": st.integers(-1, 2),
        "pair": st.lists(float32, min_size=2, max_size=2),
        "ids": st.lists(int64 | st.integers(0, 5), max_size=6),
        "tags": st.lists(st.text(max_size=5), max_size=4),
        "raw": st.binary(max_size=10),
    }
)


@given(st.lists(rows, max_size=12), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_any_rows_in_any_order_of_entries(given_rows: list[dict[str, Any]], r: Any) -> None:
    def shuffled(names: list[str]) -> list[str]:
        r.shuffle(names)
        return names

    records = [encoded(row, shuffled if r.random() < 0.5 else sorted) for row in given_rows]
    table = reader().table(records)
    table.validate(full=True)
    assert table.to_pylist() == given_rows


@given(
    st.lists(rows, min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
@settings(max_examples=300, deadline=None)
def test_damaged_records_read_as_the_plain_parser_reads_them(
    given_rows: list[dict[str, Any]], flips: list[tuple[int, int]], cut: int
) -> None:
    records = [encoded(row) for row in given_rows]
    victim = cut % len(records)
    bad = bytearray(records[victim])
    for at, byte in flips:
        bad[at % len(bad)] = byte
    records[victim] = bytes(bad[: cut % (2 * len(bad)) or None])
    read = reader()

    def outcome(make: Callable[[], pa.Table]) -> Any:
        try:
            return [repr(row) for row in make().to_pylist()]
        except (DamageError, FeatureTypeError) as error:
            return type(error), error.facts.get("record")

    flat = np.frombuffer(b"".join(records), np.uint8)
    ends = np.cumsum([len(each) for each in records])
    starts = ends - [len(each) for each in records]
    slow = outcome(lambda: read._slow(flat, starts, ends, np.arange(len(records))))
    found = outcome(lambda: read.table(records))
    layout = layout_of(records[victim])
    if layout is not None and not {key for key, _ in layout} <= {name.encode() for name in FIELDS}:
        # What lies under a name that nobody asked for is not looked at.
        return
    assert found == slow


def test_unpacked_numbers_and_repeated_keys() -> None:
    def feature(kind: int, body: bytes) -> bytes:
        return bytes([kind << 3 | 2, len(body)]) + body

    unpacked = protobuf.entry(b"number", feature(3, b"\x08\x05"))
    floats = protobuf.entry(b"score", feature(2, b"\x0d" + struct.pack("<f", 1.5)))
    twice = protobuf.entry(b"number", protobuf.int64_feature(b"\x07"))
    plain = protobuf.entry(b"score", protobuf.float_feature(struct.pack("<f", 2.5)))
    records = [
        protobuf.example_prefix(len(body)) + body
        for body in (unpacked + floats, twice + plain, twice + plain + unpacked, plain + twice)
    ]
    table = reader("number", "score").table(records)
    assert table["number"].to_pylist() == [5, 7, 5, 7]
    assert table["score"].to_pylist() == [1.5, 2.5, 2.5, 2.5]


def test_payloads_anywhere_in_a_buffer() -> None:
    made = [{"text": f"t{i}", "number": i} for i in range(50)]
    records = [encoded(row) for row in made]
    buffer = b"xx" + b"".join(record + b"gap" for record in records)
    lengths = np.array([len(each) for each in records])
    starts = 2 + np.cumsum(lengths + 3) - lengths - 3
    pick = reader("text", "number")
    order = np.random.default_rng(0).permutation(50)
    for chosen in (np.arange(50), order, np.array([7, 7, 3])):
        table = pick.table_from_buffer(memoryview(buffer), starts[chosen], lengths[chosen])
        assert table.to_pylist() == [made[i] for i in chosen]
    assert pick.table_from_buffer(b"", starts[:0], lengths[:0]).num_rows == 0
    with pytest.raises(DamageError, match="buffer has"):
        pick.table_from_buffer(buffer[:100], starts, lengths)


def test_more_records_than_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [{"text": "x" * (i % 50), "number": i} for i in range(100)]
    records = [encoded(row) for row in made]
    monkeypatch.setattr(reader_module, "AT_ONCE", 7)
    assert reader("text", "number").table(records).to_pylist() == made
    monkeypatch.setattr(reader_module, "AT_ONCE", 1000)
    monkeypatch.setattr(reader_module, "BYTES_AT_ONCE", 40)
    assert reader("text", "number").table(records).to_pylist() == made


def test_some_columns_only_and_what_is_not_there() -> None:
    records = [encoded({"text": "a", "number": 1, "ids": [1, 2], "score": 0.5})] * 3
    chosen = reader().columns(["ids", "text"])
    assert chosen.table(records).to_pylist() == [{"ids": [1, 2], "text": "a"}] * 3
    assert list(chosen.features) == ["ids", "text"]
    with pytest.raises(ColumnError, match="no column 'txt'") as caught:
        reader().columns(["txt"])
    assert "Did you mean 'text'" in str(caught.value)


def test_errors_name_the_feature_and_the_record() -> None:
    good = [encoded({"number": 1, "text": "a"})] * 5
    with pytest.raises(DamageError, match="'number' holds floats") as caught:
        wrong = protobuf.entry(b"number", protobuf.float_feature(struct.pack("<f", 1.0)))
        reader("number").table([*good, protobuf.example_prefix(len(wrong)) + wrong])
    assert caught.value.facts["record"] == 5
    with pytest.raises(FeatureTypeError, match="not UTF-8") as text:
        reader("text").table([*good, encoded({"text": b"\xff", "number": 2})])
    assert text.value.facts["record"] == 5
    raw = ExampleReader(DOC, {}, as_bytes=["text"]).columns(["text"])
    assert raw.table([encoded({"text": b"\xff"})]).to_pylist() == [{"text": b"\xff"}]
    with pytest.raises(DamageError, match="not a tf") as broken:
        reader("text").table([*good, b"\x0a\xff"])
    assert broken.value.facts["record"] == 5
    with pytest.raises(DamageError, match="no tensor of shape"):
        reader("pair").table([encoded({"pair": [1.0, 2.0, 3.0]})])


def test_a_feature_that_only_tfds_can_read_is_named() -> None:
    doc = {"featuresDict": {"features": {"x": {"pythonClassName": "mine.Own", "jsonFeature": {}}}}}
    with pytest.raises(FeatureTypeError, match=r"'x' is a mine\.Own"):
        ExampleReader(doc, {})
