"""Between characters and tokens, for WordPiece and SentencePiece."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nlp.finetuning.conftest import WORDS, Project

from provender.nlp.finetuning.encoding import Packer
from provender.nlp.finetuning.passages import aligned, located
from provender.nlp.finetuning.squad import Paragraph, Question
from provender.nlp.finetuning.windows import QuestionEncoder
from provender.nlp.text.pieces import prepared

TEXTS = [
    "The Café in Zürich (est. 1895) is naïve.  It   cost $5!",
    "İstanbul’da ﬁne ㈱ ½ Ⅷ — 東京タワー",
    " leading and trailing ",
    "e\u0301tude \u0301 x",
]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def model(request: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    import sentencepiece

    folder = tmp_path_factory.mktemp("model")
    rng = random.Random(1)
    lines = [" ".join(rng.choices(WORDS[:30], k=8)) for _ in range(300)] + TEXTS * 3
    (folder / "text").write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=130,
        model_type=request.param, hard_vocab_limit=False, control_symbols="[CLS],[SEP]",
        minloglevel=2,
    )  # fmt: skip
    return str(folder / "m.model")


def packer(project: Project, model: str, lower: bool = True) -> Packer:
    return Packer(options(project, model, lower))


def options(project: Project, model: str, lower: bool = True, **more: Any) -> Any:
    return project.options(
        tokenization="SentencePiece", sp_model_file=model, do_lower_case=lower,
        fine_tuning_task_type="squad", squad_data_file="x", **more,
    )  # fmt: skip


words = st.text(
    st.sampled_from("aBcé  \t\u00a0İΣßﬁ½e\u0301東.\"'\u200bñ한Ǆ") | st.characters(codec="utf-8"),
    max_size=40,
)


@given(words, st.booleans())
def test_characters_are_led_through_the_preparation(text: str, lower: bool) -> None:
    made, origin = aligned(text, lower)
    assert made == prepared(" ".join(text.split()), lower)
    assert len(origin) == len(made)
    assert origin == sorted(origin)
    for each, i in zip(made, origin, strict=True):
        if not each.isspace() and lower:
            assert each in prepared(text[i], lower) or text[i] in "Σ"


def slow_alignment(raw: str, shown: str) -> list[int]:
    """For each character of the pieces' text one of the raw text: a longest common subsequence."""
    rows = [[0] * (len(shown) + 1) for _ in range(len(raw) + 1)]
    for i in range(len(raw)):
        for j in range(len(shown)):
            rows[i + 1][j + 1] = (
                rows[i][j] + 1 if raw[i] == shown[j] else max(rows[i][j + 1], rows[i + 1][j])
            )
    found = [-1] * len(shown)
    i, j = len(raw), len(shown)
    while i and j:
        if raw[i - 1] == shown[j - 1] and rows[i][j] == rows[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
            found[j] = i
        elif rows[i - 1][j] >= rows[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found


def test_answers_are_those_of_the_slow_alignment(project: Project, model: str) -> None:
    """Of text whose characters the preparation keeps, the two ways agree on every word."""
    tokenizing = packer(project, model)
    tokenizer: Any = tokenizing.tokenizer
    rng = random.Random(3)
    compared = 0
    for _ in range(8):
        context = " ".join(rng.choices([*WORDS[:30], "tower", "zurich", "1895"], k=12))
        there = located(context, tokenizing)
        shown = [tokenizer.vocabulary.tokens[each] for each in there.passage.ids]
        shown = ["\u2047" if each == "<unk>" else each.replace("▁", " ") for each in shown]
        owner = [i for i, each in enumerate(shown) for _ in each]
        slow = slow_alignment(" " + context, "".join(shown))
        at = 0
        for word in context.split():
            start = context.index(word, at)
            at = start + len(word)
            tokens = [owner[j] for j, i in enumerate(slow) if start <= i - 1 < at]
            found = there.locate(start, word)
            if len(tokens) == len(word):
                assert found == (min(tokens), max(tokens))
                compared += 1
    assert compared > 60


@pytest.mark.parametrize("lower", [True, False])
def test_tokens_are_the_tokenizers_and_stand_for_their_characters(
    project: Project, model: str, lower: bool
) -> None:
    tokenizing = packer(project, model, lower)
    for text in TEXTS:
        passage = located(text, tokenizing).passage
        assert list(passage.ids) == tokenizing.ids(text)
        covered = {
            i for a, b in zip(passage.begins, passage.ends, strict=True) for i in range(a, b)
        }
        kept = {i for i, each in enumerate(text) if prepared(each, lower).strip()}
        assert kept <= covered


@pytest.mark.parametrize("kind", ["WordPiece", "SentencePiece"])
@pytest.mark.parametrize("text", TEXTS[:2])
def test_every_word_comes_back(project: Project, model: str, kind: str, text: str) -> None:
    if kind == "WordPiece":
        tokenizing = Packer(project.options())
    else:
        tokenizing = packer(project, model)
    there = located(text, tokenizing)
    at = 0
    for word in text.split():
        start = text.index(word, at)
        at = start + len(word)
        found = there.locate(start, word)
        assert found is not None
        assert word in there.passage.text(*found)


def test_answers_that_stand_elsewhere(project: Project, model: str) -> None:
    for tokenizing in (Packer(project.options()), packer(project, model)):
        there = located("the cat sat", tokenizing)
        assert there.locate(4, "cat") is not None
        assert there.locate(0, "cat") is None
        assert there.locate(-1, "cat") is None
        assert there.locate(9, "cats") is None
        assert there.locate(4, "") is None


@pytest.mark.parametrize(
    "space", ["\u00a0", "\u2009", "\u3000", "\u2003 ", "\x1c", "\u202f", "\t\n"]
)
def test_answers_with_spaces_of_other_kinds(project: Project, model: str, space: str) -> None:
    context = f"the cat{space}sat{space}on the mat"
    answer = f"cat{space}sat"
    for tokenizing in (Packer(project.options()), packer(project, model)):
        there = located(context, tokenizing)
        found = there.locate(4, answer)
        assert found is not None
        # What stands beside it is a word of its own only after a space that parts words.
        assert there.passage.text(*found).startswith(answer)
        assert there.locate(4, f"dog{space}sat") is None


@settings(max_examples=30)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40), st.data())
def test_answers_come_back_through_windows(
    vocab: str, tmp_path_factory: pytest.TempPathFactory, parts: list[str], data: Any
) -> None:
    """Whatever words answer, some window has them, and gives back their text."""
    project = Project(Path("unused"), vocab)
    encoder = QuestionEncoder(
        project.options(
            fine_tuning_task_type="squad", squad_data_file="x", max_seq_length=20, doc_stride=6
        )
    )
    context = "  ".join(parts)
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first, min(first + 2, len(parts) - 1)))
    start = len("  ".join([*parts[:first], ""]))
    answer = "  ".join(parts[first : last + 1])
    paragraph = Paragraph(context, (Question("q", "who", answer, start),))
    found = []
    for window, tokens in encoder.windows(paragraph, Counter()):
        begin, end, absent = window.positions(tokens)
        if absent:
            assert (begin, end) == (0, 0)
            continue
        found.append(window.text(begin, end))
        assert window.paragraph[begin] == window.paragraph[end] == 1
    assert set(found) == {answer}
