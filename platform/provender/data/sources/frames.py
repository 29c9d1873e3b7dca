"""TFRecord frames in blocks of bytes: found, checked, and passed on without copying payloads.

Format: see `provender.records.tfrecord`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import google_crc32c

from provender.data.sources.access import ByteStream, RangeReader
from provender.data.sources.access.ahead import AHEAD, LOCAL
from provender.errors import DamageError
from provender.records.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    OVERHEAD,
    damage,
    masked_crc,
    parse_header,
)

if TYPE_CHECKING:
    import numpy as np

MOST_RECORDS = 16_384

_crc32c = google_crc32c.value
_length_at = struct.Struct("<Q").unpack_from


@dataclass(frozen=True, slots=True)
class Frames:
    """Consecutive whole records.

    Attributes:
        data: bytes that hold them.
        starts: where each payload begins in `data`, int64, shape ``[n]``.
        lengths: bytes of each payload, int64, shape ``[n]``.
        record: ordinal in the file of the first.
        byte: where the first frame begins in the file.
        base: where `data` begins in the file.
    """

    data: bytes
    starts: np.ndarray
    lengths: np.ndarray
    record: int
    byte: int
    base: int

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def end(self) -> int:
        """The byte of the file after the last record."""
        if not len(self.starts):
            return self.byte
        return self.base + int(self.starts[-1] + self.lengths[-1]) + FOOTER_BYTES

    def damaged(self) -> np.ndarray:
        """Indices of the records whose payloads do not have the checksum they came with."""
        return bad_payloads(self.data, self.starts, self.lengths)

    def without(self, bad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Starts and lengths of the others."""
        import numpy as np

        keep = np.ones(len(self.starts), bool)
        keep[bad] = False
        return self.starts[keep], self.lengths[keep]

    def error(self, name: str, which: int) -> DamageError:
        """The error for one of the damaged ones."""
        return damage(
            "The checksum of a record's data does not hold",
            name,
            self.record + which,
            self.base + int(self.starts[which]) - HEADER_BYTES,
        )


def bad_payloads(data: bytes, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Indices of payloads whose masked crc32c is not the one that follows them."""
    import numpy as np

    if not len(starts):
        return np.zeros(0, np.int64)
    ends = starts + lengths
    payloads = [data[low:high] for low, high in zip(starts.tolist(), ends.tolist(), strict=True)]
    crcs = np.array(list(map(_crc32c, payloads)), np.uint32)
    masked = ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(0xA282EAD8)
    raw = np.frombuffer(data, np.uint8)
    told = np.zeros(len(ends), np.uint32)
    for byte in range(FOOTER_BYTES):
        told |= raw[ends + byte].astype(np.uint32) << np.uint32(8 * byte)
    return np.flatnonzero(masked != told)


def frames(
    reader: RangeReader,
    name: str,
    byte: int = 0,
    record: int = 0,
    stop: int | None = None,
    *,
    ahead: int = AHEAD,
    block: int = LOCAL,
) -> Iterator[Frames]:
    """The records of a file from a place on; payload checksums are left to the caller.

    Args:
        reader: the file.
        name: what to call it.
        byte: where a record begins.
        record: its ordinal.
        stop: byte to end at, a record's beginning; by default the end of the file.
        ahead: see `ByteStream`.
        block: likewise.

    Raises:
        DamageError: a header is wrong, or the file ends inside a record.
    """

    stream = ByteStream(reader, byte, stop, ahead=ahead, block=block)
    held: list[bytes] = []
    length, wanted = 0, 0
    base = byte
    try:
        for part in stream:
            held.append(part)
            length += len(part)
            if length < wanted:  # a long record: joined once, when all of it is there
                continue
            data = b"".join(held) if len(held) > 1 else part
            starts, lengths, at, wanted = _found(data, name, record, base)
            for low in range(0, len(starts), MOST_RECORDS):
                these = starts[low : low + MOST_RECORDS]
                sizes = lengths[low : low + MOST_RECORDS]
                first = base + int(these[0]) - HEADER_BYTES
                yield Frames(data, these, sizes, record, first, base)
                record += len(these)
            rest = data[at:]
            held, length = ([rest], len(rest)) if rest else ([], 0)
            base += at
        if length:
            rest = b"".join(held)
            parse_header(rest[:HEADER_BYTES], name=name, record=record, offset=base)
            raise damage("The file ends inside a record", name, record, base)
    finally:
        stream.close()


def _found(
    data: bytes, name: str, record: int, base: int
) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Payload starts and lengths of the whole records, where the rest begins, and how long it has
    to get before there is another whole one."""
    import numpy as np

    begins: list[int] = []
    found = begins.append
    at, size, length = 0, len(data), 0
    while at + HEADER_BYTES <= size:
        (length,) = _length_at(data, at)
        following = at + length + OVERHEAD
        if following > size:
            break
        found(at)
        at = following
    places = np.array([*begins, at], np.int64)
    lengths = np.diff(places) - OVERHEAD
    wrong = _wrong_headers(data, places[:-1], lengths)
    if len(wrong):
        # What came before is good; the error comes with the next block.
        good = int(wrong[0])
        at = int(places[good])
        places, lengths = places[: good + 1], lengths[:good]
    wanted = 0
    try:
        wanted = _wanted(data, at, name, record + len(lengths), base)
    except DamageError:
        if not len(lengths):
            raise
    return places[:-1] + HEADER_BYTES, lengths, at, wanted


def _wanted(data: bytes, at: int, name: str, record: int, base: int) -> int:
    """How many bytes from `at` on there have to be for another whole record; 0 if that is not known.

    Raises:
        DamageError: the header there is wrong.
    """
    header = data[at : at + HEADER_BYTES]
    if len(header) < HEADER_BYTES:
        return 0
    return parse_header(header, name=name, record=record, offset=base + at) + OVERHEAD


def _wrong_headers(data: bytes, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Indices of the headers whose length does not have the checksum that they tell."""
    import numpy as np

    if not len(places):
        return places
    raw = np.frombuffer(data, np.uint8)
    told = np.zeros(len(places), np.uint32)
    for byte in range(4):
        told |= raw[places + (8 + byte)].astype(np.uint32) << np.uint32(8 * byte)
    unique, inverse = np.unique(lengths, return_inverse=True)
    right = np.array([_length_crc(each) for each in unique.tolist()], np.uint32)
    return np.flatnonzero(right[inverse] != told)


@functools.lru_cache(1 << 16)
def _length_crc(length: int) -> int:
    return masked_crc(length.to_bytes(8, "little"))


def next_record(reader: RangeReader, byte: int, window: int = 1 << 20) -> int | None:
    """Where the next whole, right record begins behind a damaged header; None where none does.

    Every byte is tried: a header proves itself by its checksum, and the payload by its own.
    """
    at = byte + 1
    while at + OVERHEAD <= reader.size:
        data = reader.read(at, min(window + OVERHEAD, reader.size - at))
        for start in range(len(data) - HEADER_BYTES + 1):
            length = int.from_bytes(data[start : start + 8], "little")
            if at + start + length + OVERHEAD > reader.size:
                continue
            told = int.from_bytes(data[start + 8 : start + 12], "little")
            if masked_crc(data[start : start + 8]) != told:
                continue
            body = reader.read(at + start + HEADER_BYTES, length + FOOTER_BYTES)
            if masked_crc(body[:length]) == int.from_bytes(body[length:], "little"):
                return at + start
        at += max(len(data) - HEADER_BYTES + 1, 1)
    return None


def checked(part: Frames, name: str, forgive: Any) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of the good records.

    Args:
        part: the records.
        name: the file.
        forgive: called with each error; False makes it raised.

    Raises:
        DamageError: a payload is damaged.
    """
    bad = part.damaged()
    for each in bad.tolist():
        error = part.error(name, each)
        if not forgive(error):
            raise error
    return part.without(bad) if len(bad) else (part.starts, part.lengths)
