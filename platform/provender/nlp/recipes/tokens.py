"""The first step of recipes for pretraining: text becomes token files, piece by piece."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from provender.builders.steps import Part
from provender.nlp.pretraining.tokens import MARKER, join_parts, tokenize_part
from provender.nlp.recipes.text import Text
from provender.records.atomic import told_as_ours

if TYPE_CHECKING:
    from provender.nlp.text.words import Tokenizer

_PIECES, _STORE = "pieces", "store"


def piece_path(folder: Path, number: int) -> Path:
    """Where the token file of a piece of text lies, below the folder of the step."""
    return folder / _PIECES / f"{number:06d}"


def store_path(folder: Path) -> Path:
    """Where the token store lies, below the folder of the step."""
    return folder / _STORE


def tokenize(part: Part, text: Text, tokenizer: Tokenizer, invalid_utf8: str) -> list[Path]:
    """Tokenizes a part of a text; pieces that are done are left as they are.

    Args:
        part: which.
        text: the text.
        tokenizer: makes ids of lines.
        invalid_utf8: ``error`` or ``drop``.

    Returns:
        The token files.

    Raises:
        InputError: bytes are no UTF-8.
        StoreError: a file cannot be read or written.
    """
    if (store_path(part.folder) / MARKER).exists():
        return []
    with told_as_ours(part.folder):
        (part.folder / _PIECES).mkdir(exist_ok=True)
    mine = part.share(len(text.owners))
    missing = [each for each in mine if not piece_path(part.folder, each).exists()]
    done = len(mine) - len(missing)
    part.told(done, len(mine), "pieces")
    for number, piece in zip(missing, text.laid_out(missing, part.folder / "text"), strict=True):
        tokenize_part(
            Path(piece.path),
            piece.start,
            piece.stop,
            tokenizer,
            piece_path(part.folder, number),
            invalid_utf8=invalid_utf8,
        )
        done += 1
        part.told(done, len(mine), "pieces")
    return [piece_path(part.folder, each) for each in mine]


def join(folder: Path, pieces: int) -> list[Path]:
    """Joins the token files of all pieces to a store, and removes them.

    Args:
        folder: of the step.
        pieces: how many there are.

    Returns:
        The files of the store.

    Raises:
        InputError: they hold no text at all.
        StoreError: a file cannot be read or written.
    """
    store = store_path(folder)
    if not (store / MARKER).exists():
        join_parts([piece_path(folder, each) for each in range(pieces)], store)
    for name in (_PIECES, "text"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return sorted(store.iterdir())
