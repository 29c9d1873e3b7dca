"""Segments in records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nlp.finetuning.conftest import CLS, SEP, Project, ids

from provender.errors import InputError
from provender.nlp.finetuning.classification import RowEncoder
from provender.nlp.finetuning.encoding import Packer, trimmed
from provender.nlp.finetuning.rows import Row, in_order
from provender.records.protobuf import example


def popped(segments: list[list[int]], room: int) -> list[list[int]]:
    """One token at a time from the longest; of equal ones from the last."""
    found = [list(each) for each in segments]
    while sum(map(len, found)) > room:
        longest = max(range(len(found)), key=lambda i: (len(found[i]), i))
        found[longest].pop()
    return found


@given(st.lists(st.integers(0, 40), min_size=1, max_size=3), st.integers(0, 90))
def test_segments_are_cut_token_by_token(lengths: list[int], room: int) -> None:
    segments = [list(range(each)) for each in lengths]
    assert trimmed(segments, room) == popped(segments, room)


def decoded(packer: RowEncoder, row: Row) -> dict[str, list[float]]:
    from tensorflow.core.example import example_pb2

    (features,) = packer(4, [row]).records
    found = example_pb2.Example.FromString(example(features)).features.feature
    return {k: list(v.float_list.value or v.int64_list.value) for k, v in found.items()}


def test_pairs_are_cut(project: Project) -> None:
    encoder = RowEncoder(project.options(max_seq_length=8))
    found = decoded(encoder, Row(("the cat sat on", "x y z"), 1, 0.5))
    assert found["input_ids"] == [CLS, *ids("the cat sat"), SEP, *ids("x y"), SEP]
    assert found["segment_ids"] == [0] * 5 + [1] * 3
    assert (found["label_ids"], found["weight"], found["example_id"]) == ([1], [0.5], [4])
    single = decoded(encoder, Row(("the cat sat on the mat . x",), None, example_id=31))
    assert single["input_ids"] == [CLS, *ids("the cat sat on the mat"), SEP]
    assert single["example_id"] == [31]
    assert "label_ids" not in single
    assert "weight" not in single


def test_three_segments(project: Project) -> None:
    encoder = RowEncoder(project.options(max_seq_length=10))
    found = decoded(encoder, Row(("the cat sat", "it sat", "cat"), 0))
    assert found["segment_ids"] == [0] * 5 + [1] * 3 + [2] * 2
    tiny = Packer(project.options(max_seq_length=6))
    with pytest.raises(InputError, match=r"3 texts do not fit into 6 tokens"):
        tiny.packed([[5], [6], [7]])


def test_items_in_the_order_of_a_key() -> None:
    items = [(3, "a"), (1, "b"), (3, "c"), (2, "d" * 5000)]
    assert list(in_order(iter(items), lambda each: int(each[0]))) == [
        items[1],
        items[3],
        items[0],
        items[2],
    ]
    assert list(in_order([], lambda each: 0)) == []
