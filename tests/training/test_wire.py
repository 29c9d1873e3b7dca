"""Our reader of tf.Example against protobuf's own, and what it does with bytes that are none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import DamageError
from provender.training.images import image_size, summary
from provender.training.wire import parse_example

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)
VALUES = st.one_of(st.lists(INT64), st.lists(FLOAT32), st.lists(st.binary(max_size=300)))


def serialized(features: dict) -> bytes:
    from tensorflow_datasets.core.example_parser import tf_example_pb2

    example = tf_example_pb2.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    data: bytes = example.SerializeToString()
    return data


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=6))
def test_what_protobuf_wrote_is_read(features):
    assert parse_example(serialized(features)) == features


def test_numbers_that_are_not_packed():
    floats = b"\x0d" + struct.pack("<f", 1.5) + b"\x0d" + struct.pack("<f", -2.0)
    ints = b"\x08\x05\x08" + b"\xff" * 9 + b"\x01"
    entries = b""
    for name, tag, body in ((b"f", b"\x12", floats), (b"i", b"\x1a", ints)):
        feature = tag + bytes([len(body)]) + body
        entry = b"\x0a\x01" + name + b"\x12" + bytes([len(feature)]) + feature
        entries += b"\x0a" + bytes([len(entry)]) + entry
    example = b"\x0a" + bytes([len(entries)]) + entries + b"\x18\x07"  # and a field unknown here
    assert parse_example(example) == {"f": [1.5, -2.0], "i": [5, -1]}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    try:
        parse_example(data)
    except DamageError as error:
        assert "not a tf.train.Example" in error.message


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_cut_example_is_refused(cut):
    with pytest.raises(DamageError):
        parse_example(serialized({"text": [b"x" * 40]})[:-cut])


def jpeg(width: int, height: int) -> bytes:
    app = b"\xff\xe0\x00\x04ab"
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03" * 10
    return b"\xff\xd8" + app + frame


def test_sizes_of_images():
    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480)
    gif = b"GIF89a" + struct.pack("<HH", 3, 4)
    bmp = b"BM" + struct.pack("<I", 26) + b"\0" * 12 + struct.pack("<ii", 7, -9)
    assert image_size(png) == ("png", 640, 480)
    assert image_size(gif) == ("gif", 3, 4)
    assert image_size(bmp) == ("bmp", 7, 9)
    assert image_size(jpeg(320, 200)) == ("jpeg", 320, 200)
    assert summary(png) == {"bytes": 24, "png": "640x480"}
    assert summary(b"BM: not one") == {"bytes": 11}
    assert summary(7) == 7


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"BM"]), st.binary())
def test_broken_images_are_no_error(magic, rest):
    image_size(magic + rest)
