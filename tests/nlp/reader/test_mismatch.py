"""Records written with another sequence length are told by file, record, expected and found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.errors import SettingsError
from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.files import compressed_records
from provender.nlp.reader.mismatch import fixed_lengths

WAYS: dict[str, dict[str, Any]] = {
    "whole batches": {},
    "chunks": {"filter_fn": lambda each: each["number"] >= 0},
    "chunks, then one by one": {"sample_fn": lambda data: data},
}


def misfit(data: SimpleNamespace, folder: Path) -> str:
    """A file of nine records, of which the fifth is longer."""
    lengths = [4, 4, 4, 4, 8, 4, 4, 4, 4]
    records = [data.example(number, length) for number, length in enumerate(lengths)]
    return str(data.write(folder / "wrong.tfrecord", records))


def message_of(reader: InputReader, context: Any = None) -> str:
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        # More than an epoch: the order is a new one for each place the files lie in.
        list(reader.read(context).take(60))
    return str(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", ["file", "one of several", "pieces", "mixture", "order"])
def test_a_record_in_the_middle_of_a_file_is_named(
    data: SimpleNamespace, tmp_path: Path, way: str, source: str
) -> None:
    wrong = misfit(data, tmp_path / "wrong")
    options: dict[str, Any] = {"input_path": wrong}
    if source == "one of several":
        data.write_numbers(tmp_path / "right", [5, 30], length=4)
        options = {"input_path": f"{tmp_path}/right/*,{wrong}"}
    elif source == "mixture":
        [right] = data.write_numbers(tmp_path / "right", [30])
        options = {"input_path": {"a": right, "b": wrong}, "weights": {"a": 1, "b": 1}}
    elif source == "order":
        options["global_shuffle"] = True
    params = DataConfig(**options, global_batch_size=2, is_training=source != "pieces")
    contexts = [data.context(host, 2) for host in range(2)] if source == "pieces" else [None]
    readers = [InputReader(params, features=data.features(length=4), **WAYS[way])] * len(contexts)
    if source == "pieces":
        # The one of the two hosts that has the record tells.
        messages = []
        for reader, context in zip(readers, contexts, strict=True):
            try:
                list(reader.read(context))
            except Exception as error:
                messages.append(str(error))
        [message] = messages
    else:
        message = message_of(readers[0])
    told = f"{wrong}: ids holds 8 values in record 4 (from 0), and 4 are expected"
    assert told in message


def test_compressed_files_and_those_that_tensorflow_cannot_open_are_searched_too(
    data: SimpleNamespace, tmp_path: Path
) -> None:
    import fsspec
    import tensorflow as tf

    records = [data.example(number, 4 + number // 3) for number in range(5)]
    packed = str(tmp_path / "wrong.gz")
    with tf.io.TFRecordWriter(packed, "GZIP") as writer:
        for each in records:
            writer.write(each)
    remote = "memory://mismatch/wrong.tfrecord"
    plain = data.write(tmp_path / "wrong.tfrecord", records)
    fsspec.filesystem("memory").pipe(remote, Path(plain).read_bytes())
    for path, read in ((packed, compressed_records), (remote, None)):
        params = DataConfig(input_path=path, global_batch_size=2)
        message = message_of(InputReader(params, read, features=data.features(length=4)))
        assert f"{path}: ids holds 5 values in record 3 (from 0), and 4 are" in message


def test_what_cannot_be_found_again_is_told_without_a_place(
    data: SimpleNamespace, tmp_path: Path
) -> None:
    """Records that the caller reads: the files have none like it."""
    import tensorflow as tf

    [file] = data.write_numbers(tmp_path, [5])
    reader = InputReader(DataConfig(input_path=file, global_batch_size=1), features=data.features())
    given = tf.data.Dataset.from_tensors(data.example(1, length=9))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        list(reader.read(dataset=given))
    assert f"{file}: ids holds 9 values in a record, and 4 are expected" in str(caught.value)


@pytest.mark.slow
def test_single_records_of_many_lengths(data: SimpleNamespace, tmp_path: Path) -> None:
    import tensorflow as tf

    wrong = misfit(data, tmp_path)
    declared = data.features(length=4) | {"weights": tf.io.VarLenFeature(tf.float32)}
    params = DataConfig(input_path=wrong, global_batch_size=2)
    reader = InputReader(params, features=declared, filter_fn=lambda each: True)
    assert f"{wrong}: ids holds 8 values in record 4 (from 0)" in message_of(reader)


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


def test_features_and_a_decoder_are_too_many_ways_to_decode(data: SimpleNamespace) -> None:
    params = DataConfig(input_path=__file__, global_batch_size=2)
    with pytest.raises(SettingsError, match="Both features and a decoder_fn"):
        InputReader(params, decoder_fn=lambda each: each, features=data.features())


def test_only_features_of_fixed_length_are_looked_at() -> None:
    import tensorflow as tf

    declared = {
        "fixed": tf.io.FixedLenFeature([2, 3], tf.int64),
        "default": tf.io.FixedLenFeature([1], tf.int64, default_value=0),
        "open": tf.io.VarLenFeature(tf.int64),
    }
    assert fixed_lengths(declared) == {"fixed": (6, tf.int64)}
