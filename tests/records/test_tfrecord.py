"""TFRecord framing against TensorFlow's writer, and damage that is noticed."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.errors import DamageError, UnknownReference
from provender.records import ShardReader, frame, iter_records, read_offsets, write_offsets
from provender.records.tfrecord import frame_joined

PAYLOADS = [b"", b"a", b"\0" * 127, bytes(range(256)) * 300, b"x" * (1 << 17)]


def offsets_of(payloads: list[bytes]) -> np.ndarray:
    return np.cumsum([0, *(len(p) + 16 for p in payloads)])


def test_framing_equals_tensorflow(tmp_path: Path) -> None:
    import tensorflow as tf

    path = tmp_path / "theirs"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    assert b"".join(frame(PAYLOADS)) == path.read_bytes()
    assert [payload for _, payload in iter_records(path)] == PAYLOADS


@settings(deadline=None)
@given(st.lists(st.binary(max_size=400), max_size=40))
def test_what_was_framed_is_read(payloads: list[bytes]) -> None:
    joined, sizes = frame_joined(payloads)
    assert joined == b"".join(frame(payloads))
    assert sizes == [len(p) for p in payloads]
    found = list(iter_records(io.BytesIO(joined)))
    assert [payload for _, payload in found] == payloads
    assert [offset for offset, _ in found] == offsets_of(payloads)[:-1].tolist()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=50), min_size=1, max_size=8), st.data())
def test_any_flipped_byte_or_cut_is_noticed(payloads: list[bytes], data: st.DataObject) -> None:
    joined = bytearray(frame_joined(payloads)[0])
    place = data.draw(st.integers(0, len(joined) - 1))
    record = int(np.searchsorted(offsets_of(payloads), place, "right")) - 1
    flipped = bytearray(joined)
    flipped[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamageError) as caught:
        list(iter_records(io.BytesIO(flipped)))
    assert caught.value.facts["record"] == record
    assert caught.value.facts["offset"] == offsets_of(payloads)[record]
    if place not in offsets_of(payloads):
        with pytest.raises(DamageError):
            list(iter_records(io.BytesIO(joined[:place]), verify=False))


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    path = tmp_path / "x.tfrecord"
    payloads = [b"%d" % i * (i % 700) for i in range(5000)]
    path.write_bytes(frame_joined(payloads)[0])
    write_offsets(tmp_path / "x.tfrecord.offsets", offsets_of(payloads))
    return path


def test_random_access(shard: Path) -> None:
    expected = [payload for _, payload in iter_records(shard)]
    with ShardReader(shard) as reader:
        assert len(reader) == 5000
        assert [reader.read(i) for i in (0, 4999, 17)] == [expected[i] for i in (0, 4999, 17)]
        assert list(reader.iter()) == expected
        assert list(reader.iter(4990, 9999)) == expected[4990:]
        assert list(reader.iter(7, 7)) == []
        with pytest.raises(UnknownReference):
            reader.read(5000)
    with (
        shard.open("rb") as file,
        ShardReader(file, read_offsets(Path(f"{shard}.offsets"))) as reader,
    ):
        assert reader.read(3) == expected[3]


def test_reader_notices_damage(shard: Path) -> None:
    whole = bytearray(shard.read_bytes())
    whole[len(whole) // 2] ^= 1
    shard.write_bytes(whole)
    with ShardReader(shard) as reader, pytest.raises(DamageError):
        list(reader.iter())
    shard.write_bytes(whole[:-1])
    with pytest.raises(DamageError, match="its index says"):
        ShardReader(shard)


def test_damaged_index(shard: Path) -> None:
    index = Path(f"{shard}.offsets")
    for bad in (b"", index.read_bytes()[:-8], b"?" + index.read_bytes()[1:]):
        index.write_bytes(bad)
        with pytest.raises(DamageError, match="offset index"):
            read_offsets(index)
