"""The PNG encoder against TensorFlow's: the same files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.errors import ExampleError
from provender.records import compile_encoder, png


@pytest.fixture(scope="module")
def encode_png(tfds: Any) -> Any:
    import tensorflow as tf

    return lambda array: tf.io.encode_png(array).numpy()


def noise(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> np.ndarray:
    return rng.integers(0, top + 1, shape)


def flat(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> np.ndarray:
    return np.full(shape, rng.integers(0, top + 1))


def gradient(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> np.ndarray:
    slopes = rng.integers(-20, 20, 3)
    return sum(s * axis for s, axis in zip(slopes, np.indices(shape), strict=True)) % (top + 1)


def natural(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> np.ndarray:
    """A random walk in both directions, with a little noise: smooth, like a photograph."""
    walk = rng.normal(0, 1, shape).cumsum(0).cumsum(1)
    smooth = (walk - walk.min()) / (np.ptp(walk) + 1e-9)
    return (smooth * 0.95 + rng.random(shape) * 0.05) * top


def sparse(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> np.ndarray:
    return (rng.random(shape) < 0.03) * noise(rng, shape, top)


def palette(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> np.ndarray:
    return rng.integers(0, 3, shape) * (top // 2)


def tiles(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> np.ndarray:
    height, width, channels = shape
    tile = noise(rng, (7, 9, channels), top)
    return np.tile(tile, (height // 7 + 1, width // 9 + 1, 1))[:height, :width]


CONTENTS = [noise, flat, gradient, natural, sparse, palette, tiles]
DTYPES = [np.uint8, np.uint16]


def draw(content: Any, seed: int, shape: tuple[int, int, int], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return content(rng, shape, int(np.iinfo(dtype).max)).astype(dtype)


@settings(max_examples=500, deadline=None)
@given(
    content=st.sampled_from(CONTENTS),
    seed=st.integers(0, 2**32),
    height=st.one_of(st.integers(1, 3), st.integers(1, 90)),
    width=st.one_of(st.integers(1, 3), st.integers(1, 90)),
    channels=st.integers(1, 4),
    dtype=st.sampled_from(DTYPES),
)
def test_any_small_image(
    encode_png: Any, content: Any, seed: int, height: int, width: int, channels: int, dtype: Any
) -> None:
    image = draw(content, seed, (height, width, channels), dtype)
    assert png.covers(image)
    assert png.encode(image) == encode_png(image)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), channels=st.integers(1, 4), dtype=st.sampled_from(DTYPES))
def test_any_bytes(encode_png: Any, data: Any, channels: int, dtype: Any) -> None:
    height, width = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    size = height * width * channels * np.dtype(dtype).itemsize
    raw = data.draw(st.binary(min_size=size, max_size=size))
    image = np.frombuffer(raw, dtype).reshape(height, width, channels)
    assert png.encode(image) == encode_png(image)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_where_an_encoder_changes_its_ways(encode_png: Any, content: Any, dtype: Any) -> None:
    """Single rows and columns, the data sizes around each window, several chunks and bands."""
    shapes = [(1, 1, 1), (1, 1, 4), (1, 700, 3), (700, 1, 3), (1, 30_000, 1), (30_000, 1, 2)]
    shapes += [(1, width, 1) for width in (255, 256, 257, 511, 513, 4095, 4096, 4097)]
    shapes += [(1, (1 << bits) - 262 + near, 1) for bits in (9, 12, 14) for near in (-2, -1, 0)]
    shapes += [(1, 16_382, 1), (1, 16_383, 1), (1, 16_384, 1), (200, 300, 3), (3, 25_000, 4)]
    for shape in shapes:
        image = draw(content, 1, shape, dtype)
        assert png.encode(image) == encode_png(image), shape


def test_a_stream_that_fills_its_chunks_exactly(encode_png: Any) -> None:
    for width in [*range(8174, 8186), *range(16_362, 16_370)]:
        image = draw(noise, 2, (1, width, 1), np.uint8)
        assert png.encode(image) == encode_png(image), width


def test_large_images(encode_png: Any) -> None:
    for content in (natural, palette):
        image = draw(content, 3, (700, 900, 3), np.uint8)
        assert png.encode(image) == encode_png(image)


def test_arrays_of_any_memory_layout(encode_png: Any) -> None:
    image = draw(natural, 4, (40, 50, 3), np.uint16)
    for view in (image[::-1], image[:, ::2], image.transpose(1, 0, 2), np.asfortranarray(image)):
        assert png.encode(view) == encode_png(np.ascontiguousarray(view))


def test_what_is_not_covered() -> None:
    good = np.zeros((4, 5, 3), np.uint8)
    assert png.covers(good)
    for bad in (
        good[0],
        good[None],
        good.astype(np.int8),
        good.astype(np.float32),
        good.astype(">u2"),
        good[:0],
        good[:, :0],
        good[:, :, :0],
        np.zeros((4, 5, 5), np.uint8),
        np.zeros((1, 100_000, 1), np.uint8),
    ):
        assert not png.covers(bad), (bad.shape, bad.dtype)


def test_this_python_compresses_like_classic_zlib_and_another_is_noticed() -> None:
    import zlib

    png.available.cache_clear()
    assert png.available()

    def other(level: int, *rest: Any) -> Any:
        return classic(level - 1, *rest)

    classic = zlib.compressobj
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zlib, "compressobj", other)
        png.available.cache_clear()
        assert not png.available()
    png.available.cache_clear()


# --- as a feature ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def features(tfds: Any) -> Any:
    f = tfds.features
    return f.FeaturesDict(
        {
            "any": f.Image(),
            "deep": f.Image(shape=(4, 5, 1), dtype=np.uint16, encoding_format="png"),
            "real": f.Image(shape=(None, None, 1), dtype=np.float32),
            "mask": f.LabeledImage(labels=3, shape=(None, None, 1)),
            "lossy": f.Image(shape=(8, 8, 3), encoding_format="jpeg"),
            "frames": f.Sequence(f.Image(shape=(6, 7, 3)), length=2),
            "inner": {"image": f.Image(shape=(None, None, 4)), "name": f.Text()},
            "objects": f.Sequence({"crop": f.Image(shape=(None, None, 2)), "id": np.int64}),
        }
    )


def example() -> dict[str, Any]:
    return {
        "any": draw(natural, 1, (9, 8, 3), np.uint8),
        "deep": draw(natural, 2, (4, 5, 1), np.uint16),
        "real": np.random.default_rng(3).normal(size=(6, 6, 1)).astype(np.float32),
        "mask": draw(palette, 4, (9, 9, 1), np.uint8),
        "lossy": draw(natural, 5, (8, 8, 3), np.uint8),
        "frames": draw(natural, 6, (12, 7, 3), np.uint8).reshape(2, 6, 7, 3),
        "inner": {"image": draw(flat, 7, (3, 3, 4), np.uint8), "name": "x"},
        "objects": [{"crop": draw(noise, i, (i, 2, 2), np.uint8), "id": i} for i in (1, 2, 3)],
    }


def test_image_features_store_what_tfds_stores(features: Any) -> None:
    assert compile_encoder(features)(example()) == features.serialize_example(example())


def test_without_a_classic_zlib_images_go_through_tfds(
    features: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(png, "available", lambda: False)
    monkeypatch.setattr(png, "encode", lambda _: pytest.fail("encoded here"))
    assert compile_encoder(features)(example()) == features.serialize_example(example())


def test_files_pass_through(features: Any, tmp_path: Any) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"pixels of a file")
    encode = compile_encoder(features)
    for given_as in (b"pixels of a file", str(file), file):
        changed = example() | {"any": given_as}
        assert encode(changed) == features.serialize_example(changed)
    from_file_object = encode(example() | {"any": io.BytesIO(b"pixels of a file")})
    assert from_file_object == features.serialize_example(example() | {"any": str(file)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("any", np.zeros((4, 4, 3), np.int64)),
        ("any", np.zeros((4, 4, 3), np.uint16)),
        ("any", np.zeros((4, 4), np.uint8)),
        ("any", np.zeros((4, 4, 1), np.uint8)),
        ("any", np.zeros((0, 4, 3), np.uint8)),
        ("any", [[[1, 2, 3]]]),
        ("any", None),
        ("deep", np.zeros((4, 6, 1), np.uint16)),
        ("deep", np.zeros((4, 5, 1), ">u2")),
        ("real", np.zeros((4, 4, 1), np.float64)),
        ("real", np.zeros((4, 2, 4), np.float32)[:, :, ::2]),
        ("real", b"a file"),
        ("frames", np.zeros((3, 6, 7, 3), np.uint8)),
        ("objects", [{"crop": np.zeros((1, 1, 3), np.uint8), "id": 1}]),
    ],
)
def test_refuses_what_tfds_refuses(features: Any, name: str, value: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017 - TFDS raises many kinds
        features.serialize_example(example() | {name: value})
    with pytest.raises(ExampleError, match=name):
        compile_encoder(features)(example() | {name: value})
