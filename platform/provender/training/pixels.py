"""Pixels of small PNG images without the ceremony of opening a file.

Pillow finds out what a file is, reads its chunks through a file object and keeps their metadata, which
costs a small image three times its decoding. Here only what the header of a plain PNG says is read
(PNG specification, sections 5 and 11), and Pillow's own decoder gets the compressed rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = 33
"""Bytes of the signature and of the IHDR chunk, which comes first."""

_MODES = {b"\x08\x00": ("L", 1), b"\x08\x02": ("RGB", 3), b"\x08\x06": ("RGBA", 4)}
"""Bit depth and colour type -> Pillow's mode, and channels."""


def png_pixels(data: bytes, channels: int | None) -> np.ndarray | None:
    """The pixels of a plain PNG image.

    Args:
        data: the file.
        channels: those that the caller expects; None for any.

    Returns:
        uint8, (height, width, channels), writable; the values are Pillow's. None for other
        formats and for what a PNG may have beyond eight bits of grey or colour, with or without
        alpha, in rows one after the other (palettes, interlacing, transparent colours, damage).
    """
    from PIL import Image

    mode, found = _MODES.get(data[24:26], ("", 0))
    if not mode or channels not in (None, found) or data[28:29] != b"\0":
        return None
    rows = _rows(data)
    if rows is None:
        return None
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if not 0 < width * height <= (Image.MAX_IMAGE_PIXELS or 0):
        return None
    try:
        image = Image.frombytes(mode, (width, height), rows, "zip", mode, False)
    except (ValueError, OSError):
        return None
    # Writable, as OpenCV would give them; torch warns of arrays that are not.
    return np.frombuffer(bytearray(image.tobytes()), np.uint8).reshape(height, width, found)


def _rows(data: bytes) -> bytes | None:
    """The compressed rows; None if there is any chunk besides header, data and end."""
    if not data.startswith(_SIGNATURE) or data[8:16] != b"\0\0\0\rIHDR":
        return None
    parts, at = [], _HEADER
    while (kind := data[at + 4 : at + 8]) == b"IDAT":
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        parts.append(data[at + 8 : end])
        at = end + 4
    if kind != b"IEND" or not parts:
        return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def image_decoder(feature: Any) -> Any:
    """What makes pixels of the stored bytes of a `tfds.features.Image`, as TFDS's NumPy decoding.

    Args:
        feature: the feature connector.
    """
    general = feature.decode_example_np
    if feature.np_dtype != np.uint8:
        return general
    channels = feature.shape[-1]

    def decode(data: bytes) -> np.ndarray:
        found = png_pixels(data, channels)
        return general(data) if found is None else found

    return decode
