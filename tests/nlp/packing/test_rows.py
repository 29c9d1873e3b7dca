"""Packed rows in numpy and as a graph: the same, and nothing lost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nlp.dynamic.made import columns

from provender.errors import DamageError, SettingsError
from provender.nlp.packing import numpy_rows, tensor_rows
from provender.nlp.packing.fields import Fields, bert_fields, token_fields
from provender.nlp.packing.fit import Room

ROOM = Room(tokens=64, segments=5, masks=10)
FIELDS = bert_fields()
many_lengths = st.lists(st.integers(2, 64), min_size=1, max_size=40)
ways = st.tuples(st.none() | st.integers(1, 4), st.booleans())


def unpacked(rows, fields=FIELDS):
    """Every example of packed rows without padding, as a sortable tuple of tuples."""
    found = []
    count = len(rows["segment_ids"])
    for row, segment in itertools.product(range(count), range(1, ROOM.segments + 1)):
        at = np.nonzero(rows["segment_ids"][row] == segment)[0]
        if not len(at):
            continue
        assert at.tolist() == list(range(at[0], at[-1] + 1))
        assert rows["position_ids"][row, at].tolist() == list(range(len(at)))
        example = [tuple(rows[name][row, at].tolist()) for name, _ in fields.tokens]
        positions = rows["masked_lm_positions"][row]
        own = (rows["masked_lm_weights"][row] > 0) & (positions >= at[0]) & (positions <= at[-1])
        example.append(tuple((positions[own] - at[0]).tolist()))
        example.append(tuple(rows["masked_lm_ids"][row, own].tolist()))
        assert rows["next_sentence_positions"][row, segment - 1] == at[0]
        assert rows["next_sentence_weights"][row, segment - 1] == 1
        example.append(int(rows["next_sentence_labels"][row, segment - 1]))
        found.append(tuple(example))
    assert rows["next_sentence_weights"].sum() == len(found)
    return sorted(found)


def originals(values):
    found = []
    for row, length in enumerate(values["input_mask"].sum(axis=1)):
        used = values["masked_lm_weights"][row] > 0
        example = [tuple(values[name][row, :length].tolist()) for name, _ in FIELDS.tokens]
        example += [
            tuple(values[name][row, used].tolist())
            for name in ("masked_lm_positions", "masked_lm_ids")
        ]
        found.append((*example, int(values["next_sentence_labels"][row, 0])))
    return sorted(found)


@settings(deadline=None)
@given(lengths=many_lengths, way=ways)
def test_every_example_comes_out_whole_and_once(lengths, way):
    values = columns(lengths)
    rows = numpy_rows.pack(values, FIELDS, ROOM, open_rows=way[0], decreasing=way[1])
    assert unpacked(rows) == originals(values)
    padding = rows["segment_ids"] == 0
    assert not any(rows[name][padding].any() for name, _ in FIELDS.tokens)
    assert (rows["input_mask"] == ~padding).all()
    assert rows["masked_lm_weights"].sum() == values["masked_lm_weights"].sum()
    assert not rows["masked_lm_ids"][rows["masked_lm_weights"] == 0].any()


@pytest.fixture(scope="module")
def graphs():
    """The graph for each way of packing, which takes columns of any number of examples."""
    spec = {
        name: tf.TensorSpec([None, *value.shape[1:]], value.dtype)
        for name, value in columns([5]).items()
    }

    def graph(open_rows, decreasing):
        return tf.function(
            lambda values: tensor_rows.pack(
                values, FIELDS, ROOM, open_rows=open_rows, decreasing=decreasing
            ),
            input_signature=[spec],
        )

    return {way: graph(*way) for way in ((None, True), (3, True), (None, False), (3, False))}


@settings(deadline=None, max_examples=25)
@given(lengths=st.lists(st.integers(2, 64), max_size=40))
def test_the_graph_gives_what_numpy_gives(graphs, lengths):
    values = columns(lengths)
    for (open_rows, decreasing), graph in graphs.items():
        ours = numpy_rows.pack(values, FIELDS, ROOM, open_rows=open_rows, decreasing=decreasing)
        made = graph({name: tf.constant(value) for name, value in values.items()})
        assert list(ours) == list(made)
        for name, value in ours.items():
            assert value.dtype == made[name].dtype.as_numpy_dtype
            np.testing.assert_array_equal(value, made[name].numpy(), name)


def stream(values):
    """The examples without padding, one by one."""
    for row, length in enumerate(values["input_mask"].sum(axis=1)):
        used = int((values["masked_lm_weights"][row] > 0).sum())
        yield {
            name: value[row][: length if name.startswith("input") else used]
            if value.shape[1] > 1
            else value[row]
            for name, value in values.items()
        }


@settings(deadline=None)
@given(lengths=many_lengths, open_rows=st.integers(1, 5))
def test_a_stream_packs_online_what_a_buffer_does(lengths, open_rows):
    values = columns(lengths)
    rows = list(numpy_rows.pack_stream(stream(values), FIELDS, ROOM, open_rows=open_rows))
    together = {name: np.stack([each[name] for each in rows]) for name in rows[0]}
    assert unpacked(together) == originals(values)
    whole = numpy_rows.pack(values, FIELDS, ROOM, open_rows=open_rows, decreasing=False)
    assert {name: sorted(value.tolist()) for name, value in together.items()} == {
        name: sorted(value.tolist()) for name, value in whole.items()
    }


def test_a_stream_gives_rows_before_it_ends_and_holds_few():
    taken = 0

    def endless():
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield {"ids": np.full(1 + number * 7 % 20, number), "label": number}

    fields = token_fields("ids", labels=("label",))
    rows = numpy_rows.pack_stream(endless(), fields, Room(32, segments=8), open_rows=4)
    labels = []
    for row in itertools.islice(rows, 200):
        labels += row["label"][row["label_weights"] > 0].tolist()
        assert taken - len(labels) <= 5 * 8
    assert len(labels) == len(set(labels))


def test_buffers_cut_a_stream_and_stack_pads_them():
    values = columns([5, 40, 9])
    chunks = list(numpy_rows.buffers(stream(values), 2))
    assert [len(each) for each in chunks] == [2, 1]
    stacked = numpy_rows.stack(chunks[0], FIELDS)
    assert stacked["input_word_ids"].shape == (2, 40)
    rows = numpy_rows.pack(stacked, FIELDS, ROOM)
    assert rows["segment_ids"].max(axis=1).tolist() == [2]


def test_other_padding_values_fill_the_rows():
    fields = Fields((("ids", 0), ("tags", -1)), length="ids")
    values = {"ids": np.array([[3, 4, 0], [5, 0, 0]]), "tags": np.array([[0, 1, -1], [2, -1, -1]])}
    ours = numpy_rows.pack(values, fields, Room(5, segments=2))
    made = tensor_rows.pack(
        {name: tf.constant(value) for name, value in values.items()}, fields, Room(5, segments=2)
    )
    assert ours["tags"].tolist() == [[0, 1, 2, -1, -1]]
    assert made["tags"].numpy().tolist() == [[0, 1, 2, -1, -1]]


def test_position_ids_of_the_records_are_kept():
    values = columns([5, 6])
    values["position_ids"] = (np.arange(64, dtype=np.int32) + 100) * values["input_mask"]
    rows = numpy_rows.pack(values, bert_fields(position_ids=True), ROOM)
    assert sorted(rows["position_ids"][rows["input_mask"] > 0]) == sorted(
        values["position_ids"][values["input_mask"] > 0]
    )


def test_what_has_no_role_is_refused_rather_than_lost():
    values = columns([5]) | {"teacher": np.zeros((1, 64))}
    with pytest.raises(SettingsError, match="no rule for teacher"):
        numpy_rows.pack(values, FIELDS, ROOM)
    del values["teacher"], values["input_type_ids"]
    with pytest.raises(SettingsError, match="have no input_type_ids"):
        numpy_rows.pack(values, FIELDS, ROOM)


def test_a_mask_beyond_the_tokens_is_damage():
    values = columns([5, 20])
    values["masked_lm_positions"][0, 0] = 5
    with pytest.raises(DamageError, match="beyond the example's last token"):
        numpy_rows.pack(values, FIELDS, ROOM)
    with pytest.raises(tf.errors.InvalidArgumentError, match="beyond the example's last token"):
        tensor_rows.pack({n: tf.constant(v) for n, v in values.items()}, FIELDS, ROOM)


def test_the_graph_refuses_what_fits_no_row():
    values = {n: tf.constant(v) for n, v in columns([5, 40]).items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match="up to 40 tokens and 6 masked"):
        tensor_rows.pack(values, FIELDS, Room(39, segments=5, masks=10))
    with pytest.raises(SettingsError, match="open_rows is 0"):
        tensor_rows.pack(values, FIELDS, ROOM, open_rows=0)
