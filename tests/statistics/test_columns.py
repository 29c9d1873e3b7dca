"""Records taken apart in step, against the parser that reads them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.records import protobuf
from provender.statistics.columns import BYTES, PADDING, read_columns, read_spans
from provender.training.wire import parse_example

INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.sampled_from(["a", "text", "label", "é/x", "deep/er", "a long name of a feature"])
FEATURES = st.one_of(
    st.lists(st.binary(max_size=200), max_size=6).map(protobuf.bytes_feature),
    st.lists(st.floats(width=32), max_size=6).map(
        lambda xs: protobuf.float_feature(protobuf.packed_floats(np.array(xs, np.float32)))
    ),
    st.lists(INT64, max_size=6).map(
        lambda xs: protobuf.int64_feature(protobuf.packed_varints(np.array(xs, np.int64)))
    ),
    st.just(b""),
)
RECORDS = st.dictionaries(NAMES, FEATURES, max_size=4).map(lambda each: example(each))


def example(entries: dict[str, bytes]) -> bytes:
    joined = b"".join(protobuf.entry(name.encode(), each) for name, each in sorted(entries.items()))
    return protobuf.example_prefix(len(joined)) + joined if joined else b""


def laid_out(records: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = np.array(list(map(len, records)), np.int64)
    buffer = np.frombuffer(b"".join(records) + bytes(PADDING), np.uint8)
    return buffer, np.cumsum(sizes) - sizes, np.cumsum(sizes)


def read(records: list[bytes]) -> list[dict]:
    """What `read_columns` found, record by record."""
    buffer, starts, ends = laid_out(records)
    found: list[dict] = [{} for _ in records]
    rows: list[int] = []
    for group in read_columns(buffer, starts, ends):
        rows += group.rows.tolist()
        for name, column in group.columns.items():
            at = 0
            for row, count in zip(group.rows.tolist(), column.counts.tolist(), strict=True):
                if column.kind == BYTES:
                    spans = zip(
                        column.starts[at : at + count], column.sizes[at : at + count], strict=True
                    )
                    found[row][name] = [bytes(buffer[a : a + n]) for a, n in spans]
                else:
                    found[row][name] = column.values[at : at + count].tolist()
                at += count
    assert sorted(rows) == list(range(len(records)))
    return found


def same(one: dict, other: dict) -> bool:
    """Equality in which a NaN equals a NaN."""
    return repr(sorted(one.items())) == repr(sorted(other.items()))


@settings(deadline=None)
@given(st.lists(RECORDS, max_size=40))
def test_every_record_is_read_as_the_slow_parser_reads_it(records: list[bytes]) -> None:
    for got, record in zip(read(records), records, strict=True):
        assert same(got, parse_example(record))


def test_many_records_of_one_layout_with_lists_of_all_lengths() -> None:
    rng = np.random.default_rng(1)
    records = [
        example(
            {
                "words": protobuf.bytes_feature([b"w" * int(n) for n in rng.integers(0, 300, k)]),
                "ids": protobuf.int64_feature(
                    protobuf.packed_varints(rng.integers(-5, 1 << 40, k * 3))
                ),
            }
        )
        for k in [*range(40), *[1] * 500, 400]
    ]
    for got, record in zip(read(records), records, strict=True):
        assert same(got, parse_example(record))


def test_numbers_that_are_not_packed() -> None:
    unpacked = protobuf.entry(b"x", b"\x12\x0a\x0d\0\0\x80\x3f\x0d\0\0\0\x40")
    record = protobuf.example_prefix(len(unpacked)) + unpacked
    assert read([record, record]) == [{"x": [1.0, 2.0]}] * 2
    assert parse_example(record) == {"x": [1.0, 2.0]}


def test_a_key_that_comes_twice_counts_once() -> None:
    twice = protobuf.entry(b"x", protobuf.bytes_feature([b"old"]))
    twice += protobuf.entry(b"x", protobuf.bytes_feature([b"new"]))
    record = protobuf.example_prefix(len(twice)) + twice
    assert read([record] * 3) == [{"x": [b"new"]}] * 3 == [parse_example(record)] * 3


@pytest.mark.parametrize(
    "record",
    [b"\x0a\x05abc", b"\x0b", b"\xff" * 20, b"\x0a\x06\x0a\x04\x0a\x01x\xff"],
    ids=["cut off", "wrong type", "endless varint", "broken entry"],
)
def test_what_is_no_example_is_refused(record: bytes) -> None:
    good = example({"x": protobuf.bytes_feature([b"v"])})
    with pytest.raises((ValueError, IndexError)):
        read([good, record, good])


def test_spans_hold_the_lists() -> None:
    record = example({"x": protobuf.bytes_feature([b"ab", b"c"])})
    buffer, starts, ends = laid_out([record])
    [found] = read_spans(buffer, starts, ends)
    kind, lo, hi = found.lists["x"]
    assert (kind, bytes(buffer[int(lo[0]) : int(hi[0])])) == (BYTES, b"\x0a\x02ab\x0a\x01c")
