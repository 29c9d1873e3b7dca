"""Whole splits, byte for byte against the installed tensorflow_datasets."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import build_shards

COUNT = 300


def text_case(tfds: Any) -> tuple[Any, Callable[[], Any]]:
    features = tfds.features.FeaturesDict(
        {
            "text": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["no", "yes", "maybe"]),
            "zz": np.int32,
            "A": np.str_,
        }
    )

    def make() -> Any:
        for i in range(COUNT):
            yield (
                f"dir\\file_{i}",
                {
                    "text": f"x{i} \0 \ufeff \r\n é中" * (i % 40),
                    "label": ["no", 1, "maybe", -1][i % 4],
                    "zz": i - 100,
                    "A": b"\xff\xfe\0" if i % 2 else "",
                },
            )

    return features, make


def nested_case(tfds: Any) -> tuple[Any, Callable[[], Any]]:
    f = tfds.features
    features = f.FeaturesDict(
        {
            "faces": f.Sequence({"box": f.BBoxFeature(), "name": f.Text()}),
            "tokens": f.Sequence(f.Sequence(np.int32)),
            "ids": f.Sequence(np.int64),
            "three": f.Sequence(np.float32, length=3),
            "names": f.Sequence(f.Text()),
            "tags": f.Sequence(f.ClassLabel(num_classes=7)),
            "meta": {"height": np.uint8, "deep": {"ok": np.bool_, "é": f.Text()}},
            "grid": f.Tensor(shape=(2, None), dtype=np.uint8),
            "packed": f.Tensor(shape=(None, None), dtype=np.float32, encoding="zlib"),
            "pair": f.Translation(languages=["en", "de"]),
        }
    )

    def make() -> Any:
        for i in range(COUNT):
            boxes = [
                {"box": tfds.features.BBox(0.1, 0.2, 0.3, 0.4), "name": f"n{j}"}
                for j in range(i % 3)
            ]
            yield (
                i,
                {
                    "faces": boxes,
                    "tokens": [list(range(j)) for j in range(i % 4)],
                    "ids": [j * 10**i % 2**62 for j in range(i % 5)]
                    if i % 2
                    else np.arange(-2, i % 7),
                    "three": [0.5, float(i), -1e-8],
                    "names": ["a", b"b\0", ""][: i % 4],
                    "tags": ["3", 2, 6][: i % 4],
                    "meta": {"height": i % 256, "deep": {"ok": i % 2 == 0, "é": "ü"}},
                    "grid": np.full((2, i % 5), 200, np.uint8),
                    "packed": np.ones((i % 2 + 1, 3), np.float32),
                    "pair": {"en": "hello", "de": f"hallo {i}"},
                },
            )

    return features, make


def image_case(tfds: Any) -> tuple[Any, Callable[[], Any]]:
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(shape=(None, None, 3)),
            "label": tfds.features.ClassLabel(num_classes=10),
        }
    )

    def make() -> Any:
        for i in range(60):
            pixels = np.full((4, i % 5 + 1, 3), i, np.uint8)
            raw = b"\x89PNG raw" + bytes([i])
            yield f"{i}", {"image": [pixels, raw, io.BytesIO(raw)][i % 3], "label": i % 10}

    return features, make


def numpy_keys_case(tfds: Any) -> tuple[Any, Callable[[], Any]]:
    features = tfds.features.FeaturesDict({"n": np.int64})

    def make() -> Any:
        for i in range(COUNT):
            key = [np.array([i]), np.array(f"k{i}"), f"b{i}".encode(), i + 10**6][i % 4]
            yield key, {"n": np.int64(i)}

    return features, make


CASES = {
    "text": text_case,
    "nested": nested_case,
    "image": image_case,
    "numpy_keys": numpy_keys_case,
}


@pytest.mark.parametrize("case", CASES)
def test_two_splits_in_any_number_of_parts_equal_tfds(
    case: str, tfds: Any, tfds_shards: Any, tmp_path: Path
) -> None:
    features, make = CASES[case](tfds)
    splits = {"train": make, "test": make}
    expected = tfds_shards(features, splits, num_shards=3)
    assert len(expected) == 6
    for parts, chunk, flush in ((1, 512, 64 << 20), (2, 16, 4096), (4, 7, 1)):
        where = tmp_path / f"{parts}"
        ours = build_shards(
            where, features, splits, parts=parts, num_shards=3, chunk=chunk, flush_bytes=flush
        )
        assert ours == expected


@pytest.mark.parametrize("keys", ["int", "str"])
@pytest.mark.parametrize("parts", [1, 3])
def test_builders_that_keep_the_order(
    keys: str, parts: int, tfds: Any, tfds_shards: Any, tmp_path: Path
) -> None:
    features = tfds.features.FeaturesDict({"text": tfds.features.Text()})

    def make() -> Any:
        for i in range(COUNT):
            number = (i * 7919) % COUNT - 20
            yield (number if keys == "int" else f"k{number}"), {"text": f"{i}"}

    expected = tfds_shards(features, {"train": make}, num_shards=2, in_order=True)
    ours = build_shards(
        tmp_path, features, {"train": make}, parts=parts, num_shards=2, in_order=True, chunk=32
    )
    assert ours == expected


def test_automatic_shard_count_and_large_split(tfds: Any, tfds_shards: Any, tmp_path: Path) -> None:
    features = tfds.features.FeaturesDict({"blob": tfds.features.Text()})

    def make() -> Any:
        for i in range(1400):
            yield i, {"blob": bytes([i % 251]) * 100_000}

    expected = tfds_shards(features, {"train": make})
    assert len(expected) == 2
    ours = build_shards(tmp_path, features, {"train": make}, parts=2, flush_bytes=8 << 20)
    assert ours == expected
