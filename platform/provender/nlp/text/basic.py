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

# The CJK Unified Ideographs, their extensions A to E and the compatibility ideographs.
_CJK = re.compile(
    "([\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f])"
)


def split_words(text: str, *, plain: bool = False) -> list[str]:
    """The words of a text: what whitespace separates once joiners are removed; ideographs alone.

    Tokenizing the words one by one gives the same tokens as tokenizing the text.

    Args:
        text: any text.
        plain: whether it is known to hold no joiners.
    """
    if not plain:
        text = text.translate(_REMOVE_JOINERS)
    return (text if text.isascii() else _CJK.sub(r" \1 ", text)).split()


def basic_tokens(word: str, lower: bool) -> list[str]:
    """The basic tokens of a word.

    Args:
        word: one of those that `split_words` gives.
        lower: whether to lower case it and remove its accents.

    Returns:
        Its parts, in order; empty where nothing remains.
    """
    if word.isascii():
        if not word.isprintable():
            word = word.translate(_ASCII_CONTROLS)
        return _ASCII.findall(word.lower() if lower else word)
    kept = "".join(each for each in word if not _is_removed(each))
    return _split_punctuation(_without_accents(kept.lower()) if lower else kept)


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(each for each in decomposed if unicodedata.category(each) != "Mn")


def _split_punctuation(text: str) -> list[str]:
    spaced = "".join(f" {each} " if is_punctuation(each) else each for each in text)
    return spaced.split()


@lru_cache(1 << 14)
def _is_removed(character: str) -> bool:
    return character in _REMOVED or unicodedata.category(character) in _CATEGORIES_REMOVED


@lru_cache(1 << 14)
def is_punctuation(character: str) -> bool:
    """Whether BERT counts a character as punctuation: any of category P, and ASCII's signs."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
