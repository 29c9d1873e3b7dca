"""Text files by byte range: whole lines, a megabyte at a time, however long a line is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from provender.errors import InputError
from provender.nlp.text.basic import JOINER_BYTES, NEL
from provender.records.atomic import told_as_ours

BLOCK = 1 << 20
_TAIL = 1 << 16
_WORD_ENDS = re.compile(rb"[\xe5-\xe9][\x80-\xbf]{2}|[!-/:-@\[-`{-~]")
"""CJK ideographs (most of them) and ASCII punctuation: each is a word by itself."""


@dataclass(frozen=True)
class Piece:
    """A part of a file.

    Attributes:
        text: lines, without the end of the last one.
        ends_inside: whether the last line goes on in the next piece; it ends where a word does.
        plain: whether it holds no character that splits words for Python alone.
    """

    text: str
    ends_inside: bool
    plain: bool


def pieces(path: Path, start: int, stop: int, invalid_utf8: str = "error") -> Iterator[Piece]:
    """The text of the documents that begin in a byte range.

    Args:
        path: UTF-8 text.
        start: first byte of the range.
        stop: its end.
        invalid_utf8: ``error`` or ``drop``.

    Raises:
        InputError: bytes are no UTF-8.
        StoreError: the file cannot be read.
    """
    with told_as_ours(path), path.open("rb", buffering=0) as file:
        # A blank line is shorter than a block, so what begins a block later is of another range.
        beyond = stop + BLOCK
        at = document_after(file, start, beyond)
        if at >= beyond:
            return
        end = document_after(file, stop)
        file.seek(at)
        for block, ends_inside in _blocks(file, at, end):
            text = _decoded(block, path, at, invalid_utf8)
            at += len(block)
            plain = len(block.translate(None, JOINER_BYTES)) == len(block) and NEL not in block
            if not ends_inside and text.endswith("\n"):
                text = text[:-1]
            yield Piece(text, ends_inside, plain)


def _blocks(file: BinaryIO, at: int, end: int) -> Iterator[tuple[bytes, bool]]:
    """Cuts bytes after a line's end, or, in a line longer than a block, before a space."""
    rest = b""
    while at < end:
        block = file.read(min(BLOCK, end - at))
        if not block:
            break
        at += len(block)
        block = rest + block
        cut = block.rfind(b"\n") + 1
        if at >= end:
            cut = len(block)
        if cut:
            rest = block[cut:]
            yield block[:cut], False
            continue
        cut = _word_end(block)
        if cut > 0:
            rest = block[cut:]
            yield block[:cut], True
        else:
            rest = block
    if rest:
        yield rest, False


def _word_end(block: bytes) -> int:
    """Where a block of one line can be cut so that no word is; 0 if nowhere."""
    cut = max(block.rfind(b" "), block.rfind(b"\t"))
    if cut > 0:
        return cut
    tail = max(0, len(block) - _TAIL)
    ends = [each.end() for each in _WORD_ENDS.finditer(block, tail)]
    return ends[-1] if ends else 0


def _decoded(block: bytes, path: Path, at: int, invalid_utf8: str) -> str:
    if invalid_utf8 == "drop":
        return block.decode("utf-8", "ignore")
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = at + error.start
        with path.open("rb") as file:
            line = 1 + _count_lines(file, byte)
        raise InputError(
            f"{path.name} is not UTF-8 text: byte {byte:,}, in line {line:,}.",
            where=f"{path}:{line}",
            hint="Convert the file. BERT's data can be made without such bytes: "
            "--invalid_utf8=drop.",
            facts={"file": str(path), "line": line, "byte": byte},
        ) from error


def _count_lines(file: BinaryIO, stop: int) -> int:
    found = 0
    while stop > 0 and (block := file.read(min(BLOCK, stop))):
        found += block.count(b"\n")
        stop -= len(block)
    return found


def document_after(file: BinaryIO, offset: int, beyond: int | None = None) -> int:
    """Where the first document begins that follows a blank line at or after ``offset``.

    Args:
        file: binary and seekable.
        offset: a byte of it; 0 is where the first document begins.
        beyond: documents from there on are of no interest: a line of many gigabytes need not be
            read to its end for each range of it.

    Returns:
        The byte after a blank line, or the size of the file; where that is not before ``beyond``,
        perhaps another byte that is not.
    """
    size = file.seek(0, os.SEEK_END)
    if offset <= 0:
        return 0
    if offset >= size:
        return size
    # The byte before the offset tells whether a line begins at it.
    at = offset - 1
    file.seek(at)
    begun = False
    rest = b""
    while (beyond is None or at < beyond) and (block := file.read(BLOCK)):
        if b"\n" not in block:
            # A line that fills a block is not blank, and need not be held.
            at += len(rest) + len(block)
            rest, begun = b"", False
            continue
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            at += len(line) + 1
            if begun and _is_blank(line):
                return at
            begun = True
    return at if beyond is not None and at >= beyond else size


def _is_blank(line: bytes) -> bool:
    return len(line) < BLOCK and not line.decode("utf-8", "ignore").strip()
