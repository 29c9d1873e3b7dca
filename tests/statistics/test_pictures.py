"""Sizes of images from their heads, against Pillow's."""

from __future__ import annotations

import io

import pytest

from provender.statistics.pictures import picture

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize(
    ("form", "mode", "channels"),
    [("PNG", "RGB", 3), ("PNG", "L", 1), ("PNG", "RGBA", 4), ("JPEG", "RGB", 3), ("JPEG", "L", 1), ("GIF", "P", 3)],
    ids=["png rgb", "png grey", "png alpha", "jpeg", "jpeg grey", "gif"],
)  # fmt: skip
def test_the_size_is_found(form: str, mode: str, channels: int) -> None:
    file = io.BytesIO()
    Image.new(mode, (37, 21)).save(file, form)
    assert picture(file.getvalue()) == (form.lower(), 37, 21, channels)


def test_a_jpeg_with_a_thumbnail_before_its_size() -> None:
    file = io.BytesIO()
    Image.new("RGB", (37, 21)).save(file, "JPEG", exif=b"Exif\0\0" + bytes(5000))
    assert picture(file.getvalue())[1:3] == (37, 21)


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"text", b"\xff\xd8\xff"])
def test_what_tells_no_size(data: bytes) -> None:
    assert picture(data)[1:] == (0, 0, 0)
