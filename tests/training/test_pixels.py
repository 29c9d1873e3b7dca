"""Pixels of stored images are those of TFDS's NumPy decoding, whatever way they are found."""

from __future__ import annotations

import io
import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from provender.training.pixels import image_decoder, png_pixels


def saved(pixels: np.ndarray, mode: str | None = None, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray(pixels if pixels.shape[-1] > 1 else pixels[..., 0])
    (image.convert(mode) if mode else image).save(file, form, **options)
    return file.getvalue()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([1, 3, 4]).flatmap(
        lambda channels: arrays(
            np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40), st.just(channels))
        )
    ),
    st.integers(0, 9),
)
def test_png_pixels(pixels: np.ndarray, level: int) -> None:
    data = saved(pixels, compress_level=level)
    found = png_pixels(data, pixels.shape[-1])
    assert found is not None
    assert np.array_equal(found, pixels)
    theirs = tfds.features.Image(shape=pixels.shape).decode_example_np(data)
    assert np.array_equal(found, theirs)
    assert found.dtype == theirs.dtype
    assert found.flags.writeable


PIXELS = np.random.default_rng(5).integers(0, 255, (20, 30, 3), np.uint8)
OTHERS = {
    "jpeg": saved(PIXELS, form="JPEG"),
    "palette": saved(PIXELS, mode="P"),
    "transparent": saved(PIXELS, transparency=(1, 2, 3)),
    "with text": saved(PIXELS, pnginfo=None, dpi=(72, 72)),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_plain_png_goes_the_general_way(kind: str) -> None:
    assert png_pixels(OTHERS[kind], None) is None
    shape = (None, None, 1 if kind == "palette" else 3)
    feature = tfds.features.Image(shape=shape)
    assert np.array_equal(
        image_decoder(feature)(OTHERS[kind]), feature.decode_example_np(OTHERS[kind])
    )


def test_rows_that_are_not_there_are_what_pillow_makes_of_them() -> None:
    taller = saved(PIXELS).replace(b"\0\0\0\x14\x08\x02", b"\0\0\0\x15\x08\x02")
    taller = taller[:29] + zlib.crc32(taller[12:29]).to_bytes(4, "big") + taller[33:]
    found = png_pixels(taller, 3)
    assert found is not None
    assert found.shape == (21, 30, 3)
    assert np.array_equal(found, tfds.features.Image(shape=(21, 30, 3)).decode_example_np(taller))


def test_damaged_and_oversized_images_are_left_to_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(PIXELS)
    at = data.index(b"IDAT")
    broken = data[: at + 20] + b"\0" * 40 + data[at + 60 :]
    assert png_pixels(broken, 3) is None
    assert png_pixels(data[:-30], 3) is None
    assert png_pixels(data, 1) is None
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 599)
    assert png_pixels(data, 3) is None
