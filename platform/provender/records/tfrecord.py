"""TFRecord framing in batches, byte-identical to ``tf.io.TFRecordWriter``, without TensorFlow.

A record is ``u64 length | u32 masked crc32c(length bytes) | payload | u32 masked crc32c(payload)``,
little-endian; the mask is ``rotate_right(crc, 15) + 0xa282ead8`` (TensorFlow's
``core/lib/io/record_writer.h`` and ``core/lib/hash/crc32c.h``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np

from provender.errors import DamageError
from provender.records.atomic import told_as_ours

HEADER_BYTES = 12
FOOTER_BYTES = 4
OVERHEAD = HEADER_BYTES + FOOTER_BYTES

_MASK_DELTA = 0xA282EAD8
# Longer records are rare, and their header is cheap next to the rest of the work.
_CACHED_LENGTHS = 1 << 16

_crc32c = google_crc32c.value
_split_footers: dict[int, struct.Struct] = {}


def masked_crc(data: bytes) -> int:
    """TFRecord's masked crc32c of ``data``."""
    crc = _crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


class _Headers(dict[int, bytes]):
    """Record headers by payload length, remembered for the common lengths."""

    def __missing__(self, length: int) -> bytes:
        head = struct.pack("<Q", length)
        header = head + struct.pack("<I", masked_crc(head))
        if length < _CACHED_LENGTHS:
            self[length] = header
        return header


_headers = _Headers()


def _parts(payloads: Sequence[bytes]) -> tuple[list[bytes], list[bytes], list[int]]:
    count = len(payloads)
    sizes = list(map(len, payloads))
    crcs = np.array(list(map(_crc32c, payloads)), np.uint32)
    masked = ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(_MASK_DELTA)
    splitter = _split_footers.get(count)
    if splitter is None:
        splitter = struct.Struct("4s" * count)
        if count <= 1024:
            _split_footers[count] = splitter
    footers = list(splitter.unpack(masked.astype("<u4").tobytes()))
    return list(map(_headers.__getitem__, sizes)), footers, sizes


def frame(payloads: Sequence[bytes]) -> list[bytes]:
    """The TFRecord of each payload."""
    headers, footers, _ = _parts(payloads)
    return [b"".join(parts) for parts in zip(headers, payloads, footers, strict=True)]


def frame_joined(payloads: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """All TFRecords of ``payloads`` as one string, and the payload sizes in bytes."""
    headers, footers, sizes = _parts(payloads)
    parts: list[bytes] = [b""] * (3 * len(payloads))
    parts[0::3] = headers
    parts[1::3] = payloads
    parts[2::3] = footers
    return b"".join(parts), sizes


def whole_payload(record: bytes) -> bytes | None:
    """The payload of one whole record, or None: then `parse_header` and `check_body` say why.

    Args:
        record: the framed record, no more and no less.
    """
    payload = record[HEADER_BYTES:-FOOTER_BYTES]
    footer = masked_crc(payload).to_bytes(FOOTER_BYTES, "little")
    if record[:HEADER_BYTES] == _headers[len(payload)] and record.endswith(footer):
        return payload
    return None


def parse_header(header: bytes, *, name: str, record: int, offset: int) -> int:
    """The payload length that a 12-byte record header tells.

    Args:
        header: the bytes read, fewer than 12 where the file ends too early.
        name: file name, for the error.
        record: number of the record in the file.
        offset: where the record begins, in bytes.

    Raises:
        DamageError: the header is cut off or its checksum does not hold.
    """
    if len(header) < HEADER_BYTES:
        raise damage("The file ends inside a record header", name, record, offset)
    (length, crc) = struct.unpack("<QI", header)
    if masked_crc(header[:8]) != crc:
        raise damage("The checksum of a record's length does not hold", name, record, offset)
    return int(length)


def check_body(body: bytes, length: int, *, name: str, record: int, offset: int) -> bytes:
    """The payload of a record body (payload and footer), checked.

    Raises:
        DamageError: the body is cut off or its checksum does not hold.
    """
    if len(body) < length + FOOTER_BYTES:
        raise damage("The file ends inside a record", name, record, offset)
    payload = body[:length]
    if masked_crc(payload) != int.from_bytes(body[length:], "little"):
        raise damage("The checksum of a record's data does not hold", name, record, offset)
    return payload


def iter_records(file: str | Path | BinaryIO, verify: bool = True) -> Iterator[tuple[int, bytes]]:
    """Yields ``(byte offset, payload)`` of each record of a TFRecord file.

    Args:
        file: a path, or a binary file positioned at a record.
        verify: check the payload checksums; lengths are always checked.

    Raises:
        DamageError: naming the file, the number of the record and its byte offset.
        StoreError: the file cannot be read.
    """
    if isinstance(file, (str, Path)):
        path = Path(file)
        with told_as_ours(path):
            opened = path.open("rb", buffering=1 << 20)
        with opened:
            yield from _records(opened, str(path), verify)
    else:
        yield from _records(file, str(getattr(file, "name", file)), verify)


def _records(file: BinaryIO, name: str, verify: bool) -> Iterator[tuple[int, bytes]]:
    offset = 0
    record = 0
    while header := file.read(HEADER_BYTES):
        spot: dict[str, Any] = {"name": name, "record": record, "offset": offset}
        length = parse_header(header, **spot)
        body = file.read(length + FOOTER_BYTES)
        if verify:
            payload = check_body(body, length, **spot)
        elif len(body) < length + FOOTER_BYTES:
            raise damage("The file ends inside a record", **spot)
        else:
            payload = body[:length]
        yield offset, payload
        offset += OVERHEAD + length
        record += 1


def damage(what: str, name: str, record: int, offset: int) -> DamageError:
    """The error for a damaged record of a file."""
    return DamageError(
        f"{what}: record {record} at byte {offset:,} of {Path(name).name}.",
        where=name,
        hint="rebuild the file: `provender build` of its dataset",
        facts={"file": name, "record": record, "offset": offset},
    )
