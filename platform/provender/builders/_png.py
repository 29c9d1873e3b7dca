"""The smallest PNG writer that does: 8-bit grey images, the same bytes on every machine."""

from __future__ import annotations

import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY_8_BIT = (8, 0, 0, 0, 0)  # bit depth, colour type, compression, filter method, interlace
_NO_FILTER = b"\x00"


def encode_grey(pixels: bytes, width: int, height: int) -> bytes:
    """Writes one grey image (PNG specification, third edition, W3C).

    The pixels are stored, not compressed: zlib's level 0 leaves an implementation nothing to
    choose, where other levels differ between zlib, zlib-ng and their versions. Only for small
    images: 8 x 8 pixels take about 25 bytes more than at level 9, larger ones much more.

    Args:
        pixels: ``width * height`` bytes, row by row, 0 black to 255 white.
        width: pixels in a row, at least 1.
        height: rows, at least 1.

    Returns:
        The file's bytes.

    Raises:
        ValueError: the number of pixels is not width times height, or either is below 1.
    """
    if width < 1 or height < 1 or len(pixels) != width * height:
        message = f"{len(pixels)} pixels do not fill {width} x {height}"
        raise ValueError(message)
    rows = b"".join(
        _NO_FILTER + pixels[start : start + width] for start in range(0, len(pixels), width)
    )
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", struct.pack(">II5B", width, height, *_GREY_8_BIT)),
            _chunk(b"IDAT", zlib.compress(rows, level=0)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return b"".join(
        (struct.pack(">I", len(body)), kind, body, struct.pack(">I", zlib.crc32(kind + body)))
    )
