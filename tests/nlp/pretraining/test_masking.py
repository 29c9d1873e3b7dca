"""What is masked, and how: the specification's counts and shares, tokens, words and runs of words."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.nlp.pretraining import reference
from tests.nlp.pretraining.conftest import documents_of, make_store, targets_of

from provender.nlp.pretraining import Options, TokenStore, plan_task
from provender.nlp.pretraining.grams import choose_grams
from provender.nlp.pretraining.masking import Chosen, Rows, choose_tokens, replace_tokens
from provender.nlp.pretraining.planning import plan_tasks
from provender.nlp.pretraining.plans import read_bucket
from provender.nlp.pretraining.writing import Recipe, gather, instances
from provender.nlp.text import Tokenizer

PASSES = 12


@pytest.fixture(scope="module")
def rows(store: TokenStore, vocab: str, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    folder = tmp_path_factory.mktemp("plans")
    options = Options(vocab_file=vocab, dupe_factor=PASSES)
    tasks = plan_tasks(store, options, 1 << 19)
    paths = [folder / str(i) for i in range(len(tasks))]
    for task, path in zip(tasks, paths, strict=True):
        plan_task(store, options, task, 1, path)
    return read_bucket(paths, 0)


def recipe(tokenizer: Tokenizer, vocab: str, **options: Any) -> Recipe:
    return Recipe(Options(vocab_file=vocab, dupe_factor=PASSES, **options), tokenizer.vocabulary)


def chosen_of(recipe: Recipe, gathered: Rows) -> Chosen:
    if recipe.options.do_whole_word_mask:
        return choose_grams(gathered, recipe.options, recipe.vocabulary.continues)
    return choose_tokens(gathered, recipe.options)


WAYS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "words": {"do_whole_word_mask": True},
    "runs": {"do_whole_word_mask": True, "max_ngram_size": 3},
}


@pytest.mark.parametrize("way", WAYS)
def test_what_may_be_masked(
    way: str, store: TokenStore, tokenizer: Tokenizer, vocab: str, rows: np.ndarray
) -> None:
    made = recipe(tokenizer, vocab, **WAYS[way])
    gathered = gather(store, made, rows)
    chosen = chosen_of(made, gathered)
    separator = gathered.first[chosen.row] + 1
    assert (chosen.position > 0).all()
    assert (chosen.position != separator).all()
    assert (chosen.position < (gathered.first + gathered.second + 2)[chosen.row]).all()
    assert (np.diff(chosen.row * 128 + chosen.position) > 0).all()
    budget = made.options.predictions[gathered.first + gathered.second + 3]
    if way == "tokens":
        assert (chosen.counts == budget).all()
    else:
        assert (chosen.counts <= budget).all()
        assert (chosen.counts == budget).mean() > 0.95


def test_budget_is_the_specifications() -> None:
    options = Options(max_seq_length=64, max_predictions_per_seq=5, masked_lm_prob=0.1)
    for length in range(5, 65):
        assert options.predictions[length] == min(5, max(1, round(length * 0.1)))
    # There are never more predictions than tokens of text.
    everything = Options(max_seq_length=64, max_predictions_per_seq=64, masked_lm_prob=1.0)
    assert everything.predictions[10] == 7


def test_every_position_is_as_likely(
    store: TokenStore, tokenizer: Tokenizer, vocab: str, rows: np.ndarray
) -> None:
    made = recipe(tokenizer, vocab)
    full = rows[(rows["first_length"] + rows["second_length"]) == 125]
    gathered = gather(store, made, full)
    chosen = chosen_of(made, gathered)
    # Numbers of text tokens, [SEP] left out.
    place = chosen.position - 1 - (chosen.position > gathered.first[chosen.row])
    counts = np.bincount(place, minlength=125)
    expected = len(place) / 125
    # Without replacement the counts vary a little less than chi-square has it.
    assert ((counts - expected) ** 2 / expected).sum() < 180
    halves = Counter((chosen.slot[place == 60]).tolist())
    assert len(halves) > 10


def test_words_are_masked_whole(
    store: TokenStore, tokenizer: Tokenizer, vocab: str, rows: np.ndarray
) -> None:
    made = recipe(tokenizer, vocab, **WAYS["words"])
    gathered = gather(store, made, rows[:500])
    chosen = chosen_of(made, gathered)
    masked = [set() for _ in range(500)]  # type: ignore[var-annotated]
    for row, position in zip(chosen.row.tolist(), chosen.position.tolist(), strict=True):
        masked[row].add(position)
    continues = frozenset(np.flatnonzero(made.vocabulary.continues).tolist())
    for row in range(500):
        ids = gathered.ids[row].tolist()
        a, b = int(gathered.first[row]), int(gathered.second[row])
        first, second = ids[1 : 1 + a], ids[2 + a : 2 + a + b]
        for start, stop in reference.grams_of(first, second, continues):
            inside = masked[row] & set(range(start, stop))
            assert len(inside) in (0, stop - start)


@pytest.mark.parametrize("way", ["words", "runs"])
def test_grams_are_chosen_as_the_specification_does(
    way: str, store: TokenStore, tokenizer: Tokenizer, vocab: str, rows: np.ndarray
) -> None:
    made = recipe(tokenizer, vocab, **WAYS[way])
    chosen = chosen_of(made, gather(store, made, rows))
    lead = chosen.slot == chosen.lead
    begins = np.flatnonzero(lead)
    sizes = np.diff(np.append(begins, len(lead)))
    ours = Counter(sizes.tolist())
    continues = frozenset(np.flatnonzero(made.vocabulary.continues).tolist())
    slow = reference.instances(
        documents_of(store),
        random.Random(1),
        passes=PASSES,
        target=targets_of(store, made.options),
        continues=continues,
        ngrams=made.options.max_ngram_size or 1,
    )
    theirs = Counter(stop - start for each in slow for start, stop in each.grams)
    for size in range(1, 8):
        expected = theirs[size] / theirs.total()
        assert ours[size] / ours.total() == pytest.approx(expected, abs=0.01), size
    per_instance = sum(each.masked for each in slow) / len(slow)
    assert chosen.counts.mean() == pytest.approx(per_instance, rel=0.02)
    tokens = sum(each.length for each in slow)
    rate = sum(each.masked for each in slow) / tokens
    lengths = rows["first_length"].astype(int) + rows["second_length"] + 3
    assert chosen.counts.sum() / lengths.sum() == pytest.approx(rate, abs=0.001)


@pytest.mark.parametrize("way", WAYS)
def test_eighty_ten_ten(
    way: str, store: TokenStore, tokenizer: Tokenizer, vocab: str, rows: np.ndarray
) -> None:
    made = recipe(tokenizer, vocab, **WAYS[way])
    gathered = gather(store, made, rows)
    before = gathered.ids.copy()
    chosen = chosen_of(made, gathered)
    labels = replace_tokens(gathered, chosen, made.replacing, made.options)
    assert np.array_equal(labels, before[chosen.row, chosen.position])
    there = gathered.ids[chosen.row, chosen.position]
    hidden = there == made.replacing.mask
    assert hidden.mean() == pytest.approx(0.8, abs=0.01)
    # A random token is the original one in 240 times.
    assert ((there == labels) & ~hidden).mean() == pytest.approx(0.1004, abs=0.01)
    untouched = np.ones(before.shape, bool)
    untouched[chosen.row, chosen.position] = False
    assert np.array_equal(gathered.ids[untouched], before[untouched])
    # A gram is decided as one.
    same = (chosen.lead[1:] == chosen.lead[:-1]) & (chosen.row[1:] == chosen.row[:-1])
    assert (hidden[1:] == hidden[:-1])[same].all()
    if way == "tokens":
        assert not same.any()


@pytest.mark.parametrize(("which", "expected"), [("ordinary", range(5, 245)), ("all", range(245))])
def test_random_tokens(
    which: str,
    expected: range,
    store: TokenStore,
    tokenizer: Tokenizer,
    vocab: str,
    rows: np.ndarray,
) -> None:
    made = recipe(tokenizer, vocab, random_tokens=which)
    gathered = gather(store, made, rows)
    chosen = chosen_of(made, gathered)
    labels = replace_tokens(gathered, chosen, made.replacing, made.options)
    there = gathered.ids[chosen.row, chosen.position]
    random_ = there[(there != labels) & (there != made.replacing.mask)]
    seen = set(random_.tolist())
    assert seen <= set(expected)
    assert len(seen) > 0.9 * len(expected)
    assert bool(seen & {0, 1, 2, 3}) == (which == "all")


@pytest.mark.parametrize("way", WAYS)
def test_an_instance_does_not_depend_on_its_neighbours(
    way: str, store: TokenStore, tokenizer: Tokenizer, vocab: str, rows: np.ndarray
) -> None:
    made = recipe(tokenizer, vocab, **WAYS[way])
    whole = instances(store, made, rows[:60])
    apart = [instances(store, made, rows[start : start + 7]) for start in range(0, 60, 7)]
    for name, values in whole.items():
        assert np.array_equal(values, np.concatenate([each[name] for each in apart])[:60]), name


def test_tiny_instances(tokenizer: Tokenizer, vocab: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("w1\n\nw2\n\nw3e1\n")
    store = make_store(tmp_path, text, tokenizer)
    for way in WAYS.values():
        made = recipe(tokenizer, vocab, max_seq_length=5, max_predictions_per_seq=5, **way)
        (task, *_) = plan_tasks(store, made.options, 1 << 19)
        plan_task(store, made.options, task, 1, tmp_path / "plan")
        values = instances(store, made, read_bucket([tmp_path / "plan"], 0))
        assert values["input_mask"].sum(axis=1).tolist() == [5, 5, 5]
        assert values["masked_lm_weights"].sum(axis=1).tolist() == [1, 1, 1]
        for row in values["masked_lm_positions"].tolist():
            assert all(a >= b for a, b in pairwise(row))
