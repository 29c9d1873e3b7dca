"""The tokens of all documents, one after the other, on disk, and of which sentence each is.

Two arrays: ``stream.tokens`` (ids) and ``stream.sides`` (uint8), which is 0 or 1 and changes from each
sentence to the next; the mark after a document is a sentence by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from provender.nlp.pretraining.tokens import TokenStore
from provender.records.atomic import AtomicFile, told_as_ours

_SENTENCES_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Stream:
    """Tokens and their sentences, mapped into memory.

    Attributes:
        tokens: ids.
        sides: 0 or 1; differs between neighbours of different sentences.
    """

    tokens: np.ndarray
    sides: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)


def write_stream(store: TokenStore, folder: Path, eod: int | None) -> Stream:
    """Lays out the documents of a store.

    Args:
        store: the documents.
        folder: where the arrays go.
        eod: id of the mark after each document, or None for no mark.

    Raises:
        StoreError: they cannot be written.
    """
    paths = stream_paths(folder)
    kind = store.tokens.dtype
    sentences = len(store.sentences)
    side = 0
    with AtomicFile(paths[0]) as tokens, AtomicFile(paths[1]) as sides:
        for first in range(0, sentences, _SENTENCES_AT_ONCE):
            stop = min(first + _SENTENCES_AT_ONCE, sentences)
            begin = int(store.sentences[first - 1]) if first else 0
            ends = store.sentences[first:stop] - begin
            ids = store.tokens[begin : begin + int(ends[-1])]
            lengths = np.diff(ends, prepend=0)
            if eod is not None:
                closing = _closing(store.documents, first, stop)
                ids = np.insert(ids, ends[closing], np.array(eod, kind))
                lengths = np.insert(lengths, closing + 1, 1)
            numbers = np.arange(side, side + len(lengths)) & 1
            tokens.write(np.ascontiguousarray(ids).tobytes())
            sides.write(np.repeat(numbers.astype(np.uint8), lengths).tobytes())
            side = (side + len(lengths)) & 1
    return open_stream(folder, kind)


def stream_paths(folder: Path) -> tuple[Path, Path]:
    """Where the arrays of a stream lie; the second is there before the first."""
    return folder / "stream.tokens", folder / "stream.sides"


def open_stream(folder: Path, kind: np.dtype) -> Stream:
    """A stream that was written before.

    Args:
        folder: where its arrays lie.
        kind: of its ids.

    Raises:
        StoreError: they are not there.
    """
    tokens, sides = stream_paths(folder)
    with told_as_ours(folder):
        return Stream(_mapped(tokens, kind), _mapped(sides, np.dtype(np.uint8)))


def _closing(documents: np.ndarray, first: int, stop: int) -> np.ndarray:
    """Which of the sentences from ``first`` to ``stop`` close a document, counted from ``first``."""
    low = int(np.searchsorted(documents, first, "right"))
    high = int(np.searchsorted(documents, stop, "right"))
    found: np.ndarray = documents[low:high] - 1 - first
    return found


def _mapped(path: Path, kind: np.dtype) -> np.ndarray:
    return np.memmap(path, kind, "r")
