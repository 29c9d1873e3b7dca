"""The BERT loaders read what is made here: files of both kinds of names, compressed, and versions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.nlp.pretraining.conftest import examples_of

from provender.nlp.loaders.bert_pretrain import BertPretrainDataConfig
from provender.nlp.pretraining import Options, create
from provender.nlp.registry import get_data_loader


@pytest.mark.parametrize("v2", [False, True])
def test_the_static_loader_reads_the_files(
    v2: bool, vocab: str, text: Path, tmp_path: Path
) -> None:
    options = Options(
        vocab_file=vocab,
        dupe_factor=1,
        max_seq_length=64,
        max_predictions_per_seq=9,
        use_v2_feature_names=v2,
        gzip_compress=v2,
    )
    made = create(str(text), f"{tmp_path}/a", options)
    config = BertPretrainDataConfig(
        input_path=f"{tmp_path}/a",
        global_batch_size=32,
        is_training=False,
        drop_remainder=False,
        seq_length=64,
        max_predictions_per_seq=9,
        use_v2_feature_names=v2,
        file_type="tfrecord_compressed" if v2 else "tfrecord",
    )
    read = list(get_data_loader(config).load().as_numpy_iterator())
    expected = examples_of([tmp_path / "a"], options)
    names = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
    assert sum(len(each["input_mask"]) for each in read) == sum(made.records)
    for name, values in expected.items():
        batches = np.concatenate([each[names.get(name, name)] for each in read])
        assert np.array_equal(batches, values), name
