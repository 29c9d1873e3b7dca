"""Parsing in batches gives what parsing one by one gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from provender.errors import SettingsError
from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.parsing import Parsing


@pytest.fixture(scope="module")
def params(data: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    folder = tmp_path_factory.mktemp("fast")
    data.write_numbers(folder, [30, 50, 90])
    return DataConfig(input_path=f"{folder}/*", global_batch_size=16, drop_remainder=False)


def narrow(example: Any) -> Any:
    import tensorflow as tf

    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value * 2
        for name, value in example.items()
    }


def batches(reader: InputReader) -> list[dict[str, Any]]:
    return [
        {name: np.asarray(value.numpy()) for name, value in batch.items()}
        for batch in reader.read()
    ]


WAYS: dict[str, dict[str, Any]] = {
    "whole batches": {"parser_fn": narrow, "batch_parser_fn": narrow},
    "chunks": {"parser_fn": narrow, "batch_parser_fn": narrow, "filter_fn": lambda each: True},
    "chunks, then one by one": {"parser_fn": narrow},
    "sampled": {"parser_fn": narrow, "batch_parser_fn": narrow, "sample_fn": lambda each: each},
    "batched elsewhere": {
        "parser_fn": narrow,
        "batch_parser_fn": narrow,
        "transform_and_batch_fn": lambda each, _: each.batch(16),
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cache", [False, True])
def test_every_way_gives_the_same_batches(
    data: SimpleNamespace, params: DataConfig, way: str, cache: bool
) -> None:
    import tensorflow as tf

    def decode(record: Any) -> Any:
        return tf.io.parse_single_example(record, data.features())

    plain = batches(InputReader(params, decoder_fn=decode, parser_fn=narrow))
    found = batches(InputReader(params.replace(cache=cache), features=data.features(), **WAYS[way]))
    assert len(found) == len(plain)
    for ours, theirs in zip(found, plain, strict=True):
        assert list(ours) == list(theirs) or set(ours) == set(theirs)
        for name, value in theirs.items():
            assert ours[name].dtype == value.dtype
            np.testing.assert_array_equal(ours[name], value)


def test_features_of_many_lengths(data: SimpleNamespace, params: DataConfig) -> None:
    import tensorflow as tf

    declared = {"ids": tf.io.VarLenFeature(tf.int64), "number": tf.io.FixedLenFeature([], tf.int64)}
    fast = InputReader(params, features=declared).read()
    slow = InputReader(params, features=declared, filter_fn=lambda each: True).read()
    for ours, theirs in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(
            tf.sparse.to_dense(ours["ids"]), tf.sparse.to_dense(theirs["ids"])
        )


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        ({}, True),
        ({"parser_fn": narrow}, False),
        ({"parser_fn": narrow, "batch_parser_fn": narrow}, True),
        ({"batch_parser_fn": narrow}, True),
        ({"decoder_fn": narrow}, False),
        ({"sample_fn": narrow}, False),
        ({"filter_fn": narrow}, False),
        ({"transform_and_batch_fn": narrow}, False),
        ({"postprocess_fn": narrow}, True),
    ],
)
def test_what_forbids_whole_batches(functions: dict[str, Any], expected: bool) -> None:
    features = None if "decoder_fn" in functions else {}
    assert Parsing(features=features, **functions).in_batches is expected
    if "batch_parser_fn" not in functions:
        assert Parsing(**functions).in_batches is False


@pytest.mark.parametrize(
    "functions",
    [
        {"features": {}, "batch_parser_fn": narrow, "sample_fn": narrow},
        {"batch_parser_fn": narrow, "decoder_fn": narrow},
        {"batch_parser_fn": narrow, "parser_fn": narrow},
    ],
)
def test_a_batch_parser_that_nothing_would_call_is_refused(functions: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="batch_parser_fn is given") as caught:
        Parsing(**functions)
    assert caught.value.where in ("features", "parser_fn")


def test_a_packing_function_gets_parsed_buffers(data: SimpleNamespace, params: DataConfig) -> None:
    seen = []

    def pack(buffers: Any, rows: int) -> Any:
        seen.append((buffers.element_spec["number"].dtype.name, rows))
        return buffers.map(lambda each: {"number": each["number"]})

    packed = params.replace(packing={"buffer_size": 100})
    for filter_fn in (None, lambda each: each["number"] < 150):
        made = InputReader(
            packed, features=data.features(), batch_parser_fn=narrow, filter_fn=filter_fn,
            pack_fn=pack,
        ).read()  # fmt: skip
        sizes = [len(each["number"]) for each in made]
        assert sizes == ([100, 70] if filter_fn is None else [100, 50])
    assert seen == [("int32", 16)] * 2
