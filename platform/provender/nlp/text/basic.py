"""BERT's basic tokenization of one word: cleaning, lower case, accents, CJK and punctuation.

The rules are those of the BERT paper's code (Devlin et al., 2018): control characters vanish, each
CJK ideograph stands alone, with lower case accents (category Mn after NFD) vanish, and each
punctuation character stands alone. Here they apply to text without whitespace, so that results
can be remembered by word.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

JOINERS = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
"""Characters at which ``str.split`` splits, though BERT removes them and so joins what is around."""

JOINER_BYTES = JOINERS.encode("latin-1")[:-1]
"""The joiners that are one byte in UTF-8."""

NEL = "\x85".encode()
"""The joiner that is two bytes in UTF-8."""

_REMOVE_JOINERS = str.maketrans(dict.fromkeys(JOINERS))
_ASCII_CONTROLS = dict.fromkeys([*range(32), 127])
_ASCII = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
_REMOVED = ("\x00", "\ufffd")
_CATEGORIES_REMOVED = ("Cc", "Cf")

# The CJK Unified Ideographs blocks, their extensions A to E and the compatibility ideographs.
_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_PLAIN, _GONE, _ALONE = range(3)


def split_words(text: str) -> list[str]:
    """The words of a text: what whitespace separates once joiners are removed.

    Tokenizing the words one by one gives the same tokens as tokenizing the text.
    """
    return text.translate(_REMOVE_JOINERS).split()


def basic_tokens(word: str, lower: bool) -> list[str]:
    """The basic tokens of a word.

    Args:
        word: text without whitespace.
        lower: whether to lower case it and remove its accents.

    Returns:
        Its parts, in order; empty where nothing remains.
    """
    if word.isascii():
        if not word.isprintable():
            word = word.translate(_ASCII_CONTROLS)
        return _ASCII.findall(word.lower() if lower else word)
    kept = []
    for each in word:
        kind = _kind(each)
        if kind == _ALONE:
            kept += [" ", each, " "]
        elif kind == _PLAIN:
            kept.append(each)
    found: list[str] = []
    for part in "".join(kept).split():
        found += _split_punctuation(_without_accents(part.lower()) if lower else part)
    return found


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(each for each in decomposed if unicodedata.category(each) != "Mn")


def _split_punctuation(text: str) -> list[str]:
    spaced = "".join(f" {each} " if is_punctuation(each) else each for each in text)
    return spaced.split()


@lru_cache(1 << 14)
def _kind(character: str) -> int:
    code = ord(character)
    if any(low <= code <= high for low, high in _CJK):
        return _ALONE
    if character in _REMOVED or unicodedata.category(character) in _CATEGORIES_REMOVED:
        return _GONE
    return _PLAIN


@lru_cache(1 << 14)
def is_punctuation(character: str) -> bool:
    """Whether BERT counts a character as punctuation: any of category P, and ASCII's signs."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
