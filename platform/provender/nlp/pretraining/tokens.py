"""Text as token ids on disk: token files of byte ranges, and the store they are joined to.

A token file holds, little-endian: the ids of all sentences; uint32 tokens of each sentence; uint32
sentences of each document; and a footer of 48 bytes: tokens, sentences and documents (u64 each),
bytes of an id (u64) and the magic ``PVTOKENFILE\\x00\\x00\\x00\\x01\\n`` (16 bytes).

A token store is a folder of three arrays: ``tokens`` (the ids), ``sentences`` (int64, where each
sentence ends, in tokens) and ``documents`` (int64, where each document ends, in sentences); and
``store.json``, which is written last.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from provender.errors import DamageError, InputError
from provender.nlp.pretraining.lines import Piece, pieces
from provender.nlp.text.words import Tokenizer
from provender.records.atomic import AtomicFile, told_as_ours, write_json

_FOOTER = struct.Struct("<QQQQ16s")
_MAGIC = b"PVTOKENFILE\x00\x00\x00\x01\n"
_BLOCK = 1 << 20
_SPOOLED = 4 << 20
_MAPPED = 32 << 20
"""Bytes of a store that may stay in memory."""
_GLANCES = 64
"""Linux maps up to 64 KiB around a page, so these are 8 MiB where two places are looked at each time."""
MARKER = "store.json"


@dataclass(frozen=True)
class Counted:
    """What a token file or a store holds."""

    tokens: int
    sentences: int
    documents: int


def tokenize_part(
    source: Path,
    start: int,
    stop: int,
    tokenizer: Tokenizer,
    target: Path,
    *,
    invalid_utf8: str = "error",
) -> Counted:
    """Tokenizes the documents that begin in a byte range of a text file.

    A line is a sentence; a blank line, and the end of the file, ends a document. A document
    belongs to the range in which the blank line before it ends, so ranges that follow each other
    cover each document once.

    Args:
        source: UTF-8 text.
        start: first byte of the range.
        stop: end of the range.
        tokenizer: makes ids of lines.
        target: the token file to write; appears whole or not at all.
        invalid_utf8: ``error`` or ``drop``.

    Raises:
        InputError: bytes are no UTF-8; names the file, the line and the byte.
        StoreError: a file cannot be read or written.
    """
    with AtomicFile(target) as file, _spool(target.parent) as spool:
        sink = _Sink(file, spool)
        packed = tokenizer.packed
        width = tokenizer.vocabulary.dtype.itemsize
        for piece in pieces(source, start, stop, invalid_utf8):
            _take(sink, piece, packed, width)
        return sink.finish(width)


def _take(sink: _Sink, piece: Piece, packed: Any, width: int) -> None:
    """Tokenizes a piece of text: whole lines, or a part of a line too long to be held."""
    plain = piece.plain
    lines = piece.text.split("\n")
    last = len(lines) - 1
    found: list[bytes] = []
    lengths: list[int] = []
    for i, line in enumerate(lines):
        ids = packed(line, plain=plain)
        if ids:
            found.append(ids)
        if i == last and piece.ends_inside:
            sink.carry(len(ids) // width, blank=not ids and not line.strip())
        elif i == 0 and sink.carrying:
            length, blank = sink.carried(len(ids) // width, not ids and not line.strip())
            if length:
                lengths.append(length)
            elif blank:
                sink.end_document(lengths)
        elif ids:
            lengths.append(len(ids) // width)
        elif not line.strip():
            sink.end_document(lengths)
    sink.write(b"".join(found), lengths)


def _spool(folder: Path) -> Any:
    return tempfile.SpooledTemporaryFile(_SPOOLED, dir=str(folder))


class _Sink:
    """Collects a token file: ids go to the file at once, lengths when all are known."""

    def __init__(self, file: AtomicFile, lengths: Any) -> None:
        self._file = file
        self._lengths = lengths
        self._documents: list[int] = []
        self._sentences = 0
        self._begun = 0
        self.carrying = False
        self._carried = 0
        self._blank = True

    def carry(self, tokens: int, *, blank: bool) -> None:
        """Notes the tokens of a line that goes on in the next piece."""
        self._carried += tokens
        self._blank = self._blank and blank
        self.carrying = True

    def carried(self, tokens: int, blank: bool) -> tuple[int, bool]:
        """Ends a line that was carried: its tokens in all, and whether it is blank."""
        whole = self._carried + tokens, self._blank and blank
        self.carrying, self._carried, self._blank = False, 0, True
        return whole

    def end_document(self, lengths: list[int]) -> None:
        """Ends the document, if it has sentences; ``lengths`` are those not written yet."""
        count = self._sentences + len(lengths)
        if count > self._begun:
            self._documents.append(count - self._begun)
            self._begun = count

    def write(self, ids: bytes, lengths: list[int]) -> None:
        """Writes the ids of a piece and keeps the lengths of its sentences."""
        self._file.write(ids)
        self._lengths.write(np.array(lengths, "<u4").tobytes())
        self._sentences += len(lengths)

    def finish(self, width: int) -> Counted:
        """Ends the last sentence and document, and writes the counts."""
        if self.carrying:
            length, _ = self.carried(0, True)
            self.write(b"", [length] if length else [])
        self.end_document([])
        tokens = self._file.size // width
        counted = Counted(tokens, self._sentences, len(self._documents))
        self._lengths.seek(0)
        while block := self._lengths.read(_BLOCK):
            self._file.write(block)
        self._file.write(np.array(self._documents, "<u4").tobytes())
        self._file.write(_FOOTER.pack(tokens, self._sentences, len(self._documents), width, _MAGIC))
        return counted


def _counts(file: BinaryIO, path: Path) -> tuple[Counted, int]:
    """What a token file holds, from its footer, and the bytes of an id."""
    size = file.seek(0, os.SEEK_END)
    if size >= _FOOTER.size:
        file.seek(size - _FOOTER.size)
        *counts, width, magic = _FOOTER.unpack(file.read(_FOOTER.size))
        tokens, sentences, documents = counts
        whole = tokens * width + 4 * (sentences + documents) + _FOOTER.size
        if magic == _MAGIC and whole == size:
            return Counted(tokens, sentences, documents), width
    raise DamageError(
        f"{path.name} is not a whole token file.",
        where=str(path),
        hint="Remove it and run the command again: it is made anew.",
    )


def join_parts(parts: Sequence[Path], folder: Path) -> Counted:
    """Joins token files to a token store; running it again gives the same store.

    Args:
        parts: token files, in order, at least one.
        folder: the store; made if need be.

    Raises:
        InputError: the parts hold no text at all.
        DamageError: a part is no whole token file.
        StoreError: a file cannot be read or written.
    """
    tokens = sentences = documents = width = 0
    with told_as_ours(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with (
        AtomicFile(folder / "tokens") as ids,
        AtomicFile(folder / "sentences") as sentence_ends,
        AtomicFile(folder / "documents") as document_ends,
    ):
        for path in parts:
            with told_as_ours(path), path.open("rb", buffering=0) as file:
                counted, width = _counts(file, path)
                file.seek(0)
                for block in _blocks(file, counted.tokens * width):
                    ids.write(block)
                _write_ends(file, counted.sentences, tokens, sentence_ends)
                _write_ends(file, counted.documents, sentences, document_ends)
            tokens += counted.tokens
            sentences += counted.sentences
            documents += counted.documents
    if not documents:
        raise InputError(
            "The input files hold no text.",
            where="--input_file",
            hint="One sentence a line, a blank line between documents.",
        )
    write_json(
        folder / MARKER,
        {"tokens": tokens, "sentences": sentences, "documents": documents, "width": width},
    )
    return Counted(tokens, sentences, documents)


def _blocks(file: Any, count: int) -> Iterator[bytes]:
    while count:
        block = file.read(min(_BLOCK, count))
        count -= len(block)
        yield block


def _write_ends(file: Any, count: int, before: int, target: AtomicFile) -> None:
    """Writes where things of ``count`` lengths end, if the first begins at ``before``."""
    for block in _blocks(file, 4 * count):
        ends = np.cumsum(np.frombuffer(block, "<u4"), dtype=np.int64) + before
        before = int(ends[-1])
        target.write(ends.astype("<i8").tobytes())


class TokenStore:
    """A token store, memory-mapped.

    Args:
        folder: where it lies.

    Attributes:
        tokens: ids of all sentences, uint16 or uint32.
        sentences: where each sentence ends, in tokens; int64.
        documents: where each document ends, in sentences; int64.

    Raises:
        DamageError: it is not whole.
    """

    def __init__(self, folder: Path) -> None:
        with told_as_ours(folder):
            known = json.loads((folder / MARKER).read_bytes())
        self.counted = Counted(known["tokens"], known["sentences"], known["documents"])
        self._maps: list[mmap.mmap] = []
        width = known["width"]
        self.tokens = self._map(folder / "tokens", f"<u{width}", known["tokens"])
        self.sentences = self._map(folder / "sentences", "<i8", known["sentences"])
        self.documents = self._map(folder / "documents", "<i8", known["documents"])

    def _map(self, path: Path, dtype: str, count: int) -> np.ndarray:
        with told_as_ours(path), path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != count * np.dtype(dtype).itemsize:
                raise DamageError(
                    f"{path.name} does not hold {count:,} numbers.",
                    where=str(path),
                    hint="Remove its folder and run the command again: it is made anew.",
                )
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype)

    def sentence_start(self, sentence: Any) -> np.ndarray:
        """Where sentences begin, in tokens.

        Args:
            sentence: numbers of sentences, an int64 array.
        """
        return np.where(sentence > 0, self.sentences[sentence - 1], 0)

    def document_start(self, document: Any) -> np.ndarray:
        """Where documents begin, in sentences.

        Args:
            document: numbers of documents, an int64 array.
        """
        return np.where(document > 0, self.documents[document - 1], 0)

    def release(self) -> None:
        """Gives back the memory of pages that were looked at; they are read again when needed."""
        if self._is_large():
            for each in self._maps:
                each.madvise(mmap.MADV_DONTNEED)

    def glances(self, count: int) -> Iterator[slice]:
        """Slices in which to look at so many places anywhere in the store, with bounded memory.

        The system maps some pages around each place; those are given back after each slice.

        Args:
            count: number of places.
        """
        at_once = _GLANCES if self._is_large() else max(count, 1)
        for start in range(0, count, at_once):
            yield slice(start, start + at_once)
            self.release()

    def _is_large(self) -> bool:
        return sum(map(len, self._maps)) > _MAPPED
