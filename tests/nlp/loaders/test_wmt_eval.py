"""The pairs of a translation's evaluation: numbered, in full batches, none lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

from provender.errors import SettingsError
from provender.nlp.inputs import build_inputs
from provender.nlp.loaders import WMTDataConfig
from provender.nlp.loaders.wmt_eval import (
    prepare_translation_eval,
    write_translation_eval_records,
)


def params(files: Files, **options: Any) -> WMTDataConfig:
    base = {
        "input_path": files.texts, "src_lang": "en", "tgt_lang": "de", "max_seq_length": 12,
        "sentencepiece_model_path": files.sentencepiece, "is_training": False,
        "static_batch": True, "global_batch_size": 7,
    }  # fmt: skip
    return WMTDataConfig().override({**base, **options})


def written(path: str) -> list[tuple[int, bytes, bytes]]:
    features = {
        "unique_id": tf.io.FixedLenFeature([], tf.int64),
        "en": tf.io.FixedLenFeature([], tf.string),
        "de": tf.io.FixedLenFeature([], tf.string),
    }
    rows = [tf.io.parse_single_example(each, features) for each in tf.data.TFRecordDataset(path)]
    return [(int(row["unique_id"]), row["en"].numpy(), row["de"].numpy()) for row in rows]


def test_every_pair_is_written_and_the_last_batch_filled(files: Files, tmp_path: Path) -> None:
    made = write_translation_eval_records(params(files), tmp_path / "logs" / "eval")
    assert (made.pairs, made.padding) == (records.ROWS, -records.ROWS % 7)
    found = written(made.path)
    assert [number for number, _, _ in found] == list(range(made.pairs + made.padding))
    assert len(found) % 7 == 0
    source = {(text, other) for _, text, other in found[: made.pairs]}
    assert b"" not in {text for pair in source for text in pair}
    assert {pair[1:] for pair in found[made.pairs :]} == {(b"", b"")}


@pytest.mark.parametrize(
    "options", [{"global_batch_size": records.ROWS // 2}, {"static_batch": False}]
)
def test_full_batches_and_those_of_any_size_need_no_padding(
    options: dict[str, Any], files: Files, tmp_path: Path
) -> None:
    made = write_translation_eval_records(params(files, **options), tmp_path / "eval")
    assert (made.pairs, made.padding) == (records.ROWS, 0)


def test_a_task_evaluates_every_pair_by_its_number(files: Files, tmp_path: Path) -> None:
    """On 2 hosts, each of which makes the same file."""
    found: list[int] = []
    for host in range(2):
        context = tf.distribute.InputContext(2, host, 2)
        data = build_inputs(
            "translation", params(files, global_batch_size=6), context, logging_dir=str(tmp_path)
        )
        batches = list(data)
        assert {len(each["unique_id"]) for each in batches} == {3}
        found += [number for each in batches for number in each["unique_id"].numpy().tolist()]
    assert sorted(found) == list(range(records.ROWS + -records.ROWS % 6))


def test_what_is_left_alone(files: Files) -> None:
    for given, folder in (
        (params(files), None),
        (params(files, is_training=True), "logs"),
        (params(files, has_unique_id=True), "logs"),
    ):
        assert prepare_translation_eval(given, folder) is given


def test_nothing_to_evaluate_on(files: Files, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="global_batch_size is 0"):
        write_translation_eval_records(params(files, global_batch_size=0), tmp_path / "eval")
    empty = records.write(tmp_path / "none", [])
    with pytest.raises(SettingsError, match="files are empty"):
        write_translation_eval_records(params(files, input_path=empty), tmp_path / "eval")
    assert not (tmp_path / "eval").exists()
