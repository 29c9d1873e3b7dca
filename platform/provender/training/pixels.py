"""Pixels of small PNG images without the ceremony of opening a file.

Pillow finds out what a file is, reads its chunks through a file object and keeps their metadata, which
costs a small image several times its decoding. Here only what the header of a plain PNG says is read
(PNG specification, sections 5 and 11), and a bare decoder gets the rest: kornia-rs where it is installed,
else Pillow's own C codecs, which take two to three times as long.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from provender.errors import SettingsError

try:
    from kornia_rs.io import decode_image_png_u8 as kornia  # type: ignore[import-not-found]
except ImportError:
    kornia = None

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = 33
"""Bytes of the signature and of the IHDR chunk, which comes first."""
_FRAME = 12
"""Bytes of a chunk around its content: length and name before, CRC-32 of name and content after."""
_END = b"\0\0\0\0IEND\xaeB`\x82"
_chunk = struct.Struct(">I4s").unpack_from

_MODES = {
    b"\x08\x00": ("L", "mono", 1),
    b"\x08\x02": ("RGB", "rgb", 3),
    b"\x08\x06": ("RGBA", "rgba", 4),
}
"""Bit depth and colour type -> Pillow's mode, kornia-rs's mode, and channels."""


class _Kind(NamedTuple):
    """What the header of a plain PNG says.

    Attributes:
        mode: Pillow's mode.
        kornia: kornia-rs's mode.
        width: in pixels.
        height: in pixels.
        channels: of a byte each.
    """

    mode: str
    kornia: str
    width: int
    height: int
    channels: int

    @property
    def length(self) -> int:
        """Bytes of the pixels."""
        return self.width * self.height * self.channels


Way = Callable[[_Kind, bytes, bytes], np.ndarray | None]
"""From the file and its compressed rows to the pixels; None where they are damaged."""

_SHORT = 1 << 20
"""Bytes of pixels that kornia-rs decodes in 3 ms. It keeps other threads waiting meanwhile, and Python lets them
wait for 5 ms anyway; Pillow, which gets what is larger, lets them run."""


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
    kind = _kind(data[:_HEADER])
    if kind is None:
        return None
    _, _, width, height, stored = kind
    count = width * height
    if channels not in (None, stored) or count > (Image.MAX_IMAGE_PIXELS or 0):
        return None
    rows = _rows(data)
    if rows is None:
        return None
    return (_short_way() if count * stored <= _SHORT else _way())(kind, data, rows)


@lru_cache(maxsize=1024)
def _kind(head: bytes) -> _Kind | None:
    """What signature and IHDR chunk say; None if the image is no plain PNG."""
    mode, kornia_mode, channels = _MODES.get(head[24:26], ("", "", 0))
    # Compression and filter method have one value each; interlaced rows are another matter.
    if not mode or head[:16] != _SIGNATURE + b"\0\0\0\rIHDR" or head[26:29] != b"\0\0\0":
        return None
    width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if not width * height or zlib.crc32(head[12:29]) != int.from_bytes(head[29:], "big"):
        return None
    return _Kind(mode, kornia_mode, width, height, channels)


def _rows(data: bytes) -> bytes | None:
    """The compressed rows; None if there is any chunk besides header, data and end."""
    at, last = _HEADER, len(data) - len(_END)
    if last < at + _FRAME or not data.endswith(_END):
        return None
    size, kind = _chunk(data, at)
    if at + _FRAME + size == last and kind == b"IDAT":
        return data[at + 8 : last - 4]
    parts = []
    while at < last:
        size, kind = _chunk(data, at)
        if kind != b"IDAT":
            return None
        parts.append(data[at + 8 : at + 8 + size])
        at += _FRAME + size
    return b"".join(parts) if at == last else None


def _by_kornia(kind: _Kind, data: bytes, rows: bytes) -> np.ndarray | None:
    _, mode, width, height, _ = kind
    try:
        found: np.ndarray = kornia(data, (height, width), mode)
    except Exception:  # noqa: BLE001 - what it raises is of no narrower class
        return None
    return found


def _by_codecs(kind: _Kind, data: bytes, rows: bytes) -> np.ndarray | None:
    """By the C codecs that `Image.frombytes` and `Image.tobytes` call.

    Those make an `Image` around them, and a buffer of 64 KiB to take the pixels out through: for
    3 KiB of pixels that is as much work again as that of the codecs.
    """
    mode, _, width, height, channels = kind
    core, box, length = Image.core, (0, 0, width, height), width * height * channels
    image = core.new(mode, (width, height))
    decoder = core.zip_decoder(mode, mode, False)
    decoder.setimage(image, box)
    left, error = decoder.decode(rows)
    if left >= 0 or error:
        return None
    encoder = core.raw_encoder(mode, mode)
    encoder.setimage(image, box)
    _, state, found = encoder.encode(length)
    if state != 1:
        message = f"{len(found)} of {length} bytes"
        raise ValueError(message)
    return _writable(kind, found)


def _by_images(kind: _Kind, data: bytes, rows: bytes) -> np.ndarray | None:
    """By Pillow's documented functions."""
    mode, _, width, height, _ = kind
    try:
        image = Image.frombytes(mode, (width, height), rows, "zip", mode, False)
    except (ValueError, OSError):
        return None
    return _writable(kind, image.tobytes())


def _writable(kind: _Kind, pixels: bytes) -> np.ndarray:
    # As OpenCV would give them; torch warns of arrays that are not.
    shape = (kind.height, kind.width, kind.channels)
    return np.ndarray(shape, np.uint8, bytearray(pixels))


@cache
def _short_way() -> Way:
    return _by_kornia if kornia is not None and _works(_by_kornia) else _way()


@cache
def _way() -> Way:
    return _by_codecs if _works(_by_codecs) else _by_images


def _works(way: Way) -> bool:
    """Whether a decoder gives the pixels of images that are known, as it is used here.

    The functions of kornia-rs move from version to version, and the Python interface of Pillow's codecs
    is described (its handbook, "Writing your own file codec") but not promised.
    """
    for colour, (mode, kornia_mode, channels) in _MODES.items():
        kind = _Kind(mode, kornia_mode, 3, 5, channels)
        pixels = np.arange(7, 7 + kind.length, dtype=np.uint8).reshape(5, 3, channels)
        rows = zlib.compress(b"".join(b"\0" + line.tobytes() for line in pixels))
        header = struct.pack(">II2s3x", kind.width, kind.height, colour)
        data = b"".join(
            len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")
            for name, body in ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
        )
        try:
            found = way(kind, _SIGNATURE + data, rows)
        except (AttributeError, TypeError, ValueError, SystemError):
            return False
        if not isinstance(found, np.ndarray) or not np.array_equal(found, pixels):
            return False
        if found.dtype != np.uint8 or not found.flags.writeable:
            return False
    return True


def image_decoder(feature: Any) -> Any:
    """What makes pixels of the stored bytes of a `tfds.features.Image`, as TFDS's NumPy decoding.

    Args:
        feature: the feature connector.

    Raises:
        SettingsError: its numbers have 16 bits, and there is no OpenCV, without which TFDS refuses them.
    """
    general = feature.decode_example_np
    if feature.np_dtype == np.uint16 and find_spec("cv2") is None:
        raise SettingsError(
            "Images of 16 bits a colour are decoded by OpenCV, which is not installed.",
            hint="`pip install opencv-python-headless`, leave them out with columns=[...], or read the "
            "version with provender.load.",
        )
    if feature.np_dtype != np.uint8:
        return general
    channels = feature.shape[-1]

    def decode(data: bytes) -> np.ndarray:
        found = png_pixels(data, channels)
        return general(data) if found is None else found

    return decode
