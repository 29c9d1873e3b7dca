"""SentencePiece, remembered by word where its model allows that."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from provender.errors import InputError, MissingFiles, SettingsError
from provender.nlp.text.vocabulary import Vocabulary
from provender.nlp.text.words import WordCache

SPACE = "\u2581"
"""What SentencePiece writes for a space."""


class SentencePiece:
    """A SentencePiece model over prepared text.

    Text is prepared as TF-NLP does: runs of whitespace become one space; with ``lower``, accents
    vanish (NFKD without combining characters) and so does case.

    Args:
        model: the model file.
        lower: whether to lower case text and remove its accents.

    Raises:
        SettingsError: the package ``sentencepiece`` is not installed.
        MissingFiles: there is no such file.
        InputError: it is no model.
    """

    def __init__(self, model: Path, lower: bool = True) -> None:
        self._processor = load_model(model)
        count = self._processor.get_piece_size()
        tokens = tuple(map(self._processor.id_to_piece, range(count)))
        unknown = tokens[self._processor.unk_id()]
        self.vocabulary = Vocabulary(tokens, str(model), unknown, marked=False)
        self._lower = lower
        self._words = WordCache(self._encode, self.vocabulary.dtype) if self._is_wordly() else None

    def packed(self, text: str, *, plain: bool = False) -> bytes:
        """The ids of a text, as bytes; see `provender.nlp.text.words.Tokenizer.packed`."""
        if self._words is not None:
            return b"".join(map(self._words.__getitem__, text.split()))
        ids = self._encode(" ".join(text.split()))
        return np.array(ids, self.vocabulary.dtype).tobytes()

    def ids(self, text: str) -> list[int]:
        """The ids of a text."""
        found: list[int] = np.frombuffer(self.packed(text), self.vocabulary.dtype).tolist()
        return found

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.encode(prepared(text, self._lower))
        return ids

    def _is_wordly(self) -> bool:
        """Whether no piece reaches over a space, and each word begins with the sign of one.

        Then the pieces of a text are those of its words: a space always begins a piece.
        """
        inner = any(SPACE in each[1:] for each in self.vocabulary.tokens)
        begins = self._processor.encode("a a", out_type=str)
        # A word may vanish with its accents, and then spaces meet.
        joins = self._processor.encode("a  a", out_type=str) == begins
        return (
            joins
            and not inner
            and SPACE in self.vocabulary.ids
            and begins == self._processor.encode("a", out_type=str) * 2
            and begins[0].startswith(SPACE)
        )


def prepared(text: str, lower: bool) -> str:
    """A text as the model is given it."""
    if lower and not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(each for each in text if not unicodedata.combining(each))
    return text.lower() if lower else text


def load_model(model: Path) -> Any:
    """The processor of a model file.

    Raises:
        SettingsError: the package ``sentencepiece`` is not installed.
        MissingFiles: there is no such file.
        InputError: it is no model.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise SettingsError(
            "SentencePiece needs the package sentencepiece.",
            where=str(model),
            hint="pip install 'provender[nlp]'",
        ) from error
    if not model.is_file():
        raise MissingFiles(
            f"There is no SentencePiece model {model.name}.",
            where=str(model),
            hint="Give --sp_model_file, or make one: `provender nlp train-vocab`.",
        )
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load(str(model))
    except (RuntimeError, OSError) as error:
        raise InputError(f"{model.name} is no SentencePiece model.", where=str(model)) from error
    return processor
