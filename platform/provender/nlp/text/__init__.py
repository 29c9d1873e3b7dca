"""From text to token ids: vocabularies, WordPiece and SentencePiece, token for token as BERT does.

Words are looked up in a cache before anything is computed: running text repeats its words so often
that most of a corpus is tokenized by dictionary lookups alone.
"""

from __future__ import annotations

from provender.nlp.text.vocabulary import Vocabulary, read_vocabulary
from provender.nlp.text.words import Tokenizer, make_tokenizer

__all__ = ["Tokenizer", "Vocabulary", "make_tokenizer", "read_vocabulary"]
