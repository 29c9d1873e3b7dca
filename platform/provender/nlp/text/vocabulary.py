"""Vocabularies: tokens, their ids, and which of them are special."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from provender.errors import InputError, MissingFiles

UNKNOWN, CLS, SEP, MASK, PAD = "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"
CONTINUATION = "##"
_UNUSED = re.compile(r"\[unused\d+\]")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a tokenizer.

    Attributes:
        tokens: by id.
        source: the file they came from.
        unknown: the token for what has no other.
        marked: whether ``##`` marks the tokens that continue a word.
    """

    tokens: Sequence[str]
    source: str = ""
    unknown: str = UNKNOWN
    marked: bool = True

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """Token -> id; of repeated tokens the last one's, as BERT reads its files."""
        return {token: i for i, token in enumerate(self.tokens)}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type, of 2 or 4 bytes, that holds every id."""
        return np.dtype("<u2" if len(self) <= 1 << 16 else "<u4")

    @cached_property
    def continues(self) -> np.ndarray:
        """Whether each token continues a word; bool, by id."""
        if not self.marked:
            return np.zeros(len(self), bool)
        return np.array([each.startswith(CONTINUATION) for each in self.tokens], bool)

    @cached_property
    def ordinary(self) -> np.ndarray:
        """Ids of the tokens that stand for text: not special, not reserved; ascending uint32."""
        special = {self.unknown, CLS, SEP, MASK, PAD, "<pad>", "<unk>", "<s>", "</s>"}
        kept = [
            i
            for i, each in enumerate(self.tokens)
            if each not in special and not _UNUSED.fullmatch(each) and not _BYTE.fullmatch(each)
        ]
        return np.array(kept, np.uint32)

    def special(self, *names: str) -> list[int]:
        """The ids of special tokens.

        Raises:
            InputError: the vocabulary lacks one; all that it lacks are named.
        """
        missing = [each for each in names if each not in self.ids]
        if missing:
            raise InputError(
                f"The vocabulary has no {', '.join(missing)}.",
                where=self.source or None,
                hint="Add the special tokens, or make a vocabulary that has them: "
                "`provender nlp train-vocab`.",
                facts={"missing": missing, "tokens": len(self)},
            )
        return [self.ids[each] for each in names]


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Reads a WordPiece vocabulary: one token a line; its line number, from 0, is its id.

    Raises:
        MissingFiles: there is no such file.
        InputError: it is empty, or no UTF-8 text.
    """
    file = Path(path)
    try:
        text = file.read_bytes().decode("utf-8")
    except (FileNotFoundError, IsADirectoryError) as error:
        raise MissingFiles(
            f"There is no vocabulary file {file.name}.",
            where=str(file),
            hint="Give --vocab_file, or make one: `provender nlp train-vocab`.",
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file.name} is not UTF-8 text: byte {error.start:,}.",
            where=str(file),
            hint="A WordPiece vocabulary has one token a line; a SentencePiece model goes to "
            "--sp_model_file.",
        ) from error
    lines = text.split("\n")
    if lines and not lines[-1].strip():
        lines.pop()
    tokens = tuple(each.strip() for each in lines)
    if not any(tokens):
        raise InputError(
            f"The vocabulary file {file.name} is empty.",
            where=str(file),
            hint="It has one token a line; `provender nlp train-vocab` makes one.",
        )
    return Vocabulary(tokens, str(file))
