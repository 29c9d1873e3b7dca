"""Translation batches: buckets, budgets, what is cut and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece as spm
from hypothesis import given
from hypothesis import strategies as st
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

from provender.errors import SettingsError
from provender.nlp import loaders
from provender.nlp.loaders.buckets import rows_per_bucket, upper_ends
from provender.nlp.registry import get_data_loader

MAX = 12


def test_buckets_grow_by_a_tenth() -> None:
    assert upper_ends(16) == [8, 9, 10, 11, 12, 13, 14, 15, 17]
    assert upper_ends(64)[:14] == [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22]
    assert upper_ends(8) == [9]
    assert upper_ends(3) == [4]


@given(st.integers(1, 4000), st.integers(1, 100_000))
def test_every_length_has_a_bucket_that_keeps_to_the_budget(longest: int, tokens: int) -> None:
    ends = upper_ends(longest)
    assert ends == sorted(set(ends)) and ends[-1] == longest + 1
    if tokens < ends[-1]:
        with pytest.raises(SettingsError, match="too small"):
            rows_per_bucket(tokens, ends)
        return
    for end, rows in zip(ends, rows_per_bucket(tokens, ends), strict=True):
        assert rows * end <= tokens < (rows + 1) * end


def read(files: Files, **options: Any) -> list[dict[str, np.ndarray]]:
    base = {
        "input_path": files.texts,
        "src_lang": "en",
        "tgt_lang": "de",
        "sentencepiece_model_path": files.sentencepiece,
        "max_seq_length": MAX,
        "has_unique_id": True,
        "global_batch_size": 100,
        "drop_remainder": False,
    }
    take = options.pop("take", -1)
    params = loaders.WMTDataConfig().override({**base, **options})
    return list(get_data_loader(params).load().take(take).as_numpy_iterator())


def tokens(files: Files, text: str, model: str = "") -> list[int]:
    processor = spm.SentencePieceProcessor(model_file=model or files.sentencepiece)
    return [*processor.encode(text), processor.eos_id()]


def by_id(batches: list[dict[str, np.ndarray]]) -> dict[int, tuple[list[int], list[int]]]:
    found = {}
    for batch in batches:
        for number, source, target in zip(
            batch["unique_id"], batch["inputs"], batch["targets"], strict=True
        ):
            assert int(number) not in found
            found[int(number)] = (source.tolist(), target.tolist())
    return found


def stripped(row: list[int], eos: int) -> list[int]:
    return row[: row.index(eos) + 1]


def cut(ids: list[int]) -> list[int]:
    return ids if len(ids) <= MAX else [*ids[: MAX - 1], ids[-1]]


@pytest.mark.parametrize("static", [False, True])
def test_evaluation_keeps_every_pair_and_cuts_long_ones(static: bool, files: Files) -> None:
    options = {"static_batch": True, "global_batch_size": 7} if static else {}
    found = by_id(read(files, **options))
    source = records.texts()
    assert sorted(found) == list(range(len(source)))
    long = 0
    for number, (inputs, targets) in found.items():
        for side, row in (("en", inputs), ("de", targets)):
            ids = tokens(files, source[number][side])
            assert stripped(row, ids[-1]) == cut(ids)
            assert not any(row[len(cut(ids)) :])
            long += len(ids) > MAX
    assert long > 0


def test_training_leaves_long_pairs_out(files: Files) -> None:
    source = records.texts()
    fits = {
        number
        for number, row in enumerate(source)
        if max(len(tokens(files, row[side])) for side in ("en", "de")) <= MAX
    }
    assert 0 < len(fits) < len(source)
    batches = read(files, is_training=True, seed=1, take=60)
    seen = {int(number) for batch in batches for number in batch["unique_id"]}
    assert seen == fits


def test_batches_keep_to_the_budget_and_are_as_wide_as_their_longest_row(files: Files) -> None:
    ends = upper_ends(MAX)
    limits = rows_per_bucket(100, ends)
    for batch in read(files):
        longest = max(batch["inputs"].shape[1], batch["targets"].shape[1])
        bucket = next(each for each, end in enumerate(ends) if longest < end)
        assert len(batch["inputs"]) <= limits[bucket]
        for side in ("inputs", "targets"):
            assert batch[side][:, -1].any()


def test_static_training_counts_tokens(files: Files) -> None:
    batches = read(files, is_training=True, static_batch=True, global_batch_size=MAX * 3, take=5)
    assert {batch["inputs"].shape for batch in batches} == {(3, MAX)}


def test_drop_remainder_is_kept_to(files: Files) -> None:
    kept = read(files, static_batch=True, global_batch_size=7)
    assert [len(batch["inputs"]) for batch in kept] == [7] * 5 + [5]
    dropped = read(files, static_batch=True, global_batch_size=7, drop_remainder=True)
    assert [len(batch["inputs"]) for batch in dropped] == [7] * 5
    limits = set(rows_per_bucket(100, upper_ends(MAX)))
    for batch in read(files, global_batch_size=100, drop_remainder=True):
        assert len(batch["inputs"]) in limits


def test_an_evaluation_that_fills_no_batch_says_so(files: Files) -> None:
    full = read(files, global_batch_size=100, drop_remainder=True)
    every = read(files, global_batch_size=100)
    assert [each["unique_id"].tolist() for each in full] == [
        each["unique_id"].tolist() for each in every[: len(full)]
    ]
    assert 0 < len(full) < len(every)
    with pytest.raises(Exception, match="fewer pairs of each length than a batch"):
        read(files, global_batch_size=10_000, drop_remainder=True)
    with pytest.raises(Exception, match=r"fewer than a batch of 1000: drop_remainder"):
        read(files, global_batch_size=1000, drop_remainder=True, static_batch=True)
    assert len(by_id(read(files, global_batch_size=10_000))) == records.ROWS


def test_the_end_of_sentence_is_the_model_s_own(
    files: Files, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = records.sentencepiece(tmp_path / "other", eos_id=2, bos_id=1, unk_id=0, pad_id=3)
    capfd.readouterr()
    for static in (False, True):
        found = by_id(read(files, sentencepiece_model_path=model, static_batch=static))
        for number, (inputs, _) in found.items():
            ids = tokens(files, records.texts()[number]["en"], model)
            assert ids[-1] == 2
            assert inputs[: len(cut(ids))] == cut(ids)
    assert capfd.readouterr().out == ""
