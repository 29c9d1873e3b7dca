"""Every kind of feature: our tables against what TensorFlow Datasets reads from the same bytes."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from provender.data.examples import ExampleReader
from provender.data.features import type_of
from provender.records import compile_encoder

ROWS = 23


def kinds() -> dict[str, tuple[Any, Any]]:
    """Name -> (TFDS feature, function of a random generator that makes a value)."""
    from tensorflow_datasets.core import features as f

    def text(r: random.Random) -> str:
        return "".join(r.choice("ab é中\n\0") for _ in range(r.choice([0, 1, 3, 40, 300])))

    def png(r: random.Random, channels: int = 3) -> bytes:
        from PIL import Image

        shape = (r.randint(1, 4), r.randint(1, 4), channels)
        pixels = np.frombuffer(r.randbytes(int(np.prod(shape))), np.uint8).reshape(shape)
        out = io.BytesIO()
        Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(out, "PNG")
        return out.getvalue()

    def items(make: Any, most: int = 3) -> Any:
        return lambda r: [make(r) for _ in range(r.randint(0, most))]

    def number(r: random.Random) -> int:
        return r.choice([0, 1, 127, 128, -1, 2**31 - 1, -(2**31), r.randint(-1000, 1000)])

    def small(r: random.Random) -> float:
        return r.choice([0.0, -0.0, 1.5, float(np.float32(0.1)), -1e30, r.random() // 0.125 / 8])

    def array(dtype: str, *shape: int) -> Any:
        count = int(np.prod(shape))
        return lambda r: np.array([r.randint(0, 100) for _ in range(count)], dtype).reshape(shape)

    def row(r: random.Random) -> dict[str, Any]:
        return {"x": text(r), "y": number(r)}

    return {
        "text": (f.Text(), text),
        "label": (f.ClassLabel(names=["a", "b", "c"]), lambda r: r.randint(-1, 2)),
        "int64": (f.Scalar(np.int64), lambda r: r.choice([2**63 - 1, -(2**63), number(r)])),
        "int32": (f.Scalar(np.int32), number),
        "uint8": (f.Scalar(np.uint8), lambda r: r.randint(0, 255)),
        "uint64": (f.Scalar(np.uint64), lambda r: r.choice([0, 2**64 - 1, 2**63])),
        "bool": (f.Scalar(np.bool_), lambda r: r.random() < 0.5),
        "float32": (f.Scalar(np.float32), small),
        "raw": (f.Tensor(shape=(), dtype=np.str_), lambda r: r.randbytes(r.randint(0, 5))),
        "raws": (
            f.Tensor(shape=(2,), dtype=np.str_),
            lambda r: np.array([b"\xff\1", b"x"], object),
        ),
        "vector": (f.Tensor(shape=(3,), dtype=np.float32), array("float32", 3)),
        "matrix": (f.Tensor(shape=(2, 3), dtype=np.int32), array("int32", 2, 3)),
        "bits": (f.Tensor(shape=(2, 2), dtype=np.bool_), lambda r: np.eye(2, dtype=bool)),
        "any": (
            f.Tensor(shape=(None,), dtype=np.int64),
            lambda r: array("int64", r.randint(0, 4))(r),
        ),
        "tall": (
            f.Tensor(shape=(None, 2), dtype=np.uint8),
            lambda r: array("uint8", r.randint(0, 3), 2)(r),
        ),
        "wide": (
            f.Tensor(shape=(2, None), dtype=np.uint8),
            lambda r: array("uint8", 2, r.randint(0, 3))(r),
        ),
        "cube": (f.Tensor(shape=(2, 1, 2), dtype=np.int16), array("int16", 2, 1, 2)),
        "zipped": (f.Tensor(shape=(2,), dtype=np.float64, encoding="zlib"), array("float64", 2)),
        "bytes": (f.Tensor(shape=(2, 2), dtype=np.int32, encoding="bytes"), array("int32", 2, 2)),
        "shapes": (
            f.Tensor(shape=(None, None, 1), dtype=np.float32, encoding="zlib"),
            lambda r: array("float32", r.randint(1, 3), r.randint(1, 3), 1)(r),
        ),
        "image": (f.Image(shape=(None, None, 3)), png),
        "gray": (f.Image(shape=(None, None, 1)), lambda r: png(r, 1)),
        "pixels": (
            f.Image(shape=(None, None, 1), dtype=np.float32),
            lambda r: array("float32", 2, 3, 1)(r),
        ),
        "video": (
            f.Video(shape=(None, 2, 2, 3)),
            lambda r: [array("uint8", 2, 2, 3)(r) for _ in range(r.randint(1, 2))],
        ),
        "audio": (f.Audio(), lambda r: array("int64", r.randint(0, 5))(r)),
        "box": (f.BBoxFeature(), lambda r: f.BBox(0.0, 0.25, 0.5, 1.0)),
        "ints": (f.Sequence(np.int64), items(number)),
        "texts": (f.Sequence(f.Text()), items(text)),
        "many": (f.Sequence(f.Text()), items(text, 30)),
        "two": (f.Sequence(f.ClassLabel(num_classes=3), length=2), lambda r: [1, 2]),
        "vectors": (f.Sequence(f.Tensor(shape=(2,), dtype=np.float32)), items(array("float32", 2))),
        # TFDS stacks the images of a sequence, so they have one size here.
        "images": (f.Sequence(f.Image()), items(lambda r: array("uint8", 2, 2, 3)(r))),
        "packs": (
            f.Sequence(f.Tensor(shape=(2,), dtype=np.int32, encoding="bytes")),
            lambda r: [array("int32", 2)(r) for _ in range(r.randint(1, 3))],
        ),
        "deep": (f.Sequence(f.Sequence(np.int64)), items(items(number))),
        "deeper": (f.Sequence(f.Sequence(f.Sequence(f.Text()))), items(items(items(text)))),
        "pairs": (
            f.Sequence(f.Sequence(f.Tensor(shape=(2,), dtype=np.int64))),
            items(items(array("int64", 2))),
        ),
        "columns": (f.Sequence({"x": f.Text(), "y": np.int64}), items(row)),
        "boxes": (
            f.Sequence({"box": f.BBoxFeature(), "tags": f.Sequence(f.Text())}),
            items(lambda r: {"box": f.BBox(0.0, 0.0, 1.0, 1.0), "tags": items(text)(r)}),
        ),
        "rows": (f.Dataset({"x": f.Text(), "y": np.int64}), items(row)),
        "rows2": (
            f.Dataset({"x": f.Sequence(np.int64), "d": {"e": f.Text()}}),
            items(lambda r: {"x": items(number)(r), "d": {"e": text(r)}}),
        ),
        "translation": (f.Translation(["en", "de"]), lambda r: {"en": text(r), "de": text(r)}),
        "languages": (
            f.TranslationVariableLanguages(["en", "de"]),
            lambda r: {"en": ["a", text(r)], "de": text(r)},
        ),
        "nested": (
            f.FeaturesDict({"a": np.int64, "b": {"c": f.Text(), "d": {"e": np.float32}}}),
            lambda r: {"a": number(r), "b": {"c": text(r), "d": {"e": small(r)}}},
        ),
    }


NAMES = [
    *("text label int64 int32 uint8 uint64 bool float32 raw raws vector matrix bits any").split(),
    *("tall wide cube zipped bytes shapes image gray pixels video audio box ints texts").split(),
    *("many two vectors images packs deep deeper pairs columns boxes rows rows2").split(),
    *("translation languages nested").split(),
]


def test_every_kind_is_listed() -> None:
    assert list(kinds()) == NAMES


def described(features: Any, folder: Path) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """features.json and the label files, as TFDS writes them."""
    features.save_config(folder)
    labels = {
        path.name.removesuffix(".labels.txt"): path.read_text().splitlines()
        for path in folder.glob("*.labels.txt")
    }
    return json.loads((folder / "features.json").read_text()), labels


def plain(value: Any) -> Any:
    """What TFDS gives as lists, dicts, bytes and numbers."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "to_list"):
        return value.to_list()
    if hasattr(value, "as_numpy_iterator"):
        return [plain(each) for each in value.as_numpy_iterator()]
    array = value.numpy() if hasattr(value, "numpy") else value
    return array.tolist() if hasattr(array, "tolist") else array


def ours(value: Any) -> Any:
    """A row of ours in the same terms: texts as bytes, images as lists of pixels."""
    if isinstance(value, dict):
        return {name: ours(each) for name, each in value.items()}
    if isinstance(value, list):
        return [ours(each) for each in value]
    if isinstance(value, str):
        return value.encode()
    if hasattr(value, "__array_interface__"):
        pixels = np.asarray(value)
        return (pixels[..., None] if pixels.ndim == 2 else pixels).tolist()
    return value


def made(names: list[str], seed: int, tmp_path: Path) -> tuple[Any, list[bytes], ExampleReader]:
    from tensorflow_datasets.core import features as f

    known = kinds()
    features = f.FeaturesDict({name: known[name][0] for name in names})
    encode = compile_encoder(features)
    r = random.Random(seed)
    records = [encode({name: known[name][1](r) for name in names}) for _ in range(ROWS)]
    return features, records, ExampleReader(*described(features, tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_alone_reads_as_tfds_reads_it(name: str, tmp_path: Path) -> None:
    features, records, reader = made([name], len(name), tmp_path)
    table = reader.table(records)
    assert table.schema.field(name).type == type_of(reader.features[name])
    table.validate(full=True)
    rows = [reader.features.decode_example(row) for row in table.to_pylist()]
    for row, record in zip(rows, records, strict=True):
        expected = plain(features.deserialize_example(record))
        assert str(ours(row)) == str(expected) or ours(row) == expected


def test_all_kinds_together_and_through_the_slow_path(tmp_path: Path) -> None:
    _, records, reader = made(NAMES, 7, tmp_path)
    fast = reader.table(records)
    slow = reader._slow(
        np.frombuffer(b"".join(records), np.uint8),
        np.cumsum([0, *map(len, records)])[:-1],
        np.cumsum([len(each) for each in records]),
        np.arange(len(records)),
    )
    assert fast.equals(slow)
    assert reader.columns(["rows", "text"]).table(records).equals(fast.select(["rows", "text"]))


def test_records_whose_entries_lie_in_another_order(tmp_path: Path) -> None:
    from tensorflow_datasets.proto import tf_example_pb2

    names = ["text", "label", "ints", "nested", "float32"]
    _, records, reader = made(names, 3, tmp_path)
    r = random.Random(1)
    shuffled = []
    for record in records:
        example = tf_example_pb2.Example.FromString(record)
        keys = sorted(example.features.feature)
        r.shuffle(keys)
        parts = []
        for key in keys:
            one = tf_example_pb2.Example()
            one.features.feature[key].CopyFrom(example.features.feature[key])
            # Messages joined are merged, so each key may come in a Features message of its own.
            parts.append(one.features.SerializeToString())
        body = b"".join(parts)
        whole = tf_example_pb2.Example()
        whole.features.MergeFromString(body)
        assert whole == example
        size, head = len(body), bytearray([0x0A])
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        shuffled.append(bytes([*head, size]) + body)
    assert shuffled != records
    assert reader.table(shuffled).equals(reader.table(records))


def test_tf_io_parse_example_gives_the_same_columns(tmp_path: Path) -> None:
    import tensorflow as tf

    _, records, reader = made(["text", "label", "float32", "ints", "vector"], 11, tmp_path)
    parsed = tf.io.parse_example(
        records,
        {
            "text": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
            "float32": tf.io.FixedLenFeature([], tf.float32),
            "ints": tf.io.RaggedFeature(tf.int64),
            "vector": tf.io.FixedLenFeature([3], tf.float32),
        },
    )
    table = reader.table(records)
    assert table["text"].cast(pa.binary()).to_pylist() == parsed["text"].numpy().tolist()
    for name in ("label", "float32", "vector"):
        assert table[name].to_pylist() == parsed[name].numpy().tolist()
    assert table["ints"].to_pylist() == parsed["ints"].to_list()


def test_optional_values_that_are_absent(tmp_path: Path) -> None:
    from tensorflow_datasets.core import features as f

    features = f.FeaturesDict(
        {
            "n": f.Scalar(np.int64, optional=True),
            "v": f.Tensor(shape=(2,), dtype=np.float32, optional=True),
            "t": f.Text(),
        }
    )
    encode = compile_encoder(features)
    rows = [
        {"n": None if i % 3 == 0 else i, "v": None if i % 2 else np.ones(2, np.float32), "t": "x"}
        for i in range(12)
    ]
    reader = ExampleReader(*described(features, tmp_path))
    read = reader.table([encode(row) for row in rows]).to_pylist()
    assert [row["n"] for row in read] == [row["n"] for row in rows]
    assert [row["v"] for row in read] == [None if i % 2 else [1.0, 1.0] for i in range(12)]
