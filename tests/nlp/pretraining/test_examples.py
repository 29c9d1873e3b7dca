"""Reading examples back: bytes to features, features to text, figures and pictures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nlp.pretraining.conftest import examples_of

from provender.errors import DamageError, InputError, SettingsError
from provender.nlp.pretraining import Options, create
from provender.nlp.pretraining.drawing import bins, draw
from provender.nlp.pretraining.examples import (
    Example,
    Statistics,
    counted,
    decode,
    examples,
    guess_mask,
    text_of,
)
from provender.records import write_records

values = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.lists(st.integers(0, 2**40), min_size=1, max_size=20)
    | st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5)
    | st.lists(st.binary(max_size=5), min_size=1, max_size=4),
    max_size=4,
)


def example(features: dict[str, list]) -> bytes:  # type: ignore[type-arg]
    """Features as tf.train.Example writes them."""
    import tensorflow as tf

    def feature(each: list) -> tf.train.Feature:  # type: ignore[type-arg]
        if isinstance(each[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=each))
        if isinstance(each[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=each))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=each))

    made = tf.train.Features(feature={name: feature(each) for name, each in features.items()})
    return tf.train.Example(features=made).SerializeToString()  # type: ignore[no-any-return]


def record(**changes: list[int] | list[float] | None) -> bytes:
    """[CLS] w0 w1 [SEP] w2 [SEP] and two pads; w1 is hidden, w2 kept."""
    features: dict[str, list[int] | list[float] | None] = {
        "input_ids": [2, 5, 4, 3, 7, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
        "masked_lm_positions": [2, 4, 0],
        "masked_lm_ids": [6, 7, 0],
        "masked_lm_weights": [1.0, 1.0, 0.0],
        "next_sentence_labels": [1],
        **changes,
    }
    return example({name: each for name, each in features.items() if each is not None})


TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "w0", "##w1", "w2"]


@settings(max_examples=80, deadline=None)
@given(values)
def test_any_example_is_read(features: dict[str, list]) -> None:  # type: ignore[type-arg]
    read = decode(example(features))
    assert set(read) == set(features)
    for name, each in features.items():
        assert list(read[name]) == each


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_read(data: bytes) -> None:
    try:
        decode(data)
    except InputError as error:
        assert "no tf.train.Example" in error.message


def test_files_are_read_as_tensorflow_reads_them(vocab: str, text: Path, tmp_path: Path) -> None:
    for name, options in {
        "plain": Options(vocab_file=vocab, dupe_factor=1),
        "zipped": Options(
            vocab_file=vocab, dupe_factor=1, gzip_compress=True, use_v2_feature_names=True
        ),
    }.items():
        create(str(text), f"{tmp_path}/{name}", options)
        ours = list(examples([tmp_path / name]))
        theirs = examples_of([tmp_path / name], options)
        assert np.array_equal([each.input_ids for each in ours], theirs["input_ids"])
        assert np.array_equal([each.segment_ids for each in ours], theirs["segment_ids"])
        labels = theirs["next_sentence_labels"].ravel().tolist()
        assert [each.next_sentence for each in ours] == labels


def test_statistics_of_known_examples() -> None:
    found = Statistics()
    for each in (record(), record(next_sentence_labels=[0], masked_lm_ids=[6, 5, 0])):
        found.add(Example.of(each, "here"), 4)
    assert found.to_json() == {
        "records": 2,
        "seq_lengths": [8],
        "mean_length": 6,
        "full": 0,
        "padding": 0.25,
        "mean_first": 4,
        "mean_second": 2,
        "mean_predictions": 2,
        "masking_rate": pytest.approx(1 / 3),
        "mask_share": 0.5,
        "keep_share": 0.25,
        "random_share": 0.25,
        "random_next": 0.5,
    }


def test_statistics_of_nothing() -> None:
    assert Statistics().to_json()["masking_rate"] is None
    assert guess_mask([]) is None


def test_the_mask_is_found_without_a_vocabulary(vocab: str, text: Path, tmp_path: Path) -> None:
    create(str(text), f"{tmp_path}/a", Options(vocab_file=vocab, dupe_factor=1))
    found, head = counted([tmp_path / "a"], None, None)
    assert guess_mask(head) == 4
    shares = found.to_json()
    assert shares["mask_share"] == pytest.approx(0.8, abs=0.03)
    assert shares["masking_rate"] == pytest.approx(0.15, abs=0.01)
    some, _ = counted([tmp_path / "a"], 5, 4)
    assert some.records == 5


def test_text_shows_what_stood_there() -> None:
    read = Example.of(record(), "here")
    assert text_of(read, TOKENS) == "[CLS] w0 [[MASK]=##w1] [SEP] [w2=w2] [SEP]"
    assert text_of(read, None) == "2 5 [4=6] 3 [7=7] 3"
    plain = Example.of(
        record(masked_lm_weights=[0.0, 0.0, 0.0], input_ids=[2, 5, 6, 3, 7, 3, 0, 0]), ""
    )
    assert text_of(plain, TOKENS) == "[CLS] w0w1 [SEP] w2 [SEP]"


def test_other_records_are_refused(tmp_path: Path) -> None:
    for wrong, match in [
        (record(masked_lm_ids=None), "no masked_lm_ids"),
        (record(input_mask=[1, 1]), "different lengths"),
        (record(masked_lm_ids=[6]), "different lengths"),
        (record(masked_lm_positions=[2, 9, 0]), "does not have"),
    ]:
        write_records([wrong], tmp_path / "file")
        with pytest.raises(InputError, match=match):
            list(examples([tmp_path / "file"]))


def test_damaged_files_are_refused(vocab: str, text: Path, tmp_path: Path) -> None:
    create(str(text), f"{tmp_path}/a", Options(vocab_file=vocab, dupe_factor=1))
    create(str(text), f"{tmp_path}/b", Options(vocab_file=vocab, dupe_factor=1, gzip_compress=True))
    for name in "ab":
        file = tmp_path / name
        file.write_bytes(file.read_bytes()[:-20])
        with pytest.raises(DamageError, match=name):
            list(examples([file]))


def test_bins_keep_everything() -> None:
    lengths = {1: 3, 64: 2, 128: 7}
    found = bins(lengths, 128)
    assert sum(found) == 12
    assert found[0] == 3
    assert found[-1] == 7
    assert bins({2: 1}, 5) == [0, 1, 0, 0, 0]


def test_plots(tmp_path: Path) -> None:
    from PIL import Image

    found = Statistics()
    found.add(Example.of(record(), ""), 4)
    for name in ("a.svg", "a.png"):
        draw("a <file>", found.to_json(), found.real, tmp_path / name)
    svg = ElementTree.parse(tmp_path / "a.svg")
    texts = [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "a <file>" in texts
    assert "33.33 %" in texts
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size[0] == 640
        assert len(picture.getcolors(1 << 16)) > 3  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"\.svg or \.png"):
        draw("", found.to_json(), found.real, tmp_path / "a.pdf")
