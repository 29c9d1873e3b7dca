"""SentencePiece over text as XLNet prepares it, and the pieces that mean something to XLNet."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

from provender.errors import InputError
from provender.nlp.text.pieces import SPACE, SentencePiece
from provender.nlp.text.vocabulary import CLS, SEP, Vocabulary

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;?@[\\]^_`{|}~")
_EOD = "<eod>"


class XLNetPieces(SentencePiece):
    """A SentencePiece model over text whose quotes are plain and whose accents are gone.

    Args:
        model: the model file.
        lower: whether to lower case text.
    """

    def _encode(self, text: str) -> list[int]:
        text = text.replace("``", '"').replace("''", '"')
        if not text.isascii():
            text = unicodedata.normalize("NFKD", text)
            text = "".join(each for each in text if not unicodedata.combining(each))
        ids: list[int] = self._processor.encode(text.lower() if self._lower else text)
        return ids


@dataclass(frozen=True)
class Marks:
    """Ids of pieces that mean something.

    Attributes:
        cls: closes a record.
        sep: closes a segment.
        eod: closes a document; None where that is not marked.
    """

    cls: int
    sep: int
    eod: int | None


def marks_of(vocabulary: Vocabulary, *, eod: bool) -> Marks:
    """The marks of a model: XLNet's names, or BERT's for the first two.

    Raises:
        InputError: it lacks one.
    """
    bert = all(each in vocabulary.ids for each in (CLS, SEP))
    xlnet = all(each in vocabulary.ids for each in ("<cls>", "<sep>"))
    names = [CLS, SEP] if bert and not xlnet else ["<cls>", "<sep>"]
    wanted = [*names, *([_EOD] if eod else [])]
    missing = [each for each in wanted if each not in vocabulary.ids]
    if missing:
        raise InputError(
            f"The model has no {', '.join(missing)}.",
            where=vocabulary.source,
            hint="Train it with control_symbols=<cls>,<sep>,<pad>,<mask>,<eod>,<eop>"
            + ("." if missing != [_EOD] else ", or give --no-use-eod-token."),
            facts={"missing": missing},
        )
    found = vocabulary.special(*wanted)
    return Marks(found[0], found[1], found[2] if eod else None)


def word_starts(vocabulary: Vocabulary) -> np.ndarray:
    """Whether each piece begins a word; bool, by id.

    That is the sign of a space, or a punctuation mark. Marks belong to the word before them.
    """
    return np.array(
        [each.startswith(SPACE) or each in _PUNCTUATION for each in vocabulary.tokens], bool
    )
