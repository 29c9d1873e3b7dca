"""PNG files of arrays, byte for byte those of ``tf.io.encode_png``, without TensorFlow.

TFDS stores an image given as an array through that operation; importing TensorFlow for it costs
each worker 9 s and 600 MB. The file layout and the filters are those of the PNG specification
(ISO/IEC 15948, sections 5, 9 and 11). What an encoder is free to choose follows the behaviour of
libpng 1.6, which TensorFlow uses, and was found equal to it by comparison:

- each row takes the filter with the least sum of absolute differences, the first one of equals;
- deflate at level 6 and memory level 9, ``Z_FILTERED``, in a window no larger than a small image needs, and the
  zlib header then declares the smallest window that holds the data;
- IDAT chunks of 8 KiB.

Deflate itself is Python's ``zlib`` module, which may be linked with another library (zlib-ng,
libdeflate, ...) that compresses as correctly, but to other bytes. `available` therefore encodes a
few fixed images, once a process, and compares with digests that classic zlib gives. Where it says
no, and for arrays that `covers` refuses, encode with TFDS's own ``encode_example`` instead.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import zlib
from collections.abc import Iterator

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
_NONE, _SUB, _UP, _AVERAGE, _PAETH = range(5)
_IDAT_BYTES = 8192
_SMALL = 16384
# zlib keeps this many bytes of its window free for a match to run into (MIN_LOOKAHEAD).
_LOOKAHEAD = 262
_ONE = np.uint8(1)
# Filters are tried on bands of rows: about this many bytes at a time stay in the CPU's cache.
_BAND_BYTES = 1 << 16
# TensorFlow refuses larger images in several ways; it shall say so itself.
_MEMORY_LEVEL = 9
_LONGEST_SIDE = 1 << 16
_MOST_BYTES = 1 << 29

_PROOF = {
    "gradient": "b1272a00e00b6b68919cb1cd0b9678129895fc67d0b241b7674b9b3d0cc7e071",
    "noise": "e0970bdd54978a6bb4a4f49693fd4d8288d97931e5ff71f1f1797cd9aaa012f9",
    "steps": "00fb713844ffd4f4f633d724d76b0753fce2ba8ebda1e9dcd189cb3e1cc82fa2",
}


def covers(array: np.ndarray) -> bool:
    """Whether `encode` is known to give TensorFlow's bytes for arrays of this shape and dtype.

    Args:
        array: an image, height x width x channels.
    """
    return (
        array.ndim == 3
        and array.dtype in (np.uint8, np.uint16)
        and array.shape[2] in _COLOUR_TYPES
        and 0 < array.shape[0] <= _LONGEST_SIDE
        and 0 < array.shape[1] <= _LONGEST_SIDE
        and array.nbytes <= _MOST_BYTES
    )


@functools.cache
def available() -> bool:
    """Whether this process's zlib compresses to the bytes of classic zlib (tried once)."""
    return all(
        hashlib.sha256(encode(image)).hexdigest() == _PROOF[name]
        for name, image in _proof_images().items()
    )


def encode(array: np.ndarray) -> bytes:
    """The PNG file of an image.

    Args:
        array: height x width x channels (1 grey, 2 grey and alpha, 3 RGB, 4 RGBA), uint8 or
            uint16, such as `covers` accepts.
    """
    height, width, channels = array.shape
    depth = array.dtype.itemsize
    pixel = channels * depth
    samples = array if depth == 1 else array.astype(">u2")
    rows = np.ascontiguousarray(samples).view(np.uint8).reshape(height, width * pixel)
    header = struct.pack(">IIBBBBB", width, height, 8 * depth, _COLOUR_TYPES[channels], 0, 0, 0)
    stream = _deflate(rows, pixel, _filters(height, width))
    parts = [_SIGNATURE, _chunk(b"IHDR", header)]
    parts += [
        _chunk(b"IDAT", stream[start : start + _IDAT_BYTES])
        for start in range(0, len(stream), _IDAT_BYTES)
    ]
    parts.append(_chunk(b"IEND", b""))
    return b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(data, zlib.crc32(kind))
    return b"".join((len(data).to_bytes(4, "big"), kind, data, check.to_bytes(4, "big")))


def _filters(height: int, width: int) -> tuple[int, ...]:
    """The filters to try: none that looks at a neighbour which no pixel of the image has."""
    if height == 1:
        return (_NONE,) if width == 1 else (_NONE, _SUB)
    return (_NONE, _UP) if width == 1 else (_NONE, _SUB, _UP, _AVERAGE, _PAETH)


# --- filters -----------------------------------------------------------------------------------


def _scanlines(rows: np.ndarray, pixel: int, filters: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Bands of filtered rows, each row preceded by its filter's number.

    Args:
        rows: height x bytes of a row, uint8.
        pixel: bytes of a pixel.
        filters: those to choose from, in order of preference.
    """
    height, length = rows.shape
    step = max(1, _BAND_BYTES // (length + pixel))
    for first in range(0, height, step):
        band = rows[first : first + step]
        yield _filtered(band, rows[first - 1] if first else None, pixel, filters)


def _filtered(
    rows: np.ndarray, above: np.ndarray | None, pixel: int, filters: tuple[int, ...]
) -> np.ndarray:
    count, length = rows.shape
    # Each row has a pixel of zeros before it and the first one a row above it, so that in the
    # flat array every neighbour of every byte is at a constant distance, with no special cases.
    stride = length + pixel
    start = pixel + stride
    flat = np.zeros(start + count * stride, np.uint8)
    flat[start:].reshape(count, stride)[:, pixel:] = rows
    if above is not None:
        flat[start - length : start] = above
    table = _candidates(flat, start, pixel, stride, filters).reshape(len(filters), count, stride)
    # As signed bytes; the absolute value of -128 is 128 again when read as unsigned.
    distances = np.abs(table.view(np.int8)).view(np.uint8)
    best = np.add.reduce(distances[:, :, pixel:], axis=2, dtype=np.uint32).argmin(axis=0)
    chosen = table[best, np.arange(count)]
    chosen[:, pixel - 1] = np.array(filters, np.uint8)[best]
    return chosen[:, pixel - 1 :]


def _candidates(
    flat: np.ndarray, start: int, pixel: int, stride: int, filters: tuple[int, ...]
) -> np.ndarray:
    """The bytes from ``start`` on as each filter leaves them (filters x bytes)."""
    end = len(flat)
    here = flat[start:]
    left = flat[start - pixel : end - pixel]
    up = flat[start - stride : end - stride]
    made = np.empty((len(filters), len(here)), np.uint8)
    for row, each in zip(made, filters, strict=True):
        if each == _NONE:
            row[:] = here
        elif each == _SUB:
            np.subtract(here, left, out=row)
        elif each == _UP:
            np.subtract(here, up, out=row)
        elif each == _AVERAGE:
            # The mean, rounded down, without leaving eight bits.
            mean = left ^ up
            mean >>= _ONE
            mean += left & up
            np.subtract(here, mean, out=row)
        else:
            np.subtract(here, _paeth(flat, start, pixel, stride), out=row)
    return made


def _paeth(flat: np.ndarray, start: int, pixel: int, stride: int) -> np.ndarray:
    """Of each byte's left, upper and corner neighbours the nearest to left + upper - corner.

    Of equals the first in that order.
    """
    end = len(flat)
    at_left = slice(start - pixel, end - pixel)
    at_up = slice(start - stride, end - stride)
    at_corner = slice(start - stride - pixel, end - stride - pixel)
    wide = flat.astype(np.int16)
    distances = np.empty((3, end - start), np.int16)
    from_left, from_up, from_corner = distances
    np.subtract(wide[at_up], wide[at_corner], out=from_left)
    np.subtract(wide[at_left], wide[at_corner], out=from_up)
    np.add(from_left, from_up, out=from_corner)
    np.abs(distances, out=distances)
    other = _either(from_up <= from_corner, flat[at_up], flat[at_corner])
    return _either(from_left <= np.minimum(from_up, from_corner), flat[at_left], other)


def _either(condition: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    """``np.where`` for bytes; three times as fast as that where the condition is irregular."""
    made = yes ^ no
    made *= condition.view(np.uint8)
    made ^= no
    return made


# --- deflate -----------------------------------------------------------------------------------


def _deflate(rows: np.ndarray, pixel: int, filters: tuple[int, ...]) -> bytes:
    height, length = rows.shape
    size = height * (length + 1)
    strategy = zlib.Z_DEFAULT_STRATEGY if filters == (_NONE,) else zlib.Z_FILTERED
    packer = zlib.compressobj(6, zlib.DEFLATED, _window_bits(size), _MEMORY_LEVEL, strategy)
    parts: list[bytes] = []
    for band in _scanlines(rows, pixel, filters):
        if size <= _SMALL:
            parts.append(packer.compress(band.tobytes()))
        else:
            # Row by row, as libpng does: when zlib moves its window depends on what it was given.
            parts += map(packer.compress, map(np.ndarray.tobytes, band))
    parts.append(packer.flush())
    stream = b"".join(parts)
    return stream if size > _SMALL else _with_small_window(stream, size)


def _window_bits(size: int) -> int:
    """The window (as a power of two) that data of ``size`` bytes is compressed in."""
    bits = 15
    if size <= _SMALL:
        while size + _LOOKAHEAD <= 1 << (bits - 1):
            bits -= 1
    return bits


def _with_small_window(stream: bytes, size: int) -> bytes:
    """The zlib stream, its header (RFC 1950, section 2.2) declaring the least sufficient window."""
    method, flags = stream[0], stream[1]
    window = method >> 4
    while window > 0 and size <= 1 << (window + 7):
        window -= 1
    method = window << 4 | method & 15
    flags &= 0xE0
    flags += 31 - (method << 8 | flags) % 31
    return bytes((method, flags)) + stream[2:]


# --- proof -------------------------------------------------------------------------------------


def _proof_images() -> dict[str, np.ndarray]:
    """Images that lead deflate through its ways: matches, no matches, several blocks, windows."""
    y, x = np.mgrid[0:32, 0:32]
    gradient = np.stack([7 * x + y * y // 9, 250 - 5 * y, (x * y) // 4], axis=2).astype(np.uint8)
    noise = np.frombuffer(hashlib.shake_256(b"provender").digest(60_000), np.uint8)
    y, x = np.mgrid[0:200, 0:300]
    steps = np.stack([(x // 7 * 3001 + y // 11 * 47) ^ (x * y // 64), x * x + y], axis=2)
    return {
        "gradient": gradient,
        "noise": noise.reshape(100, 200, 3),
        "steps": steps.astype(np.uint16),
    }
