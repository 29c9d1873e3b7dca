"""Parts of text files, blocks of whole lines, and finding where lines begin."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from provender.data.sources.access import DataFile
from provender.errors import InputError

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Part:
    """A shard: the lines of a file that begin in ``[start, stop)``; `stop` None is its end."""

    file: DataFile
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines.

    Attributes:
        byte: where the first begins.
        data: the lines; every one but a file's last ends with a line feed.
    """

    byte: int
    data: bytes

    @property
    def end(self) -> int:
        """The byte after the last."""
        return self.byte + len(self.data)


def without_mark(block: Block) -> Block:
    """The first block of a file without its byte order mark."""
    if block.byte == 0 and block.data.startswith(_BOM):
        return Block(len(_BOM), block.data[len(_BOM) :])
    return block


def after_line(stream: Iterator[bytes], start: int) -> tuple[Iterator[bytes], int]:
    """The blocks behind the first line feed, and the byte at which they begin."""
    for data in stream:
        cut = data.find(b"\n")
        if cut >= 0:
            return _behind(data[cut + 1 :], stream), start + cut + 1
        start += len(data)
    return iter(()), start


def _behind(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def from_byte(blocks: Iterator[bytes], byte: int) -> Iterator[bytes]:
    """What is left of some blocks from a byte on."""
    for data in blocks:
        if byte >= len(data):
            byte -= len(data)
            continue
        yield data[byte:]
        byte = 0


def codec(encoding: str) -> str:
    """An encoding's usual name; ``utf-8`` for all that are UTF-8.

    Raises:
        InputError: there is no such encoding.
    """
    try:
        name = codecs.lookup(encoding).name
    except LookupError as error:
        raise InputError(
            f"There is no encoding called {encoding!r}.", where="encoding", hint="Use e.g. latin-1."
        ) from error
    return "utf-8" if name in ("utf-8", "utf-8-sig", "ascii") else name
