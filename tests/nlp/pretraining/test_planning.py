"""Pairs of segments: the specification's distribution, whatever the tasks and buckets are."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nlp.pretraining.conftest import corpus, documents_of, make_store, targets_of
from tests.nlp.pretraining.reference import instances

from provender.errors import DamageError
from provender.nlp.pretraining import Options, TokenStore, plan_task, planning, plans, tokens
from provender.nlp.pretraining.counter import Purpose
from provender.nlp.pretraining.cutting import heads, lengths_after
from provender.nlp.pretraining.planning import plan_tasks
from provender.nlp.pretraining.plans import ROW, read_bucket, read_counts
from provender.nlp.text import Tokenizer

PASSES = 20


def planned(
    store: TokenStore, options: Options, folder: Path, buckets: int = 3, task: int = 1 << 19
) -> np.ndarray:
    """All rows, in the order of their keys."""
    tasks = plan_tasks(store, options, task)
    paths = [folder / str(i) for i in range(len(tasks))]
    for task, path in zip(tasks, paths, strict=True):
        counts = plan_task(store, options, task, buckets, path)
        assert read_counts(path, buckets).tolist() == counts
    return np.concatenate([read_bucket(paths, each) for each in range(buckets)])


@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 40))
def test_cut_lengths_are_those_of_one_token_at_a_time(first: int, second: int, room: int) -> None:
    a, b = first, second
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    found = lengths_after(np.array([first]), np.array([second]), room)
    assert [int(each[0]) for each in found] == [a, b]


@pytest.mark.parametrize("tosses", [1, 5, 31, 32, 33, 127, 128, 129, 1000, 4096, 5000, 1_000_000])
def test_heads_are_binomial(tosses: int) -> None:
    count = 3000
    found = heads(
        1, Purpose.CUT_FIRST, np.full(count, tosses), np.arange(count), np.zeros(count, int), 0
    )
    assert found.min() >= 0
    assert found.max() <= tosses
    deviation = tosses**0.5 / 2
    assert abs(found.mean() - tosses / 2) < 4 * deviation / count**0.5
    assert abs(found.std() / deviation - 1) < 0.06


def test_every_token_is_used_once_but_for_random_seconds(
    store: TokenStore, vocab: str, tmp_path: Path
) -> None:
    """Uncut, the first segments and the true seconds of a pass cover the text exactly."""
    options = Options(
        vocab_file=vocab, dupe_factor=2, max_seq_length=2000, max_predictions_per_seq=9
    )
    rows = planned(store, options, tmp_path)
    for epoch in range(2):
        mine = rows[rows["epoch"] == epoch]
        true = mine[mine["random"] == 0]
        pieces = [(int(r["first"]), int(r["first_length"])) for r in mine]
        pieces += [(int(r["second"]), int(r["second_length"])) for r in true]
        at = 0
        for begin, length in sorted(pieces):
            assert begin == at
            at += length
        assert at == store.counted.tokens


def test_random_seconds_are_from_other_documents(
    store: TokenStore, vocab: str, tmp_path: Path
) -> None:
    rows = planned(store, Options(vocab_file=vocab), tmp_path)
    ends = store.sentences[store.documents - 1]
    of_second = np.searchsorted(ends, rows["second"], "right")
    random_ = rows["random"] == 1
    assert (of_second[random_] != rows["document"][random_]).all()
    assert (of_second[~random_] == rows["document"][~random_]).all()
    # Any document is as likely as any other.
    counts = np.bincount(of_second[random_], minlength=len(ends))
    expected = random_.sum() / len(ends)
    assert ((counts - expected) ** 2 / expected).sum() < 2 * len(ends)


def test_rows_do_not_depend_on_tasks_and_buckets(
    store: TokenStore, vocab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(vocab_file=vocab, dupe_factor=3, max_seq_length=64)
    folders = [tmp_path / str(i) for i in range(3)]
    for each in folders:
        each.mkdir()
    whole = planned(store, options, folders[0], buckets=1)
    assert (np.diff(whole["key"].astype(object)) >= 0).all()
    monkeypatch.setattr(planning, "SENTENCES_AT_ONCE", 20)
    # So does the memory of a large store that is given back meanwhile.
    monkeypatch.setattr(tokens, "_MAPPED", 100)
    monkeypatch.setattr(tokens, "_GLANCES", 5)
    monkeypatch.setattr(plans, "_ROWS_PER_RUN", 30)
    assert len(plan_tasks(store, options, 50)) > 10
    assert np.array_equal(planned(store, options, folders[1], buckets=7, task=50), whole)
    monkeypatch.setattr(planning, "SENTENCES_AT_ONCE", 3)
    assert np.array_equal(planned(store, options, folders[2], buckets=2, task=50), whole)


def test_one_document_has_no_random_seconds(
    tokenizer: Tokenizer, vocab: str, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("w1 w2 w3\nw4\nw5 w6 " + "w7 " * 50 + "\nw8 w9\n")
    store = make_store(tmp_path, text, tokenizer)
    rows = planned(
        store, Options(vocab_file=vocab, max_seq_length=16, max_predictions_per_seq=3), tmp_path
    )
    assert len(rows)
    assert not rows["random"].any()
    assert (rows["second_length"] > 0).all()
    assert (rows["first_length"] > 0).all()


def test_damaged_plans_are_noticed(store: TokenStore, vocab: str, tmp_path: Path) -> None:
    options = Options(vocab_file=vocab, dupe_factor=1)
    (task,) = plan_tasks(store, options, 1 << 19)
    plan_task(store, options, task, 2, tmp_path / "plan")
    whole = (tmp_path / "plan").read_bytes()
    for damaged in (whole[:-1], whole[ROW.itemsize :], whole[:10]):
        (tmp_path / "plan").write_bytes(damaged)
        with pytest.raises(DamageError, match="not a whole plan file"):
            read_bucket([tmp_path / "plan"], 0)


def figures_of_rows(rows: np.ndarray) -> dict[str, float]:
    first, second = rows["first_length"].astype(int), rows["second_length"].astype(int)
    return _figures(first, second, rows["random"], len(rows))


def figures_of_reference(store: TokenStore, options: Options) -> dict[str, float]:
    made = instances(
        documents_of(store),
        random.Random(1),
        passes=PASSES,
        target=targets_of(store, options),
        masks=False,
    )
    first = np.array([len(each.first) for each in made])
    second = np.array([len(each.second) for each in made])
    return _figures(first, second, np.array([each.label for each in made]), len(made))


def _figures(first: Any, second: Any, label: Any, count: int) -> dict[str, float]:
    total = first + second + 3
    return {
        "count": count,
        "length": total.mean(),
        "first": first.mean(),
        "second": second.mean(),
        "random": label.mean(),
        "full": (total == total.max()).mean(),
        "short": (total < 64).mean(),
    }


def test_short_lengths_are_drawn_once_a_document_and_pass(vocab: str) -> None:
    options = Options(vocab_file=vocab, short_seq_prob=0.25)
    drawn = np.concatenate([planning._targets(options, each, np.arange(5000)) for each in range(8)])
    short = drawn[drawn < 125]
    # 1 in 124 of the short ones is as long as the others.
    assert len(short) / len(drawn) == pytest.approx(0.25 * 123 / 124, abs=0.01)
    counts = np.bincount(short, minlength=125)
    assert counts[:2].tolist() == [0, 0]
    expected = len(short) / 123
    assert ((counts[2:] - expected) ** 2 / expected).sum() < 180


@pytest.mark.parametrize("kind", ["usual", "short documents", "long sentences"])
def test_the_distribution_is_that_of_the_specification(
    kind: str,
    tokenizer: Tokenizer,
    vocab: str,
    tmp_path: Path,
    make_text: Callable[[str], str],
) -> None:
    text = tmp_path / "text"
    text.write_text(make_text(kind))
    store = make_store(tmp_path, text, tokenizer)
    options = Options(vocab_file=vocab, dupe_factor=PASSES)
    ours = figures_of_rows(planned(store, options, tmp_path))
    slow = figures_of_reference(store, options)
    assert ours["count"] == pytest.approx(slow["count"], rel=0.02)
    for name in ("length", "first", "second"):
        assert ours[name] == pytest.approx(slow[name], rel=0.02), name
    assert ours["random"] == pytest.approx(slow["random"], abs=0.015)
    for name in ("full", "short"):
        assert ours[name] == pytest.approx(slow[name], abs=0.02), name


@pytest.fixture
def make_text() -> Callable[[str], str]:
    def make(kind: str) -> str:
        if kind == "usual":
            return corpus(40, seed=3, longest=60)
        if kind == "short documents":
            return corpus(400, seed=4, longest=3)
        rng = random.Random(5)
        words = (
            " ".join(f"w{rng.randrange(200)}" for _ in range(rng.randint(100, 700)))
            for _ in range(200)
        )
        return "\n\n".join("\n".join(group) for group in zip(words, words, strict=False))

    return make


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.data())
def test_the_end_of_a_partner_is_what_a_search_of_all_ends_finds(
    lengths: list[int], data: st.DataObject
) -> None:
    ends = np.cumsum(lengths)
    places = st.integers(0, len(ends) - 1)
    asked = data.draw(st.lists(st.tuples(places, places, st.integers(1, 100)), min_size=1))
    start, last, wanted = np.array(asked).T
    start, last = np.minimum(start, last), np.maximum(start, last)
    reach = np.concatenate([[0], ends])[start] + wanted
    found = planning._end_at(ends, start, np.minimum(start + wanted - 1, last), reach)
    assert found.tolist() == ends[np.minimum(np.searchsorted(ends, reach), last)].tolist()
