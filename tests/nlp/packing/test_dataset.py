"""Packing in a `tf.data` pipeline: the static BERT loader, and token features of any kind."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tests.nlp.dynamic.made import columns, write

from provender.errors import SettingsError
from provender.nlp.config import PackingConfig
from provender.nlp.loaders.bert_pretrain import BertPretrainDataConfig
from provender.nlp.packing.dataset import pack_examples, room_of
from provender.nlp.packing.fields import bert_fields, token_fields
from provender.nlp.packing.fit import Room
from provender.nlp.packing.numpy_rows import pack
from provender.nlp.packing.padding import padding_of
from provender.nlp.registry import get_data_loader


@pytest.fixture(scope="module")
def values():
    return columns(np.random.default_rng(4).integers(4, 65, 150))


@pytest.fixture(scope="module")
def file(values, tmp_path_factory):
    return write(tmp_path_factory.mktemp("records") / "a.tfrecord", values)


def config(file, **changes):
    return BertPretrainDataConfig(
        input_path=file,
        global_batch_size=8,
        is_training=False,
        drop_remainder=False,
        seq_length=64,
        max_predictions_per_seq=10,
    ).replace(**changes)


def joined(batches):
    return {name: np.concatenate([each[name] for each in batches]) for name in batches[0]}


def test_the_static_loader_packs_buffer_by_buffer(file, values):
    packing = PackingConfig(buffer_size=60, max_segments=5, max_predictions_per_seq=12)
    loader = get_data_loader(config(file, packing=packing))
    data = loader.load()
    assert loader.element_spec() == data.element_spec
    batches = list(data.as_numpy_iterator())
    assert {len(each["input_mask"]) for each in batches[:-1]} == {8}
    parts = [
        pack(
            {name: column[start : start + 60] for name, column in values.items()},
            bert_fields(),
            Room(64, segments=5, masks=12),
        )
        for start in range(0, 150, 60)
    ]
    found, expected = joined(batches), joined(parts)
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)


def test_packing_leaves_little_padding_and_no_example_out(file):
    before = padding_of(get_data_loader(config(file)).load())
    packed = get_data_loader(config(file, packing={"max_predictions_per_seq": 14})).load()
    after = padding_of(packed)
    assert (after.examples, after.tokens) == (before.examples, before.tokens)
    assert before.share > 0.4
    assert after.share < 0.06
    assert after.gain_over(before) > 1.6


def test_each_replica_gets_its_rows(file):
    context = tf.distribute.InputContext(1, 0, 2)
    loader = get_data_loader(config(file, packing={}, drop_remainder=True))
    data = loader.load(context)
    assert data.element_spec["input_mask"].shape.as_list() == [4, 64]


def test_an_evaluation_that_fills_no_batch_says_so(file):
    loader = get_data_loader(config(file, packing={}, drop_remainder=True, global_batch_size=512))
    with pytest.raises(Exception, match=r"fewer than a batch of 512: drop_remainder"):
        next(iter(loader.load()))


def test_cached_examples_are_packed_the_same(file):
    plain, cached = (
        joined(list(get_data_loader(config(file, packing={}, cache=cache)).load()))
        for cache in (False, True)
    )
    for name, value in plain.items():
        np.testing.assert_array_equal(cached[name], value, name)


def test_a_loader_without_roles_refuses_packing(file):
    from provender.nlp.loaders.sentence_prediction import SentencePredictionDataConfig

    with pytest.raises(SettingsError, match="cannot pack several examples"):
        get_data_loader(SentencePredictionDataConfig(input_path=file, packing=PackingConfig()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"buffer_size": 0}, "A buffer of 0 examples"),
        ({"open_rows": 0}, "open_rows is 0"),
        ({"max_segments": 0}, "0 segments"),
        ({"seq_length": 0}, "0 tokens"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_before_anything_is_read(file, change, words):
    with pytest.raises(ValueError, match=words):
        get_data_loader(config(file, packing=change))


def test_a_row_may_be_longer_than_the_records(file):
    loader = get_data_loader(config(file, packing={"seq_length": 128}))
    batch = next(iter(loader.load()))
    assert batch["input_word_ids"].shape == (8, 128)


def test_token_features_of_any_model_are_packed():
    lengths = [5, 3, 9, 2, 7, 4]
    examples = tf.data.Dataset.range(6).map(
        lambda number: {
            "tokens": tf.fill([tf.gather(tf.constant(lengths), number)], number + 1),
            "label": number,
        }
    )
    made = pack_examples(
        examples,
        token_fields("tokens", labels=("label",)),
        PackingConfig(max_segments=3),
        seq_length=10,
        rows=2,
        drop_remainder=False,
    )
    batches = list(made.as_numpy_iterator())
    assert [each["tokens"].shape for each in batches] == [(2, 10), (2, 10)]
    rows = joined(batches)
    assert rows["tokens"].tolist() == [
        [1] * 5 + [6] * 4 + [0],
        [2] * 3 + [5] * 7,
        [3] * 9 + [0],
        [4] * 2 + [0] * 8,
    ]
    for row, slot in zip(*np.nonzero(rows["label_weights"]), strict=True):
        number = rows["label"][row, slot]
        assert rows["tokens"][row, rows["label_positions"][row, slot]] == number + 1


def test_zeros_are_tokens_where_the_lengths_are_known():
    examples = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[0, 0], [7, 0, 0]])).map(
        lambda ids: {"ids": ids}
    )
    made = pack_examples(examples, token_fields("ids"), PackingConfig(), seq_length=8, rows=1)
    (batch,) = made.as_numpy_iterator()
    assert batch["segment_ids"].tolist() == [[1, 1, 2, 2, 2, 0, 0, 0]]


def test_sizes_come_from_the_loader_unless_they_are_given():
    assert room_of(PackingConfig(), seq_length=64, max_predictions_per_seq=10) == Room(64, 8, 10)
    given = PackingConfig(seq_length=32, max_predictions_per_seq=7, max_segments=2)
    assert room_of(given, seq_length=64, max_predictions_per_seq=10) == Room(32, 2, 7)
