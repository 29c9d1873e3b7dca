"""A passage as tokens, and the way between its tokens and its characters.

WordPiece takes SQuAD's contexts word by word. SentencePiece takes them prepared, and tells of each
piece which bytes it stands for; characters of the context are led through the preparation one by one.
So both take time in proportion to the text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from provender.nlp.finetuning.encoding import Packer

_SPACES = " \t\r\n\u202f"
"""What SQuAD's words are parted by."""


@dataclass(frozen=True)
class Passage:
    """A tokenized context.

    Attributes:
        context: the text.
        ids: of its tokens.
        begins: first character of the context that each token stands for.
        ends: the character after the last one; for WordPiece those of the whole word.
    """

    context: str
    ids: Sequence[int]
    begins: Sequence[int]
    ends: Sequence[int]

    def text(self, first: int, last: int) -> str:
        """The text that tokens from ``first`` to ``last``, both included, stand for."""
        return self.context[self.begins[first] : self.ends[last]].strip()


Answer = tuple[int, int]
"""First and last token."""


@dataclass(frozen=True)
class Located:
    """A passage and the way to find answers in it.

    Attributes:
        passage: the passage.
        locate: start in characters and text of an answer -> its tokens, or None.
    """

    passage: Passage
    locate: Callable[[int, str], Answer | None]


def located(context: str, packer: Packer) -> Located:
    """Tokenizes a context."""
    if packer.options.tokenization == "WordPiece":
        return _word_pieces(context, packer)
    return _sentence_pieces(context, packer)


def _word_pieces(context: str, packer: Packer) -> Located:
    words = _words(context)
    ids: list[int] = []
    first: list[int] = []
    begins, ends = [], []
    for start, stop in words:
        pieces = packer.ids(context[start:stop])
        first.append(len(ids))
        ids += pieces
        begins += [start] * len(pieces)
        ends += [stop] * len(pieces)
    first.append(len(ids))
    passage = Passage(context, ids, begins, ends)
    # The word of each character; a space belongs to the word before it.
    counts = [0] * len(context)
    for start, _ in words:
        counts[start] = 1
    word_of = [each - 1 for each in accumulate(counts)]

    def locate(start: int, answer: str) -> Answer | None:
        last = start + len(answer) - 1
        if not answer or not 0 <= start <= last < len(context) or word_of[start] < 0:
            return None
        a, b = word_of[start], word_of[last]
        # Spaces of other kinds do not part words here, but they do in the comparison.
        shown = " ".join(context[words[a][0] : words[b][1]].split())
        if " ".join(answer.split()) not in shown or first[a] >= first[b + 1]:
            return None
        return _narrowed(ids, first[a], first[b + 1] - 1, packer.ids(answer))

    return Located(passage, locate)


def _words(context: str) -> list[tuple[int, int]]:
    found = []
    start = None
    for i, each in enumerate(context):
        if each in _SPACES:
            if start is not None:
                found.append((start, i))
            start = None
        elif start is None:
            start = i
    if start is not None:
        found.append((start, len(context)))
    return found


def _narrowed(ids: Sequence[int], first: int, last: int, answer: Sequence[int]) -> Answer:
    """The first place of an answer's tokens within words that hold more, as in ``(1895-1943)``."""
    for start in range(first, last + 2 - len(answer)):
        if answer and list(ids[start : start + len(answer)]) == list(answer):
            return start, start + len(answer) - 1
    return first, last


def _sentence_pieces(context: str, packer: Packer) -> Located:
    from provender.nlp.text.pieces import prepared

    tokenizer: Any = packer.tokenizer
    lower = packer.options.do_lower_case
    text, origin = aligned(context, lower)
    pieces = tokenizer.spans(text)
    begins, ends = [], []
    # The token of each character of the context; a character without one has that of the next.
    token_of = [-1] * len(context)
    for token, (_, start, stop) in enumerate(pieces):
        begin = origin[start] if start < len(origin) else len(context)
        end = origin[stop - 1] + 1 if stop > start else begin
        begins.append(begin)
        ends.append(max(begin, end))
        for each in origin[start:stop]:
            if token_of[each] < 0:
                token_of[each] = token
    passage = Passage(context, [each[0] for each in pieces], begins, ends)
    after = _filled(token_of, -1)

    def locate(start: int, answer: str) -> Answer | None:
        last = start + len(answer) - 1
        if not answer or not 0 <= start <= last < len(context) or not pieces:
            return None
        there = prepared(" ".join(context[start : last + 1].split()), lower)
        if there != prepared(" ".join(answer.split()), lower):
            return None
        first = after[start]
        found = [each for each in token_of[start : last + 1] if each >= 0]
        return (first, max(found)) if found and first >= 0 else None

    return Located(passage, locate)


def _filled(values: Sequence[int], missing: int) -> list[int]:
    """Values, missing ones being the next that is there."""
    found = list(values)
    known = missing
    for i in range(len(found) - 1, -1, -1):
        if found[i] == missing:
            found[i] = known
        known = found[i]
    return found


def aligned(context: str, lower: bool) -> tuple[str, list[int]]:
    """A context as SentencePiece is given it, and where each of its characters comes from.

    Args:
        context: any text.
        lower: whether case and accents vanish.

    Returns:
        ``prepared(" ".join(context.split()), lower)``; and for each of its characters the index in
        the context.
    """
    made: list[str] = []
    origin: list[int] = []
    waiting = -1
    for i, each in enumerate(context):
        if each.isspace():
            waiting = i if made and waiting < 0 else waiting
            continue
        new = _prepared_character(each) if lower else each
        if waiting >= 0:
            made.append(" ")
            origin.append(waiting)
            waiting = -1
        made.append(new)
        origin += [i] * len(new)
    text = "".join(made)
    if lower:
        # Case is of the whole text: a sigma at the end of a word has a form of its own.
        text = text.lower()
    return text, origin


@lru_cache(1 << 14)
def _prepared_character(character: str) -> str:
    text = unicodedata.normalize("NFKD", character)
    # Lower case is longer than upper case only for characters that decompose.
    return "".join(each for each in text if not unicodedata.combining(each))
