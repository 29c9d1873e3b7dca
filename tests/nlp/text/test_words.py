"""Tokenizing by remembered words equals tokenizing whole lines, token for token."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.errors import InputError, MissingFiles, SettingsError
from provender.nlp.text import Vocabulary, make_tokenizer, read_vocabulary
from provender.nlp.text.basic import JOINERS, basic_tokens, split_words
from provender.nlp.text.words import LONGEST_WORD, WordCache, WordPiece

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789é中文日σς.,!?'-#[]"]
VOCABULARY = Vocabulary(
    [
        *SPECIAL,
        *LETTERS,
        *(f"##{each}" for each in LETTERS[:36]),
        *"the of and ing cafe ab abc".split(),
        *"##ing ##ed ##bc ##fe".split(),
    ]
)
PUBLISHED = Path(__file__).with_name("published.json")

# What the two programs that BERT's tokenizer is known by agree on: the peer also removes
# unassigned and private characters, and lowers a final sigma like any other.
common = st.text(
    st.sampled_from("abcxyzABCéÉïñ0129 .,!?-#'\t\u00a0\u3000中文日本ア한\u0301\u0323\u200b—。")
    | st.characters(min_codepoint=33, max_codepoint=126),
    max_size=60,
)


# What is between or inside words and is none: controls, signs without width, spaces, marks; and
# words at the lengths that matter.
hostile = st.lists(
    st.sampled_from(
        [
            *map(chr, [*range(32), 127, 0x80, 0x85, 0x9F, 0xA0, 0xAD, 0xFFFD, 0xFEFF]),
            *"\u200b\u200c\u200d\u2028\u2029\u2060\u3000\u0301\u0327\u0345\u1e9e\u0130\ufb01",
            *"the cafe\u0301 \u00c9 \u4e2d\u6587 \u65e5 \U00020000 \U0002f800 \uac00 \u30a2 \U0001f600 $ + ~ \u2014",
        ]
    )
    | st.sampled_from([99, 100, 101, 399, 400, 401, 450]).map(lambda count: "a" * count)
    | st.sampled_from(["the", " ", "of", "ab"]),
    max_size=30,
).map("".join)


def reference(vocabulary: Vocabulary, lower: bool) -> Any:
    """The tokenizers library, with BERT's limit of characters, which is not its own default."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    model = models.WordPiece(
        dict(vocabulary.ids), unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD
    )
    found = Tokenizer(model)
    found.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=lower)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return found


def plain(text: str, vocabulary: Vocabulary, lower: bool) -> list[str]:
    """BERT's tokenizer as its paper's text describes it: slow, a character at a time."""
    cleaned = []
    for each in text:
        if each in "\x00\ufffd":
            continue
        if each in " \t\n\r" or unicodedata.category(each) == "Zs":
            cleaned.append(" ")
        elif unicodedata.category(each) in ("Cc", "Cf"):
            continue
        elif "\u4e00" <= each <= "\u9fff":
            cleaned += [" ", each, " "]
        else:
            cleaned.append(each)
    tokens = []
    for word in "".join(cleaned).split():
        if lower:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(each for each in word if unicodedata.category(each) != "Mn")
        part = ""
        for each in [*word, None]:
            sign = each is not None and (
                unicodedata.category(each).startswith("P") or each in "$+<=>^`|~"
            )
            if each is not None and not sign:
                part += each
                continue
            if part:
                tokens += pieces(part, vocabulary)
            part = ""
            if sign:
                tokens += pieces(each, vocabulary)
    return tokens


def pieces(word: str, vocabulary: Vocabulary) -> list[str]:
    """The longest pieces from the left."""
    found: list[str] = []
    rest = word
    while rest and len(word) <= LONGEST_WORD:
        begin = "##" if found else ""
        fitting = [n for n in range(len(rest), 0, -1) if begin + rest[:n] in vocabulary.ids]
        if not fitting:
            return ["[UNK]"]
        found.append(begin + rest[: fitting[0]])
        rest = rest[fitting[0] :]
    return found or ["[UNK]"]


def published() -> list[tuple[bool, str, list[str]]]:
    return [tuple(each) for each in json.loads(PUBLISHED.read_text())["cases"]]


@pytest.mark.parametrize(("lower", "text", "tokens"), published())
def test_hostile_lines_as_the_published_tokenizer_has_them(
    lower: bool, text: str, tokens: list[str]
) -> None:
    vocabulary = Vocabulary(json.loads(PUBLISHED.read_text())["vocabulary"])
    assert WordPiece(vocabulary, lower).tokens(text) == tokens


@settings(max_examples=400)
@given(common | hostile, st.booleans())
def test_equals_the_tokenizers_library(text: str, lower: bool) -> None:
    expected = reference(VOCABULARY, lower).encode(text).tokens
    assert WordPiece(VOCABULARY, lower).tokens(text) == expected


@settings(max_examples=300)
@given(st.text(max_size=80) | common, st.booleans())
def test_equals_a_plain_implementation(text: str, lower: bool) -> None:
    if any("\u3400" <= each <= "\u4dbf" or each > "\uf900" for each in text):
        return
    assert WordPiece(VOCABULARY, lower).tokens(text) == plain(text, VOCABULARY, lower)


@pytest.mark.parametrize("length", [99, 100, 101, 399, 400, 401])
def test_long_words(length: int) -> None:
    text = f"the {'a' * length} of"
    found = WordPiece(VOCABULARY).tokens(text)
    assert found == plain(text, VOCABULARY, True)
    assert (found[1] == "[UNK]") == (length > LONGEST_WORD)


@pytest.mark.parametrize("joiner", JOINERS)
def test_control_characters_join_what_is_around_them(joiner: str) -> None:
    tokenizer = WordPiece(VOCABULARY)
    assert tokenizer.tokens(f"th{joiner}e of") == ["the", "of"]
    assert tokenizer.tokens(f"{joiner}the{joiner}") == ["the"]
    assert split_words(f"a{joiner}b c") == ["ab", "c"]


def test_plain_text_may_say_so() -> None:
    tokenizer = WordPiece(VOCABULARY)
    text = "the cafe of abc, ing"
    assert tokenizer.packed(text, plain=True) == tokenizer.packed(text)


def test_a_full_cache_forgets_and_goes_on() -> None:
    asked: list[str] = []

    def compute(word: str) -> list[int]:
        asked.append(word)
        return [len(word)]

    cache = WordCache(compute, np.dtype("<u2"), most=2)
    words = ["a", "bb", "a", "ccc", "a", "a", "w" * (LONGEST_WORD + 1)]
    assert [cache[each] for each in words] == [len(each).to_bytes(2, "little") for each in words]
    assert asked == ["a", "bb", "ccc", "a", words[-1]]
    assert len(cache) <= 2


def test_empty_words_have_no_tokens() -> None:
    assert basic_tokens("\u200b\u200b", True) == []
    assert basic_tokens("\x01", False) == []


def test_ids_of_many_tokens_have_four_bytes() -> None:
    many = Vocabulary([*SPECIAL, *(f"t{i}" for i in range(70_000))])
    tokenizer = WordPiece(many)
    assert many.dtype == np.dtype("<u4")
    assert tokenizer.tokens("t0 t69999 zz") == ["t0", "t69999", "[UNK]"]


def test_vocabulary_files(tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("[PAD]\n[UNK]\nthe\n##s\n[unused0]\n")
    read = read_vocabulary(file)
    assert list(read.tokens) == ["[PAD]", "[UNK]", "the", "##s", "[unused0]"]
    assert read.continues.tolist() == [False, False, False, True, False]
    assert read.ordinary.tolist() == [2, 3]
    with pytest.raises(InputError, match=r"no \[CLS\], \[MASK\]") as caught:
        read.special("[UNK]", "[CLS]", "[MASK]")
    assert "train-vocab" in (caught.value.hint or "")


def test_vocabulary_files_that_are_none(tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty", tmp_path / "binary"
    empty.write_bytes(b"\n")
    binary.write_bytes(b"a\n\xff\xfe")
    with pytest.raises(InputError, match="empty"):
        read_vocabulary(empty)
    with pytest.raises(InputError, match=r"not UTF-8 text: byte 2"):
        read_vocabulary(binary)
    with pytest.raises(MissingFiles, match="no vocabulary file"):
        read_vocabulary(tmp_path / "absent")


def test_a_tokenizer_needs_its_file() -> None:
    with pytest.raises(SettingsError, match="--vocab_file"):
        make_tokenizer("WordPiece")
    with pytest.raises(SettingsError, match="--sp_model_file"):
        make_tokenizer("SentencePiece")
    with pytest.raises(SettingsError, match="WordPiece or SentencePiece, got 'Bytes'"):
        make_tokenizer("Bytes")
