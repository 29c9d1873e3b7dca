"""Text before SentencePiece."""

from __future__ import annotations

import pytest
import sentencepiece as spm
import tensorflow as tf
from tests.nlp.loaders.conftest import Files

from provender.nlp.loaders.vocabulary import SentencePiece


@pytest.mark.parametrize(
    ("lower_case", "as_if"),
    [(None, "Straße É cat"), (False, "Straße E cat"), (True, "strasse e cat")],
)
def test_accents_are_stripped_and_cases_folded_where_asked_for(
    lower_case: bool | None, as_if: str, files: Files
) -> None:
    found = SentencePiece(files.sentencepiece, lower_case).tokenize(tf.constant(["Straße É cat"]))
    expected = spm.SentencePieceProcessor(model_file=files.sentencepiece).encode(as_if)
    assert found.to_list() == [expected]
