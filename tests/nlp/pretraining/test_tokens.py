"""Text as tokens on disk: every document once, whatever the ranges, blocks and lines are like."""

from __future__ import annotations

import io
import itertools
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.nlp.pretraining.conftest import documents_of

from provender.errors import DamageError, InputError
from provender.nlp.pretraining import TokenStore, join_parts, lines, tokenize_part
from provender.nlp.text import Tokenizer

WORDS = ["w1", "w2", "w3e4", "w5e6e7", "zz", "中", ".", "w9\x1c", "\x85w8", "\x01"]
BLANKS = ["", " ", "\t", "\x1c", "\u3000", "\r"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 16)
    monkeypatch.setattr(lines, "_TAIL", 8)


def plain(text: str, tokenizer: Any) -> list[list[list[int]]]:
    """Documents of sentences of ids, as the specification says."""
    documents: list[list[list[int]]] = [[]]
    for line in text.split("\n"):
        if not line.strip():
            documents.append([])
            continue
        ids = tokenizer.ids(line)
        if ids:
            documents[-1].append(ids)
    return [each for each in documents if each]


def tokenized(text: bytes, cuts: list[int], tokenizer: Tokenizer, **options: Any) -> Any:
    with TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "text"
        file.write_bytes(text)
        bounds = [0, *sorted(cuts), len(text)]
        parts = []
        for i, (start, stop) in enumerate(itertools.pairwise(bounds)):
            parts.append(folder / str(i))
            tokenize_part(file, start, stop, tokenizer, parts[-1], **options)
        join_parts(parts, folder / "store")
        return documents_of(TokenStore(folder / "store"))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_every_document_once_however_the_file_is_cut(
    data: st.DataObject, tokenizer: Tokenizer
) -> None:
    line = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
    every = data.draw(st.lists(line | st.sampled_from(BLANKS), min_size=1, max_size=20))
    text = "\n".join(every) + data.draw(st.sampled_from(["", "\n", "\n\n"]))
    expected = plain(text, tokenizer)
    if not expected:
        return
    size = len(text.encode())
    cuts = data.draw(st.lists(st.integers(0, size), max_size=4))
    assert tokenized(text.encode(), cuts, tokenizer) == expected


@pytest.mark.parametrize("word", ["w1w2" * 60, "中文" * 60, "w1." * 60, "w1 " * 60, "   " * 40])
def test_lines_longer_than_a_block(word: str, tokenizer: Tokenizer) -> None:
    text = f"w1\n{word}w3\n\nw4 w5\n{word}"
    assert tokenized(text.encode(), [20, 100], tokenizer) == plain(text, tokenizer)


def test_a_long_line_of_spaces_ends_a_document(tokenizer: Tokenizer) -> None:
    text = "w1\n" + " " * 100 + "\nw2"
    assert len(tokenized(text.encode(), [], tokenizer)) == 2


def test_invalid_bytes_are_told_with_their_place(tmp_path: Path, tokenizer: Tokenizer) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"w1 w2\n\nw3\nw4 \xff w5\n")
    with pytest.raises(InputError, match="byte 13, in line 4") as caught:
        tokenize_part(file, 0, 30, tokenizer, tmp_path / "part")
    assert str(caught.value.where).endswith("text:4")
    assert "--invalid_utf8=drop" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == [file]


def test_invalid_bytes_may_be_dropped(tokenizer: Tokenizer) -> None:
    found = tokenized(b"w1\xff w2\n\xff\nw3\n", [], tokenizer, invalid_utf8="drop")
    assert found == plain("w1 w2\n\nw3\n", tokenizer)


def test_text_without_tokens_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="hold no text"):
        tokenized(b"\n \n\x01\n", [], tokenizer)


def test_damaged_files_are_noticed(tmp_path: Path, tokenizer: Tokenizer) -> None:
    file, part = tmp_path / "text", tmp_path / "part"
    file.write_text("w1 w2\n\nw3\n")
    tokenize_part(file, 0, os.path.getsize(file), tokenizer, part)
    join_parts([part], tmp_path / "store")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(DamageError, match="not a whole token file"):
        join_parts([part], tmp_path / "other")
    assert not (tmp_path / "other" / "tokens").exists()
    tokens = tmp_path / "store" / "tokens"
    tokens.write_bytes(tokens.read_bytes()[:-1])
    with pytest.raises(DamageError, match="does not hold 3 numbers"):
        TokenStore(tmp_path / "store")


class Reads(io.BytesIO):
    """A file that counts the bytes that are read of it."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.count += len(found)
        return found


def test_a_long_line_is_not_read_to_its_end_for_each_range() -> None:
    file = Reads(b"w1\n\n" + b"w2 " * 10_000 + b"\n\nw3")
    assert lines.document_after(file, 4000) == len(file.getvalue()) - 2
    assert file.count > 25_000
    file.count = 0
    assert lines.document_after(file, 4000, 5000) >= 5000
    assert file.count < 1100
    assert lines.document_after(file, 1, 5000) == 4
