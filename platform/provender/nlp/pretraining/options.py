"""What is to be made: the options of the published script, under their names, checked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np

FORMATS = ("tfrecord",)
TOKENIZATIONS = ("WordPiece", "SentencePiece")
RANDOM_TOKENS = ("ordinary", "all")
INVALID_UTF8 = ("error", "drop")
SINGLE_DOCUMENT = ("continue", "stop")
LARGEST_NGRAM = 16
_SPECIAL = 3
"""[CLS] A [SEP] B [SEP]"""


@dataclass(frozen=True)
class Options:
    """How instances are made of text. Two equal ones make the same bytes of the same text.

    Attributes:
        tokenization: ``WordPiece`` or ``SentencePiece``.
        vocab_file: WordPiece's vocabulary.
        sp_model_file: SentencePiece's model.
        do_lower_case: lower case text and remove its accents.
        do_whole_word_mask: mask all tokens of a word or none.
        max_ngram_size: mask up to so many words in a row; needs ``do_whole_word_mask``.
        gzip_compress: compress the files.
        use_v2_feature_names: ``input_word_ids`` and ``input_type_ids`` instead of ``input_ids`` and
            ``segment_ids``.
        max_seq_length: tokens of an instance, padding included.
        max_predictions_per_seq: masked tokens of an instance, padding included.
        random_seed: of all choices.
        dupe_factor: passes over the text, each with other choices.
        masked_lm_prob: share of tokens to predict.
        short_seq_prob: probability that a document, in a pass, gets shorter instances.
        random_tokens: what a masked token may be replaced by: ``ordinary`` tokens, or ``all``,
            special ones included.
        invalid_utf8: ``error`` stops at bytes that are no UTF-8, ``drop`` leaves them out.
        single_document: with one document, which has no random next sentences: ``continue``
            without them, or ``stop``.
        format: of the files; ``tfrecord``.

    Raises:
        SettingsError: a value makes no sense, by itself or beside another.
    """

    tokenization: str = "WordPiece"
    vocab_file: str | None = None
    sp_model_file: str = ""
    do_lower_case: bool = True
    do_whole_word_mask: bool = False
    max_ngram_size: int | None = None
    gzip_compress: bool = False
    use_v2_feature_names: bool = False
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    random_seed: int = 12345
    dupe_factor: int = 10
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    random_tokens: str = "ordinary"
    invalid_utf8: str = "error"
    single_document: str = "continue"
    format: str = "tfrecord"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("tokenization", TOKENIZATIONS),
            ("random_tokens", RANDOM_TOKENS),
            ("invalid_utf8", INVALID_UTF8),
            ("single_document", SINGLE_DOCUMENT),
            ("format", FORMATS),
        ):
            if getattr(self, name) not in allowed:
                self._refuse(name, f"must be {' or '.join(allowed)}")
        if not 5 <= self.max_seq_length < 1 << 15:
            self._refuse("max_seq_length", "must be from 5 to 32,767")
        if self.max_predictions_per_seq < 1:
            self._refuse("max_predictions_per_seq", "must be 1 or more")
        if self.max_predictions_per_seq > self.max_seq_length:
            self._refuse(
                "max_predictions_per_seq",
                f"must not exceed --max_seq_length, {self.max_seq_length}",
            )
        if not 1 <= self.dupe_factor < 1 << 16:
            self._refuse("dupe_factor", "must be from 1 to 65,535")
        if not 0 < self.masked_lm_prob <= 1:
            self._refuse("masked_lm_prob", "must be above 0 and at most 1")
        if not 0 <= self.short_seq_prob <= 1:
            self._refuse("short_seq_prob", "must be from 0 to 1")
        if self.max_ngram_size is not None:
            if not self.do_whole_word_mask:
                self._refuse("max_ngram_size", "needs --do_whole_word_mask")
            if not 1 <= self.max_ngram_size <= LARGEST_NGRAM:
                self._refuse("max_ngram_size", f"must be from 1 to {LARGEST_NGRAM}")

    def _refuse(self, name: str, must: str) -> None:
        message = f"--{name} {must}, got {getattr(self, name)!r}."
        raise SettingsError(message, where=f"--{name}")

    @property
    def room(self) -> int:
        """Tokens of text that an instance holds: all but [CLS] and two [SEP]."""
        return self.max_seq_length - _SPECIAL

    @cached_property
    def predictions(self) -> np.ndarray:
        """Tokens to predict, by the length of an instance with its special tokens; int64.

        ``min(max_predictions_per_seq, max(1, round(length * masked_lm_prob)))``, but never more
        than there are tokens of text; halves are rounded as Python does, to even.
        """
        import numpy as np

        found = [
            min(self.max_predictions_per_seq, max(1, round(n * self.masked_lm_prob)), n - _SPECIAL)
            for n in range(self.max_seq_length + 1)
        ]
        return np.array(found).clip(0)

    @property
    def vocabulary(self) -> Path:
        """The file of the vocabulary or model."""
        is_model = self.tokenization == "SentencePiece"
        return Path(self.sp_model_file if is_model else self.vocab_file or "")

    def located(self) -> Options:
        """The same with absolute paths, for processes with other working directories."""
        return replace(
            self,
            vocab_file=self.vocab_file and os.path.abspath(self.vocab_file),
            sp_model_file=self.sp_model_file and os.path.abspath(self.sp_model_file),
        )

    def to_json(self) -> dict[str, Any]:
        """The options as a JSON-ready dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Options:
        """Reads what `to_json` gave."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in doc.items() if name in known})

    def digest(self) -> str:
        """Names what the options say, vocabulary file names apart: 32 hexadecimal characters."""
        import hashlib

        said = {k: v for k, v in self.to_json().items() if k not in ("vocab_file", "sp_model_file")}
        text = json.dumps(said, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
