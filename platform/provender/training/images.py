"""What can be said of an image from its first bytes, without decoding it."""

from __future__ import annotations

from typing import Any

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_GIF = (b"GIF87a", b"GIF89a")
_BMP = b"BM"
# JPEG's start-of-frame markers: 0xC0 to 0xCF but DHT, JPG and DAC (ITU-T T.81, table B.1).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def summary(data: Any) -> Any:
    """A short account of bytes.

    Args:
        data: the bytes; anything else is given back as it is.

    Returns:
        ``{"bytes": length}``, and ``{"png": "WIDTHxHEIGHT"}`` likewise (or ``jpeg``, ``gif``,
        ``bmp``) where the bytes are such an image.
    """
    if not isinstance(data, bytes):
        return data
    found: dict[str, Any] = {"bytes": len(data)}
    if (size := image_size(data)) is not None:
        kind, width, height = size
        found[kind] = f"{width}x{height}"
    return found


def image_size(data: bytes) -> tuple[str, int, int] | None:
    """Format, width and height in pixels; None where the bytes are no image known here."""
    if data.startswith(_PNG) and len(data) >= 24:
        return "png", _big(data[16:20]), _big(data[20:24])
    if data.startswith(_GIF) and len(data) >= 10:
        return "gif", _little(data[6:8]), _little(data[8:10])
    if data.startswith(_BMP) and len(data) >= 26 and _little(data[2:6]) == len(data):
        return "bmp", _little(data[18:22]), abs(int.from_bytes(data[22:26], "little", signed=True))
    return _jpeg_size(data) if data.startswith(_JPEG) else None


def _jpeg_size(data: bytes) -> tuple[str, int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            return "jpeg", _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        if marker == 0xFF:  # fill byte
            at += 1
        else:
            at += 2 + _big(data[at + 2 : at + 4])
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
