"""Records of every kind: told by their features, counted, and shown as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from provender.errors import DamageError, InputError
from provender.nlp.inspecting import Found, look
from provender.nlp.inspecting.sources import Source
from provender.nlp.pretraining.drawing import draw
from provender.nlp.text.vocabulary import Vocabulary
from provender.records import write_records
from provender.records.protobuf import (
    example,
    float_feature,
    int64_feature,
    packed_floats,
    packed_varints,
)

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", "?"]
VOCABULARY = Vocabulary(WORDS)
ID = {word: i for i, word in enumerate(WORDS)}
LENGTH = 8


def record(**features: Sequence[float]) -> bytes:
    """A record; numbers with a point are floats."""
    import numpy as np

    made = {}
    for name, values in features.items():
        if values and isinstance(values[0], float):
            made[name] = float_feature(packed_floats(np.array(values)))
        else:
            made[name] = int64_feature(packed_varints(np.array(values, np.int64)))
    return example(made)


def tokens(*segments: str) -> dict[str, list[int]]:
    """The features of segments, each with its special tokens."""
    ids, types = [], []
    for i, each in enumerate(segments):
        ids += [ID[word] for word in each.split()]
        types += [i] * len(each.split())
    rest = [0] * (LENGTH - len(ids))
    return {
        "input_ids": ids + rest,
        "input_mask": [1] * len(ids) + rest,
        "segment_ids": types + rest,
    }


def found(
    folder: Path,
    records: Sequence[bytes],
    vocabulary: Vocabulary | None = VOCABULARY,
    **given: Any,
) -> Found:
    write_records(list(records), folder / "file")
    return look(iter([Source("file", folder / "file")]), vocabulary, **given)


PAIR = tokens("[CLS] the cat ##s [SEP]", "sat [SEP]")


def test_sentences_with_classes(tmp_path: Path) -> None:
    every = [
        record(**PAIR, label_ids=[0], is_real_example=[1], example_id=[7]),
        record(**tokens("[CLS] sat [SEP]"), label_ids=[2], example_id=[8], weight=[0.5]),
        record(**PAIR, label_ids=[2], weight=[1.5]),
    ]
    read = found(tmp_path, every)
    assert read.kind == "sentences"
    assert read.figures == {
        "records": 3,
        "seq_lengths": [LENGTH],
        "mean_length": pytest.approx(17 / 3),
        "full": 0,
        "padding": pytest.approx(7 / 24),
        "segments": {"0": pytest.approx(13 / 3), "1": pytest.approx(4 / 3)},
        "classes": {"0": pytest.approx(1 / 3), "2": pytest.approx(2 / 3)},
        "mean_weight": 1,
    }
    assert read.lengths == {7: 2, 3: 1}
    assert read.shown[0].text == "[CLS] the cats [SEP] sat [SEP]"
    assert [each.remark for each in read.shown] == [
        "class 0, id 7",
        "class 2, weight 0.5, id 8",
        "class 2, weight 1.5",
    ]


def test_sentences_with_numbers_and_with_nothing(tmp_path: Path) -> None:
    numbers = [record(**PAIR, label_ids=[each]) for each in (0.5, 4.5, 1.0)]
    read = found(tmp_path, numbers)
    assert read.figures["labels"] == {"least": 0.5, "mean": 2, "most": 4.5}
    assert "classes" not in read.figures
    assert read.shown[1].remark == "label 4.5"
    bare = found(tmp_path, [record(**PAIR)], None)
    assert (bare.kind, bare.shown[0].text) == ("sentences", "2 5 6 7 3 8 3")
    assert bare.shown[0].remark == ""


def test_tags(tmp_path: Path) -> None:
    words = tokens("[CLS] the cat ##s sat [SEP]")
    labels = [-1, 0, 3, -1, 1, -1, -1, -1]
    read = found(
        tmp_path,
        [
            record(**words, label_ids=labels, sentence_id=[4], sub_sentence_id=[0]),
            record(**words, label_ids=labels, sentence_id=[4], sub_sentence_id=[1]),
        ],
    )
    assert read.kind == "tags"
    assert read.shown[0].text == "[CLS] the/0 cats/3 sat/1 [SEP]"
    assert [each.remark for each in read.shown] == ["sentence 4", "sentence 4, part 1"]
    assert read.figures["mean_words"] == 3
    assert read.figures["continued"] == 0.5
    assert read.figures["classes"] == {each: pytest.approx(1 / 3) for each in "013"}


def test_questions(tmp_path: Path) -> None:
    window = tokens("[CLS] the ? [SEP]", "cat ##s sat [SEP]")
    more = {"unique_ids": [9], "paragraph_mask": [0, 0, 0, 0, 1, 1, 1, 0], "class_index": [0]}
    read = found(
        tmp_path,
        [
            record(**window, **more, start_positions=[4], end_positions=[5], is_impossible=[0]),
            record(**window, **more, start_positions=[0], end_positions=[0], is_impossible=[1]),
            record(**window, **more),
        ],
    )
    assert read.kind == "questions"
    assert read.shown[0].text == "[CLS] the ? [SEP] [answer=cats] sat [SEP]"
    assert read.shown[2].text == "[CLS] the ? [SEP] cats sat [SEP]"
    assert [each.remark for each in read.shown] == ["id 9", "id 9, no answer here", "id 9"]
    assert (read.figures["impossible"], read.figures["mean_answer"]) == (0.5, 2)


def test_xlnet(tmp_path: Path) -> None:
    ids = [ID[each] for each in "the cat ##s [SEP] sat [SEP] [CLS]".split()]
    types = [0, 0, 0, 0, 1, 1, 2]
    read = found(
        tmp_path,
        [
            record(
                input_word_ids=ids, input_type_ids=types, boundary_indices=[0, 1, 4, 7], label=[on]
            )
            for on in (1, 0, 0, 0)
        ],
        count=2,
    )
    assert read.kind == "XLNet pretraining"
    assert read.shown[0].text == "the cat·##s·[SEP] sat·[SEP]·[CLS]"
    assert [each.remark for each in read.shown] == ["next sentence", "random next sentence"]
    assert read.figures["follows"] == 0.25
    assert read.figures["mean_words"] == 3
    assert read.figures["padding"] == 0
    assert read.figures["segments"] == {"0": 4, "1": 2, "2": 1}


def test_pretraining(tmp_path: Path) -> None:
    row = tokens("[CLS] the [MASK] [SEP]", "sat [SEP]")
    masks = {"masked_lm_positions": [2, 0], "masked_lm_ids": [ID["cat"], 0]}
    every = [record(**row, **masks, masked_lm_weights=[1.0, 0.0], next_sentence_labels=[1])] * 4
    read = found(tmp_path, every, limit=3)
    assert read.kind == "BERT pretraining"
    assert read.records == 3
    assert read.shown[0].text == "[CLS] the [[MASK]=cat] [SEP] sat [SEP]"
    assert read.shown[0].remark == "random next sentence"
    assert read.figures["mask_share"] == 1
    negative = {**masks, "masked_lm_positions": [-1, 0]}
    with pytest.raises(InputError, match="does not have"):
        found(tmp_path, [record(**row, **negative)])
    # Only masks need a vocabulary with [MASK].
    with pytest.raises(InputError, match=r"no \[MASK\]"):
        found(tmp_path, every, Vocabulary(WORDS[:4]))
    assert found(tmp_path, [record(**PAIR)], Vocabulary(WORDS[:4])).records == 1


def test_what_cannot_be_told(tmp_path: Path) -> None:
    for records, said in [
        ([], "hold no records"),
        ([record(image=[1, 2])], r"none that are known here(.|\n)*They have image"),
        ([b"\xff"], "no tf.train.Example"),
        ([record(**PAIR), record(**{**PAIR, "input_mask": [1]})], "record 1 have different len"),
        ([record(**PAIR), record(input_ids=[1])], r"Record 1 has no input_mask, segment_ids"),
    ]:
        with pytest.raises(InputError, match=said):
            found(tmp_path, records)
    write_records([record(**PAIR)] * 9, tmp_path / "file")
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:-3])
    with pytest.raises(DamageError, match="record 8"):
        look(iter([Source("file", tmp_path / "file")]))


def kinds(folder: Path) -> Iterator[Mapping[str, Any]]:
    yield found(folder, [record(**PAIR, label_ids=[1])]).figures
    yield found(folder, [record(**PAIR)]).figures
    labels = [-1, 0, 3, -1, 1, -1, -1, -1]
    yield found(folder, [record(**PAIR, label_ids=labels, sentence_id=[4])]).figures


def test_every_kind_can_be_drawn(tmp_path: Path) -> None:
    for figures in kinds(tmp_path):
        draw("title", figures, {7: 1}, tmp_path / "plot.svg")
        picture = (tmp_path / "plot.svg").read_text()
        assert "padding" in picture
        for each in figures.get("classes", {}):
            assert f"class {each}" in picture
