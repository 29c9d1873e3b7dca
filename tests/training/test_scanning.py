"""Values found by comparison are those that a protobuf parser finds, or none are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.test_random_access import plain

from provender.errors import DamageError
from provender.records import compile_encoder
from provender.training import rows
from provender.training.messages import example_class
from provender.training.scanning import BYTES, FLOATS, INTS, Field, scanner

F = tfds.features
SCHEMA = F.FeaturesDict(
    {
        "text": F.Text(),
        "texts": F.Tensor(shape=(), dtype=np.object_),
        "label": F.ClassLabel(num_classes=1000),
        "flag": F.Scalar(np.bool_),
        "big": F.Scalar(np.uint64),
        "half": F.Scalar(np.float16),
        "single": F.Scalar(np.float32),
        "grid": F.Tensor(shape=(2, 2), dtype=np.float64),
        "tokens": F.Tensor(shape=(None,), dtype=np.int32),
        "pairs": F.Tensor(shape=(None, 2), dtype=np.int64),
    }
)
I64 = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=16, allow_nan=False)
EXAMPLES = st.fixed_dictionaries(
    {
        "text": st.text(max_size=300),
        "texts": st.sampled_from([0, 1, 127, 128, 16_383, 16_384, 70_000]).map(lambda n: b"x" * n),
        "label": st.integers(0, 999),
        "flag": st.booleans(),
        "big": st.integers(0, 2**63 - 1),
        "half": FLOAT.map(np.float16),
        "single": FLOAT.map(np.float32),
        "grid": st.lists(FLOAT, min_size=4, max_size=4).map(lambda v: np.reshape(v, (2, 2))),
        "tokens": st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 127)).map(
            lambda v: np.array(v, np.int32)
        ),
        "pairs": st.lists(st.tuples(I64, I64)).map(
            lambda v: np.array(v, np.int64).reshape(len(v), 2)
        ),
    }
)
ENCODE = compile_encoder(SCHEMA)
DOCUMENT = SCHEMA.to_json()
DECODE = rows.decoder_of(DOCUMENT, None, "here")


def general(record: bytes) -> Any:
    return SCHEMA.deserialize_example_np(record)


@settings(max_examples=150, deadline=None)
@given(EXAMPLES)
def test_values_are_those_of_tfds(example: dict[str, Any]) -> None:
    record = ENCODE(example)
    assert plain(DECODE(record)) == plain(general(record))
    some = rows.decoder_of(DOCUMENT, ["tokens", "text"], "here")(record)
    assert list(some) == ["tokens", "text"]
    assert plain(some) == {name: plain(general(record))[name] for name in some}


@settings(max_examples=100, deadline=None)
@given(EXAMPLES, st.randoms())
def test_other_layouts_of_the_same_example_are_read_too(
    example: dict[str, Any], rng: random.Random
) -> None:
    """Map entries in another order, unpacked numbers, a number in more bytes than it needs."""
    record = ENCODE(example)
    message = example_class().FromString(record)
    keys = list(message.features.feature)
    rng.shuffle(keys)
    body = b"".join(_entry(key, message.features.feature[key], rng.random() < 0.5) for key in keys)
    assert plain(DECODE(_tagged(1, body))) == plain(general(record))


def _tagged(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _entry(key: str, feature: Any, unpacked: bool) -> bytes:
    stored = feature.SerializeToString()
    if unpacked and feature.WhichOneof("kind") == "int64_list":
        numbers = [each % 2**64 for each in feature.int64_list.value]
        stored = _tagged(3, b"".join(b"\x08" + _varint(each) for each in numbers))
    return _tagged(1, _tagged(1, key.encode()) + _tagged(2, stored))


@settings(max_examples=300, deadline=None)
@given(EXAMPLES, st.data())
def test_damage_is_never_read_as_something_else(example: dict[str, Any], data: Any) -> None:
    """Whatever a changed byte makes of a record, a parser makes the same of it, or both refuse."""
    fields = {
        "label": Field(INTS, False),
        "single": Field(FLOATS, False),
        "text": Field(BYTES, False),
        "tokens": Field(INTS, True),
    }
    few = F.FeaturesDict({name: SCHEMA[name] for name in fields})
    record = bytearray(compile_encoder(few)({name: example[name] for name in fields}))
    at = data.draw(st.integers(0, min(len(record), 60) - 1))
    record[at] ^= data.draw(st.integers(1, 255))
    scan = scanner(fields, list(fields))
    assert scan is not None
    try:
        found = scan(bytes(record))
    except (ValueError, IndexError):
        return
    stored = example_class().FromString(bytes(record)).features.feature
    assert sorted(stored) == sorted(fields)
    assert found["label"] == stored["label"].int64_list.value[0]
    assert found["text"] == stored["text"].bytes_list.value[0]
    assert np.array_equal(
        np.float32(found["single"]), stored["single"].float_list.value[0], equal_nan=True
    )
    assert found["tokens"].tolist() == list(stored["tokens"].int64_list.value)


def test_a_record_of_other_features_is_refused() -> None:
    other = compile_encoder(F.FeaturesDict({"text": F.Text()}))({"text": "a"})
    with pytest.raises(DamageError, match="does not hold the features of here"):
        DECODE(other)
