"""Pixels of stored images are those of TFDS's NumPy decoding, whatever way they are found."""

from __future__ import annotations

import io
import struct
import zlib
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from provender.errors import SettingsError
from provender.training import pixels
from provender.training.pixels import image_decoder, png_pixels

IMAGES = st.sampled_from([1, 3, 4]).flatmap(
    lambda channels: arrays(
        np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40), st.just(channels))
    )
)
WAYS = {
    "kornia": pixels.kornia and pixels._by_kornia,
    "codecs": pixels._by_codecs,
    "images": pixels._by_images,
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = WAYS[request.param]
    if chosen is None:
        pytest.skip("kornia-rs is not installed")
    monkeypatch.setattr(pixels, "_short_way", lambda: chosen)


def saved(values: np.ndarray, mode: str | None = None, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray(values if values.shape[-1] > 1 else values[..., 0])
    (image.convert(mode) if mode else image).save(file, form, **options)
    return file.getvalue()


def filtered(values: np.ndarray, kinds: list[int], parts: int, level: int) -> bytes:
    """A PNG whose rows have the given filters in turn, with its data in so many chunks."""
    height, width, channels = values.shape
    lines, above = [], np.zeros(width * channels, np.int64)
    for at, row in enumerate(values.reshape(height, -1).astype(np.int64)):
        left = np.concatenate([np.zeros(channels, np.int64), row[:-channels]])
        corner = np.concatenate([np.zeros(channels, np.int64), above[:-channels]])
        kind = kinds[at % len(kinds)]
        guess = (0, left, above, (left + above) // 2, paeth(left, above, corner))[kind]
        lines.append(bytes([kind]) + ((row - guess) % 256).astype(np.uint8).tobytes())
        above = row
    return png(zlib.compress(b"".join(lines), level), values.shape, parts=parts)


def paeth(left: np.ndarray, above: np.ndarray, corner: np.ndarray) -> np.ndarray:
    near = left + above - corner
    to_left, to_above, to_corner = abs(near - left), abs(near - above), abs(near - corner)
    rest = np.where(to_above <= to_corner, above, corner)
    return np.where((to_left <= to_above) & (to_left <= to_corner), left, rest)


def png(rows: bytes, shape: tuple[int, ...], parts: int = 1, interlaced: bool = False) -> bytes:
    colour = {1: 0, 3: 2, 4: 6}[shape[2]]
    header = struct.pack(">IIBBBBB", shape[1], shape[0], 8, colour, 0, 0, interlaced)
    size = -(-len(rows) // parts)
    chunks = [(b"IDAT", rows[at : at + size]) for at in range(0, len(rows), size)]
    chunks = [(b"IHDR", header), *chunks, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
        for kind, body in chunks
    )


def interlaced(values: np.ndarray) -> bytes:
    passes = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1))  # fmt: skip
    rows = (row for y, dy, x, dx in passes for row in values[y::dy, x::dx])
    data = b"".join(b"\0" + row.tobytes() for row in rows if row.size)
    return png(zlib.compress(data), values.shape, interlaced=True)


# The fixture only says which way, and is the same for all examples.
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    IMAGES,
    st.lists(st.integers(0, 4), min_size=1, max_size=9),
    st.integers(1, 3),
    st.integers(0, 9),
)
def test_png_pixels_are_those_of_tensorflow(
    way: None, values: np.ndarray, kinds: list[int], parts: int, level: int
) -> None:
    data = filtered(values, kinds, parts, level)
    found = png_pixels(data, values.shape[-1])
    assert found is not None
    assert np.array_equal(found, values)
    theirs = tfds.features.Image(shape=values.shape).decode_example_np(data)
    assert np.array_equal(found, theirs)
    assert np.array_equal(found, tf.io.decode_png(data).numpy())
    assert found.dtype == theirs.dtype == np.uint8
    assert found.flags.writeable
    assert found.flags.c_contiguous


@settings(max_examples=20, deadline=None)
@given(IMAGES, st.integers(0, 9))
def test_pngs_that_pillow_wrote_go_the_short_way(values: np.ndarray, level: int) -> None:
    found = png_pixels(saved(values, compress_level=level), values.shape[-1])
    assert found is not None
    assert np.array_equal(found, values)


def test_a_large_image_leaves_other_threads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "_short_way", None)
    values = np.random.default_rng(1).integers(0, 255, (600, 601, 3), np.uint8)
    found = png_pixels(saved(values, compress_level=0), 3)
    assert found is not None
    assert np.array_equal(found, values)


@pytest.mark.parametrize("name", ["new", "zip_decoder", "raw_encoder"])
@pytest.mark.parametrize("other", [None, lambda *_: None], ids=["missing", "other"])
def test_a_pillow_with_other_codecs_is_asked_by_its_documented_functions(
    name: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pixels._way() is pixels._by_codecs
    names = ("new", "zip_decoder", "raw_encoder")
    core = SimpleNamespace(**{each: getattr(Image.core, each) for each in names})
    setattr(core, name, other)
    monkeypatch.setattr(pixels.Image, "core", core)
    assert pixels._way.__wrapped__() is pixels._by_images


@pytest.mark.parametrize(
    "other",
    [
        lambda data, size, mode: np.zeros((*size, len(mode)), np.uint8),
        lambda data, size: np.zeros(size, np.uint8),
        lambda data, size, mode: data,
    ],
    ids=["other values", "other arguments", "no array"],
)
def test_another_kornia_is_not_asked(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "kornia", other)
    assert pixels._short_way.__wrapped__() is pixels._way()


PIXELS = np.random.default_rng(5).integers(0, 255, (20, 30, 3), np.uint8)
OTHERS = {
    "jpeg": saved(PIXELS, form="JPEG"),
    "palette": saved(PIXELS, mode="P"),
    "transparent": saved(PIXELS, transparency=(1, 2, 3)),
    "with text": saved(PIXELS, pnginfo=None, dpi=(72, 72)),
    "interlaced": interlaced(PIXELS),
    "grey with alpha": saved(PIXELS[..., :2]),
    "16 bit grey": saved(PIXELS[..., :1].astype(np.uint16) * 257),
    "1 bit": saved(PIXELS[..., :1], mode="1"),
}
CHANNELS = {"palette": 1, "grey with alpha": 2, "16 bit grey": 1, "1 bit": 1}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_plain_png_goes_the_general_way(kind: str) -> None:
    assert png_pixels(OTHERS[kind], None) is None
    feature = tfds.features.Image(shape=(None, None, CHANNELS.get(kind, 3)))
    found, theirs = image_decoder(feature)(OTHERS[kind]), feature.decode_example_np(OTHERS[kind])
    assert np.array_equal(found, theirs)
    assert found.shape == theirs.shape == (20, 30, CHANNELS.get(kind, 3))
    if kind == "interlaced":
        assert np.array_equal(found, PIXELS)


def test_images_of_16_bits_need_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    feature = tfds.features.Image(shape=(20, 30, 1), dtype=np.uint16)
    if find_spec("cv2") is not None:
        assert image_decoder(feature)(OTHERS["16 bit grey"]).dtype == np.uint16
    monkeypatch.setattr(pixels, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="OpenCV") as told:
        image_decoder(feature)
    assert "columns=" in told.value.hint


def test_rows_that_are_not_there_are_what_pillow_makes_of_them(way: None) -> None:
    taller = saved(PIXELS).replace(b"\0\0\0\x14\x08\x02", b"\0\0\0\x15\x08\x02")
    taller = taller[:29] + zlib.crc32(taller[12:29]).to_bytes(4, "big") + taller[33:]
    feature = tfds.features.Image(shape=(21, 30, 3))
    found = image_decoder(feature)(taller)
    assert found.shape == (21, 30, 3)
    assert np.array_equal(found, feature.decode_example_np(taller))


def test_damaged_and_oversized_images_are_left_to_pillow(
    way: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = saved(PIXELS)
    at = data.index(b"IDAT")
    broken = data[: at + 20] + b"\0" * 40 + data[at + 60 :]
    assert png_pixels(broken, 3) is None
    assert png_pixels(data[:-30], 3) is None
    assert png_pixels(data[:19] + b"\x1d" + data[20:], 3) is None
    assert png_pixels(data, 1) is None
    for size in (0, 1, 1 << 16, (1 << 32) - 1):
        assert png_pixels(data[: at - 4] + size.to_bytes(4, "big") + data[at:], 3) is None
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 599)
    assert png_pixels(data, 3) is None
