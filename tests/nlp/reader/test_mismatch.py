"""Records written with another sequence length are told by file, expected and found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from provender.errors import InputError
from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.mismatch import check_record, fixed_lengths


@pytest.mark.parametrize("way", ["fast", "filtered", "pieces"])
def test_the_file_and_both_lengths_are_named(
    data: SimpleNamespace, tmp_path: Path, way: str
) -> None:
    import tensorflow as tf

    data.write_numbers(tmp_path / "right", [5], length=4)
    [wrong] = data.write_numbers(tmp_path / "wrong", [5], length=8)
    path = wrong if way == "pieces" else f"{tmp_path}/right/*,{wrong}"
    params = DataConfig(input_path=path, global_batch_size=2, drop_remainder=False)
    keep = (lambda each: each["number"] >= 0) if way == "filtered" else None
    context = data.context(0, 2) if way == "pieces" else None
    made = InputReader(params, features=data.features(length=4), filter_fn=keep).read(context)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        list(made)
    message = str(caught.value)
    assert f"{wrong}: ids holds 8 values in its first record, and 4 are expected" in message


def test_a_missing_feature_is_named(data: SimpleNamespace, tmp_path: Path) -> None:
    import tensorflow as tf

    [file] = data.write_numbers(tmp_path, [5])
    features = data.features() | {"more": tf.io.FixedLenFeature([2], tf.int64)}
    made = InputReader(DataConfig(input_path=file, global_batch_size=2), features=features).read()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"more holds 0 values.*other names"):
        list(made)


def test_what_has_a_default_may_be_missing(data: SimpleNamespace, tmp_path: Path) -> None:
    import tensorflow as tf

    [file] = data.write_numbers(tmp_path, [4])
    features = data.features() | {"more": tf.io.FixedLenFeature([1], tf.int64, default_value=7)}
    made = InputReader(DataConfig(input_path=file, global_batch_size=2), features=features).read()
    assert data.numbers(made, key="more") == [7] * 4


def test_a_record_is_compared_without_a_pipeline(data: SimpleNamespace) -> None:
    features = data.features(length=4)
    check_record(data.example(1, length=4), features, "a.tfrecord")
    with pytest.raises(InputError, match="ids holds 6 values, and 4 are expected") as caught:
        check_record(data.example(1, length=6), features, "a.tfrecord")
    assert caught.value.where == "a.tfrecord"
    assert caught.value.facts == {"ids": {"expected": 4, "found": 6}}


def test_only_features_of_fixed_length_are_looked_at() -> None:
    import tensorflow as tf

    declared = {
        "fixed": tf.io.FixedLenFeature([2, 3], tf.int64),
        "default": tf.io.FixedLenFeature([1], tf.int64, default_value=0),
        "open": tf.io.VarLenFeature(tf.int64),
    }
    assert fixed_lengths(declared) == {"fixed": (6, tf.int64)}
