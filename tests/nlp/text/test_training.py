"""Vocabularies made of text: the same each time, with special tokens, fit to be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provender.errors import InputError, SettingsError
from provender.nlp.text import make_tokenizer, read_vocabulary
from provender.nlp.text.pieces import prepared
from provender.nlp.text.training import train_sentencepiece, train_wordpiece


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pydoc_data.topics as pages

    file = tmp_path_factory.mktemp("text") / "text.txt"
    lines = [line for page in sorted(pages.topics) for line in pages.topics[page].splitlines()]
    file.write_text("\n".join(lines[:3000]) + "\nÀ la carte, naïve: 中文。\n")
    return file


def test_wordpiece_is_the_same_in_every_process(text: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    made = train_wordpiece([text], first, size=800, unused=2)
    program = (
        "import sys; from pathlib import Path\n"
        "from provender.nlp.text.training import train_wordpiece\n"
        "train_wordpiece([Path(sys.argv[1])], Path(sys.argv[2]), size=800, unused=2)"
    )
    subprocess.run([sys.executable, "-c", program, str(text), str(second)], check=True)
    assert first.read_bytes() == second.read_bytes()
    vocabulary = read_vocabulary(first)
    assert made.size == len(vocabulary) == len(set(vocabulary.tokens)) == 800
    start = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]"]
    assert list(vocabulary.tokens[:7]) == start


def test_wordpiece_tokenizes_its_text(text: Path, tmp_path: Path) -> None:
    train_wordpiece([text], tmp_path / "v.txt", size=600)
    tokenizer = make_tokenizer("WordPiece", vocab_file=str(tmp_path / "v.txt"))
    lines = text.read_text().splitlines()
    unknown = tokenizer.vocabulary.ids["[UNK]"]
    ids = [each for line in lines for each in tokenizer.ids(line)]  # type: ignore[attr-defined]
    assert ids.count(unknown) < len(ids) / 1000
    assert "##s" in tokenizer.vocabulary.ids
    assert "a" in tokenizer.vocabulary.ids


def test_case_is_kept_where_asked(text: Path, tmp_path: Path) -> None:
    train_wordpiece([text], tmp_path / "v.txt", size=600, lower=False)
    assert {"A", "T"} <= set(read_vocabulary(tmp_path / "v.txt").tokens)


@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_sentencepiece_is_the_same_each_time(text: Path, tmp_path: Path, model: str) -> None:
    first, second = tmp_path / "a.model", tmp_path / "b.model"
    made = train_sentencepiece([text], first, size=500, model=model)
    train_sentencepiece([text], second, size=500, model=model)
    assert first.read_bytes() == second.read_bytes()
    assert made.size == 500
    tokenizer = make_tokenizer("SentencePiece", sp_model_file=str(first))
    special = tokenizer.vocabulary.special("[CLS]", "[SEP]", "[MASK]")
    assert tokenizer.vocabulary.tokens[0] == "<pad>"
    assert not set(special) & set(tokenizer.vocabulary.ordinary.tolist())
    assert (tmp_path / "a.vocab").read_text().startswith("<pad>\t")


def test_words_of_sentencepiece_equal_whole_lines(text: Path, tmp_path: Path) -> None:
    import sentencepiece

    train_sentencepiece([text], tmp_path / "a.model", size=500, lower=False)
    tokenizer = make_tokenizer(
        "SentencePiece", sp_model_file=str(tmp_path / "a.model"), lower=False
    )
    peer = sentencepiece.SentencePieceProcessor(str(tmp_path / "a.model"))
    lines = text.read_text().splitlines()
    different = [
        line
        for line in lines
        if tokenizer.ids(line) != peer.encode(line)  # type: ignore[attr-defined]
    ]
    assert different == []


MODELS: dict[str, dict[str, Any]] = {
    "bytes for what is rare": {"byte_fallback": True},
    "spaces as they are": {"remove_extra_whitespaces": False},
    "no space before the first word": {"add_dummy_prefix": False},
    "space after words": {"treat_whitespace_as_suffix": True},
    "pieces over spaces": {"split_by_whitespace": False},
    "folded case": {"normalization_rule_name": "nmt_nfkc_cf"},
}
LINES = [
    "The module,  the\tclass and \u4e2d\u6587 \U0001f600!",
    "a \u0301 b\u0301\u0327 \u00c9t\u00c9 \u200b x\u00a0y \u3000",
    "\x1c\x85 \u00ad \ufb01n \u0130I " + "w" * 300,
    "",
]


@pytest.mark.parametrize("kind", MODELS)
def test_any_model_gives_what_it_gives_for_the_whole_line(
    text: Path, tmp_path: Path, kind: str
) -> None:
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "m"), vocab_size=500,
        hard_vocab_limit=False, minloglevel=2, **MODELS[kind],
    )  # fmt: skip
    model = str(tmp_path / "m.model")
    peer = sentencepiece.SentencePieceProcessor(model)
    for lower in (True, False):
        tokenizer: Any = make_tokenizer("SentencePiece", sp_model_file=model, lower=lower)
        for line in LINES + text.read_text().splitlines()[:40]:
            whole = peer.encode(prepared(" ".join(line.split()), lower))
            assert tokenizer.ids(line) == whole, line


def test_sentencepiece_drops_accents_with_case(text: Path, tmp_path: Path) -> None:
    train_sentencepiece([text], tmp_path / "a.model", size=500)
    lower = make_tokenizer("SentencePiece", sp_model_file=str(tmp_path / "a.model"))
    assert lower.packed("Café ÉTÉ") == lower.packed("cafe  ete")


def test_what_cannot_be_made_is_said(text: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    with pytest.raises(InputError, match="no tokens"):
        train_wordpiece([empty], tmp_path / "v.txt", size=100)
    with pytest.raises(InputError, match="no tokens"):
        train_sentencepiece([empty], tmp_path / "v.model", size=100)
    with pytest.raises(SettingsError, match="must exceed the 5 special tokens"):
        train_wordpiece([text], tmp_path / "v.txt", size=5)
    with pytest.raises(InputError, match="no model of 900,000 pieces") as caught:
        train_sentencepiece([text], tmp_path / "v.model", size=900_000)
    assert "smaller --size" in (caught.value.hint or "")
    with pytest.raises(SettingsError, match="unigram or bpe"):
        train_sentencepiece([text], tmp_path / "v.model", size=100, model="char")
    assert not (tmp_path / "v.txt").exists()
    assert not (tmp_path / "v.model").exists()


@pytest.mark.parametrize("length", [3, (1 << 16) - 1, 1 << 16, 200_000])
def test_bytes_that_are_no_text_are_told_with_their_place(tmp_path: Path, length: int) -> None:
    file = tmp_path / "text"
    file.write_bytes("fine \u00e9\n".encode() + b"a" * length + b"\xff b\n")
    with pytest.raises(InputError, match=f"byte {8 + length:,}, in line 2") as caught:
        train_wordpiece([file], tmp_path / "v.txt", size=100)
    assert str(caught.value.where) == f"{file}:2"
    # A character that is cut between two pieces of a long line is none of those.
    file.write_text("\u00e9" * length + "\n")
    train_wordpiece([file], tmp_path / "v.txt", size=100, lower=False, min_frequency=1)
    assert "\u00e9" in read_vocabulary(tmp_path / "v.txt").tokens
