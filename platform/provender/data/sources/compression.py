"""Compressed and re-encoded text as one stream of UTF-8 bytes.

Such a file has no entry but its beginning: a place in it is a number of *decoded* bytes, and going
on from there decodes everything before it again.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import zlib
from collections.abc import Iterator
from typing import Any

from provender.data.sources.access import ByteStream, RangeReader
from provender.data.sources.access.ahead import AHEAD
from provender.errors import DamageError, InputError, ProvenderError

SUFFIXES = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".xz": "xz",
    ".lzma": "xz",
    ".zst": "zstd",
    ".zstd": "zstd",
}
_OUT = 1 << 20
_HINT = 'Fetch it again, or pass on_error="skip" to take what came before.'


def compression_of(name: str) -> str | None:
    """How a file of this name is compressed, or None."""
    lower = name.lower()
    return next((kind for suffix, kind in SUFFIXES.items() if lower.endswith(suffix)), None)


def plain_name(name: str) -> str:
    """The name without the suffix of its compression."""
    lower = name.lower()
    for suffix in SUFFIXES:
        if lower.endswith(suffix):
            return name[: -len(suffix)]
    return name


def check_compression(kind: str | None, name: str) -> str | None:
    """The compression to use: the one named, or for ``infer`` the one the name tells.

    Raises:
        InputError: there is no such kind.
    """
    if kind == "infer":
        return compression_of(name)
    if kind is None or kind in set(SUFFIXES.values()):
        return kind
    raise InputError(
        f"There is no compression called {kind!r}.",
        where="compression",
        hint=f"Use infer, {', '.join(sorted(set(SUFFIXES.values())))} or None.",
    )


def decompressed(reader: RangeReader, kind: str, name: str, ahead: int = AHEAD) -> Iterator[bytes]:
    """The decoded blocks of a compressed file; several streams behind one another count as one.

    Raises:
        DamageError: it is cut off or damaged; says at which compressed byte.
    """
    stream = ByteStream(reader, ahead=ahead)
    try:
        yield from _zstd(stream, name) if kind == "zstd" else _members(stream, kind, name)
    finally:
        stream.close()


def _members(stream: ByteStream, kind: str, name: str) -> Iterator[bytes]:
    taken = 0
    decoder = _decoder(kind)
    begun = False
    for block in stream:
        data: bytes = block
        while data:
            if decoder.eof:
                if not data.strip(b"\0"):  # padding, as tape drives leave it
                    break
                decoder, begun = _decoder(kind), False
            at = taken + len(block) - len(data)
            begun = True
            yield from _decode(decoder, data, name, at)
            data = decoder.unused_data if decoder.eof else b""
        taken += len(block)
    if begun and not decoder.eof:
        raise DamageError(
            f"The file ends inside its {kind} stream, after {taken:,} bytes.",
            where=name,
            hint=_HINT,
            facts={"file": name, "byte": taken},
        )


def _decode(decoder: Any, data: bytes, name: str, at: int) -> Iterator[bytes]:
    """What some compressed bytes stand for, a bounded piece at a time: it may be a thousandfold."""
    while True:
        try:
            out: bytes = decoder.decompress(data, _OUT)
        except (zlib.error, OSError, lzma.LZMAError, EOFError, ValueError) as error:
            raise _damaged(name, at, error) from error
        if out:
            yield out
        data = getattr(decoder, "unconsumed_tail", b"")
        if decoder.eof or not (out or data):
            return


def _decoder(kind: str) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    if kind == "bz2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor()


class _Blocks(io.RawIOBase):
    """A stream of blocks as a file."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._left = memoryview(b"")
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = memoryview(next(self._stream, b""))
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        self.taken += count
        return count


def _zstd(stream: ByteStream, name: str) -> Iterator[bytes]:
    import pyarrow as pa

    blocks = _Blocks(stream)
    with pa.CompressedInputStream(pa.PythonFile(io.BufferedReader(blocks), "r"), "zstd") as file:
        while True:
            try:
                out = file.read(_OUT)
            except (pa.ArrowInvalid, OSError) as error:
                if isinstance(error.__cause__ or error.__context__, ProvenderError):
                    raise
                raise _damaged(name, blocks.taken, error) from error
            if not out:
                return
            yield out


def _damaged(name: str, at: int, error: object) -> DamageError:
    return DamageError(
        f"The compressed data is damaged or cut off near byte {at:,}: {error}",
        where=name,
        hint=_HINT,
        facts={"file": name, "byte": at},
    )


def recoded(blocks: Iterator[bytes], encoding: str, errors: str, name: str) -> Iterator[bytes]:
    """Text in another encoding as blocks of UTF-8.

    Args:
        blocks: the text as it lies in the file.
        encoding: its encoding.
        errors: what to do with bytes that are none: Python's names for that.
        name: the file, for messages.

    Raises:
        InputError: there is no such encoding, or bytes that do not belong to it.
    """
    try:
        decoder = codecs.getincrementaldecoder(encoding)(errors)
    except LookupError as error:
        raise InputError(
            f"There is no encoding called {encoding!r}.", where="encoding", hint="Use e.g. latin-1."
        ) from error
    taken = 0
    for block in blocks:
        yield _recode(decoder, block, False, encoding, name, taken)
        taken += len(block)
    yield _recode(decoder, b"", True, encoding, name, taken)


def _recode(decoder: Any, block: bytes, final: bool, encoding: str, name: str, at: int) -> bytes:
    try:
        return str(decoder.decode(block, final)).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise InputError(
            f"Byte {at + error.start:,} is not {encoding}: {error.reason}.",
            where=name,
            hint='Give the right encoding=..., or encoding_errors="replace".',
            facts={"file": name, "byte": at + error.start},
        ) from error
