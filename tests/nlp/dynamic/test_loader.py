"""The dynamic BERT loader against the static columns that its files were made of."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tests.nlp.dynamic.made import columns, who, write

from provender.errors import SettingsError
from provender.nlp.dynamic import BertPretrainDynamicDataConfig, BertPretrainDynamicDataLoader
from provender.nlp.registry import get_data_loader

BUCKETS = (16, 32, 48, 64)


@pytest.fixture(scope="module")
def lengths():
    return np.random.default_rng(1).integers(4, 65, 203)


@pytest.fixture(scope="module")
def static(lengths):
    return columns(lengths)


@pytest.fixture(scope="module")
def file(static, tmp_path_factory):
    return write(tmp_path_factory.mktemp("records") / "a.tfrecord", static)


def config(file, **values):
    return BertPretrainDynamicDataConfig(
        input_path=file,
        global_batch_size=8,
        is_training=False,
        drop_remainder=False,
        seq_bucket_lengths=BUCKETS,
    ).replace(**values)


def batches(file, context=None, **values):
    loader = get_data_loader(config(file, **values))
    data = loader.load(context)
    tf.nest.map_structure(
        lambda declared, given: None if declared.is_compatible_with(given) else pytest.fail(),
        loader.element_spec(),
        data.element_spec,
    )
    return list(data.as_numpy_iterator())


def check_rows(made, static):
    """Every example is there once, as its static row cut to the bucket; gives who came."""
    seen = []
    for batch in made:
        numbers = who(batch["input_word_ids"])
        seen += numbers
        for name, values in batch.items():
            assert values.dtype == static[name].dtype
            width = values.shape[1]
            np.testing.assert_array_equal(values, static[name][numbers][:, :width], name)
            assert not static[name][numbers][:, width:].any()
    return seen


def test_rows_are_static_rows_cut_to_their_bucket(file, static, lengths):
    made = batches(file)
    assert sorted(check_rows(made, static)) == list(range(len(lengths)))
    for batch in made[:-1]:
        longest = lengths[who(batch["input_word_ids"])].max()
        width = batch["input_word_ids"].shape[1]
        assert width == BUCKETS[np.searchsorted(BUCKETS, longest)]
        assert batch["masked_lm_ids"].shape == (8, 10)
    assert len(made[-1]["input_word_ids"]) == 203 % 8


def test_records_without_padding_give_the_same(file, static, tmp_path):
    unpadded = write(tmp_path / "unpadded.tfrecord", static, padded=False)
    for one, other in zip(batches(file), batches(unpadded), strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_v2_names_and_position_ids_are_read(static, tmp_path):
    positions = np.arange(64, dtype=np.int32) * static["input_mask"]
    static = static | {"position_ids": positions}
    del static["next_sentence_labels"]
    file = write(tmp_path / "v2.tfrecord", static, v2=True)
    made = batches(
        file, use_v2_feature_names=True, use_position_id=True, use_next_sentence_label=False
    )
    assert "next_sentence_labels" not in made[0]
    assert "position_ids" in made[0]
    assert len(check_rows(made, static)) == 203


def test_a_dropped_remainder_is_less_than_one_batch(file, static, lengths):
    made = batches(file, drop_remainder=True)
    assert len(check_rows(made, static)) == 203 // 8 * 8
    assert {len(each["input_mask"]) for each in made} == {8}


def test_an_evaluation_that_fills_no_step_says_so(file):
    with pytest.raises(tf.errors.InvalidArgumentError, match="too few to fill the batches"):
        batches(file, drop_remainder=True, global_batch_size=4096)


def test_a_dropped_remainder_fixes_the_number_of_rows_in_the_specification(file):
    loader = get_data_loader(config(file, drop_remainder=True))
    assert loader.load().element_spec["input_word_ids"].shape.as_list() == [8, None]


@pytest.mark.parametrize("drop", [True, False])
def test_replicas_of_a_step_have_one_length(file, static, drop):
    context = tf.distribute.InputContext(1, 0, 4)
    made = batches(file, context, drop_remainder=drop)
    seen = check_rows(made, static)
    assert len(seen) == (200 if drop else 203)
    for step in range(0, len(made), 4):
        assert len({each["input_word_ids"].shape[1] for each in made[step : step + 4]}) == 1
    assert {len(each["input_mask"]) for each in made[:-4]} == {2}


def test_scaled_slots_keep_every_mask(file, static):
    made = batches(file, scale_mask_slots=True, max_predictions_per_seq=10)
    assert len(check_rows(made, static)) == 203
    slots = {each["input_mask"].shape[1]: each["masked_lm_ids"].shape[1] for each in made}
    assert slots == {16: 3, 32: 5, 48: 8, 64: 10}


def test_an_example_with_more_masks_than_its_bucket_has_goes_to_a_longer_one(tmp_path):
    static = columns([16, 16])
    static["masked_lm_positions"][1, :5] = np.arange(5)
    static["masked_lm_weights"][1, :5] = 1
    file = write(tmp_path / "many.tfrecord", static)
    made = batches(file, seq_bucket_mask_slots=(3, 5, 8, 10), global_batch_size=1)
    assert sorted(check_rows(made, static)) == [0, 1]
    assert sorted(each["input_mask"].shape[1] for each in made) == [16, 32]


def test_used_slots_behind_empty_ones_survive_scaling(tmp_path):
    static = columns([12])
    static["masked_lm_positions"][0, :10] = 0
    static["masked_lm_weights"][0, :10] = 0
    static["masked_lm_ids"][0, :10] = 0
    static["masked_lm_positions"][0, 8] = 7
    static["masked_lm_ids"][0, 8] = 77
    static["masked_lm_weights"][0, 8] = 1
    (batch,) = batches(write(tmp_path / "gap.tfrecord", static), seq_bucket_mask_slots=(2, 3, 4, 5))
    assert batch["masked_lm_positions"].tolist() == [[7, 0]]
    assert batch["masked_lm_ids"].tolist() == [[77, 0]]
    assert batch["masked_lm_weights"].tolist() == [[1.0, 0.0]]


def test_a_token_budget_gives_short_buckets_more_rows(file, static):
    made = batches(file, seq_bucket_token_budget=256, global_batch_size=0)
    assert len(check_rows(made, static)) == 203
    rows = {each["input_mask"].shape[1]: len(each["input_mask"]) for each in made[:-1]}
    assert rows == {16: 16, 32: 8, 48: 5, 64: 4}


def test_overlong_data_is_an_error_that_names_lengths_and_file(file, tmp_path):
    long = write(tmp_path / "long.tfrecord", columns([10, 70, 20], width=80))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        batches([file, long])
    assert "at most 64 tokens" in str(caught.value)
    assert f"Found: 70 in {long}" in str(caught.value)


def test_too_many_masks_are_an_error_that_names_counts_and_file(file):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        batches(file, seq_bucket_mask_slots=(2, 3, 4, 5))
    assert f"at most 5. Found: 10 in {file}" in str(caught.value)


@pytest.mark.parametrize("scale", [True, False])
def test_overlong_data_is_cut_on_request(tmp_path, scale):
    static = columns([70, 20, 64], width=80)
    static["masked_lm_positions"][0, :4] = (3, 40, 63, 69)
    static["masked_lm_weights"][0, :4] = 1
    file = write(tmp_path / "long.tfrecord", static)
    options = {"scale_mask_slots": True, "max_predictions_per_seq": 10} if scale else {}
    made = batches(file, seq_bucket_overlong="truncate", global_batch_size=1, **options)
    (cut,) = (each for each in made if who(each["input_word_ids"]) == [0])
    assert cut["input_word_ids"].shape == (1, 64)
    np.testing.assert_array_equal(cut["input_word_ids"][0, :-1], static["input_word_ids"][0, :63])
    assert cut["input_word_ids"][0, -1] == static["input_word_ids"][0, 69]
    kept = static["masked_lm_positions"][0][:10]
    kept = kept[(static["masked_lm_weights"][0] > 0) & (kept < 63)]
    used = cut["masked_lm_weights"][0] > 0
    np.testing.assert_array_equal(cut["masked_lm_positions"][0][used], kept)
    assert check_rows([each for each in made if each is not cut], static)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seq_bucket_lengths": ()}, "seq_bucket_lengths is empty"),
        ({"seq_bucket_mask_slots": (1,)}, "1 numbers of mask slots"),
        (
            {"seq_bucket_mask_slots": (1, 2, 3, 4), "scale_mask_slots": True},
            "Both seq_bucket_mask_slots and scale_mask_slots",
        ),
        ({"seq_bucket_window_scale": 0}, "seq_bucket_window_scale must be 1"),
        ({"packing": {}}, "packing"),
    ],
)
def test_a_config_that_cannot_work_is_refused_at_once(file, change, words):
    with pytest.raises(ValueError, match=words):
        get_data_loader(config(file, **change))


def test_a_batch_that_replicas_cannot_share_is_refused(file):
    loader = get_data_loader(config(file))
    with pytest.raises(ValueError, match="cannot be divided by 3"):
        loader.load(tf.distribute.InputContext(1, 0, 3))
    budget = BertPretrainDynamicDataLoader(config(file, seq_bucket_token_budget=100))
    with pytest.raises(ValueError, match="50 tokens a replica hold no row of 64"):
        budget.load(tf.distribute.InputContext(1, 0, 2))


def test_unknown_ways_with_overlong_data_are_refused(file):
    with pytest.raises(SettingsError, match="seq_bucket_overlong must be"):
        config(file, seq_bucket_overlong="drop")


def test_other_feature_names_are_an_error_that_says_so(file):
    with pytest.raises(tf.errors.InvalidArgumentError, match="see use_v2_feature_names"):
        batches(file, use_v2_feature_names=True)


def test_a_global_order_needs_no_word_on_determinism(file):
    """`deterministic` is False by default here, which is not to exclude an exact order."""
    params = config(file, global_shuffle=True)
    assert params.deterministic is False
    made = [list(get_data_loader(params).load().as_numpy_iterator()) for _ in range(2)]
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one["input_word_ids"], other["input_word_ids"])


def test_training_repeats_without_end(file):
    data = get_data_loader(config(file, is_training=True, drop_remainder=True)).load()
    counts = np.zeros(203, int)
    for batch in data.take(203):
        np.add.at(counts, who(batch["input_word_ids"]), 1)
    assert counts.sum() == 203 * 8
    assert counts.min() >= 5
