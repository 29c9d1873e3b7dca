"""Tokenizers that remember words, so that a word is computed once and looked up ever after."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from provender.errors import SettingsError
from provender.nlp.text.basic import basic_tokens, split_words
from provender.nlp.text.vocabulary import CONTINUATION, Vocabulary, read_vocabulary

LONGEST_WORD = 400
"""Characters; BERT makes a longer word the unknown token."""

_REMEMBERED = 1 << 17


class Tokenizer(Protocol):
    """What makes ids of text."""

    vocabulary: Vocabulary

    def packed(self, text: str, *, plain: bool = False) -> bytes:
        """The ids of a text, as bytes of ``vocabulary.dtype``.

        Args:
            text: any text; a line or a part of one that ends where a word does.
            plain: whether it is known to hold no joiners (`provender.nlp.text.basic.JOINERS`).
        """
        ...


def make_tokenizer(
    kind: str, *, vocab_file: str | None = None, sp_model_file: str = "", lower: bool = True
) -> Tokenizer:
    """The tokenizer that options name.

    Args:
        kind: ``WordPiece`` or ``SentencePiece``.
        vocab_file: WordPiece's vocabulary.
        sp_model_file: SentencePiece's model.
        lower: whether to lower case text and remove its accents.

    Raises:
        SettingsError: the kind is unknown, or its file is not given.
        MissingFiles, InputError: the file is not there, or is none.
    """
    if kind == "WordPiece":
        if not vocab_file:
            raise SettingsError("WordPiece needs --vocab_file.", where="--vocab_file")
        return WordPiece(read_vocabulary(vocab_file), lower)
    if kind == "SentencePiece":
        from provender.nlp.text.pieces import SentencePiece

        if not sp_model_file:
            raise SettingsError("SentencePiece needs --sp_model_file.", where="--sp_model_file")
        return SentencePiece(Path(sp_model_file), lower)
    raise SettingsError(
        f"--tokenization must be WordPiece or SentencePiece, got {kind!r}.", where="--tokenization"
    )


class WordCache(dict[str, bytes]):
    """Word -> packed ids; forgets everything once it holds too much.

    Words of running text are so unevenly frequent that the common ones are back at once.

    Args:
        compute: makes the ids of a word.
        dtype: of the ids.
        most: words remembered.
    """

    def __init__(
        self,
        compute: Callable[[str], Iterable[int]],
        dtype: np.dtype[Any],
        most: int = _REMEMBERED,
    ) -> None:
        super().__init__()
        self._compute = compute
        self._dtype = dtype
        self._most = most

    def __missing__(self, word: str) -> bytes:
        packed = np.array(self._compute(word), self._dtype).tobytes()
        if len(word) <= LONGEST_WORD:
            if len(self) >= self._most:
                self.clear()
            self[word] = packed
        return packed


class WordPiece:
    """BERT's tokenizer: basic tokenization, then the longest pieces from the left.

    Args:
        vocabulary: its pieces.
        lower: whether to lower case text and remove its accents.

    Raises:
        InputError: the vocabulary has no unknown token.
    """

    def __init__(self, vocabulary: Vocabulary, lower: bool = True) -> None:
        self.vocabulary = vocabulary
        self._lower = lower
        (self._unknown,) = vocabulary.special(vocabulary.unknown)
        self._first = {
            each: i
            for each, i in vocabulary.ids.items()
            if each and not each.startswith(CONTINUATION)
        }
        self._rest = {
            each[len(CONTINUATION) :]: i
            for each, i in vocabulary.ids.items()
            if each.startswith(CONTINUATION) and len(each) > len(CONTINUATION)
        }
        self._longest = max(map(len, vocabulary.tokens))
        self._parts: dict[str, tuple[int, ...]] = {}
        self._words = WordCache(self._word, vocabulary.dtype)

    def packed(self, text: str, *, plain: bool = False) -> bytes:
        """The ids of a text, as bytes; see `Tokenizer.packed`."""
        return b"".join(map(self._words.__getitem__, split_words(text, plain=plain)))

    def ids(self, text: str) -> list[int]:
        """The ids of a text."""
        found: list[int] = np.frombuffer(self.packed(text), self.vocabulary.dtype).tolist()
        return found

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text."""
        return [self.vocabulary.tokens[each] for each in self.ids(text)]

    def _word(self, word: str) -> list[int]:
        found: list[int] = []
        parts = self._parts
        for part in basic_tokens(word, self._lower):
            known = parts.get(part)
            if known is None:
                known = self._pieces(part)
                if len(parts) >= _REMEMBERED:
                    parts.clear()
                if len(part) <= LONGEST_WORD:
                    parts[part] = known
            found += known
        return found

    def _pieces(self, part: str) -> tuple[int, ...]:
        """The longest piece that begins the part, then the longest that goes on from there ..."""
        if len(part) > LONGEST_WORD:
            return (self._unknown,)
        found = []
        start, table = 0, self._first
        while start < len(part):
            for end in range(min(len(part), start + self._longest), start, -1):
                piece = table.get(part[start:end])
                if piece is not None:
                    break
            else:
                return (self._unknown,)
            found.append(piece)
            start, table = end, self._rest
        return tuple(found)
