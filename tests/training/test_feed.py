"""`tf.data` pipelines of versions, beside those of TFDS."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds

from provender.errors import BuilderError, SettingsError, SplitError, UnknownReference
from provender.training.feed.loading import feed, for_context
from provender.training.feed.options import FeedOptions
from provender.training.feed.parsing import parser
from provender.training.rows import decoder_of

BATCHED = [
    "text", "label", "number", "half", "flag", "big", "grid", "open", "packed", "image", "tags",
    "turns", "deep", "inner", "box", "both", "empty", "words", "maybe", "brain", "voice", "clip",
    "pair", "shots", "many",
]  # fmt: skip


def plain(value: Any) -> Any:
    """Tensors, ragged ones and nested datasets as Python values that compare."""
    import tensorflow as tf

    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, tf.RaggedTensor):
        return ("ragged", value.dtype.name, value.to_list())
    if isinstance(value, tf.data.Dataset):
        return ("dataset", [plain(each) for each in value])
    return (value.dtype.name, tuple(value.shape), np.asarray(value.numpy()).tolist())


def theirs(odd: Any, split: str, **kwargs: Any) -> list[Any]:
    builder = tfds.builder_from_directory(odd.store.path(odd.version.path))
    config = tfds.ReadConfig(
        interleave_cycle_length=kwargs.pop("cycle", 1), try_autocache=False, add_tfds_id=False
    )
    data = builder.as_dataset(split=split, read_config=config, **kwargs)
    return [plain(each) for each in data]


def ours(odd: Any, split: Any, **options: Any) -> list[Any]:
    return [plain(each) for each in feed(odd.store, odd.version, split, FeedOptions(**options))]


@pytest.mark.parametrize("split", ["train", "test", "train[2:6]+test", "train[50%:]", "all"])
def test_examples_equal_those_of_tfds(odd: Any, split: str) -> None:
    assert ours(odd, split) == theirs(odd, split)


def test_every_kind_but_nested_datasets_is_parsed_in_batches_and_equal(odd: Any) -> None:
    made = parser(odd.version.features, BATCHED)
    assert made.batch is not None
    expected = [{name: each[name] for name in BATCHED} for each in theirs(odd, "train")]
    assert ours(odd, "train", columns=BATCHED) == expected
    assert parser(odd.version.features, ["steps"]).batch is None
    # Parsed as a batch, a tensor of no values would end the process.
    assert parser(odd.version.features, ["nothing"]).batch is None


def test_types_are_those_of_tfds(odd: Any) -> None:
    directory = tfds.builder_from_directory(odd.store.path(odd.version.path))
    peer = directory.as_dataset(split="train").element_spec
    assert feed(odd.store, odd.version, "train", FeedOptions()).element_spec == peer
    batched = feed(odd.store, odd.version, "train", FeedOptions(columns=BATCHED))
    assert batched.element_spec == {name: peer[name] for name in BATCHED}
    words = feed(odd.store, odd.version, "train", FeedOptions(columns=["words"]))
    assert next(iter(words.padded_batch(7)))["words"].shape == (7, 2)


def test_batches_hold_the_examples(odd: Any) -> None:
    flat = ["text", "grid", "big", "packed", "image", "inner", "box", "both"]
    batches = list(feed(odd.store, odd.version, "train", FeedOptions(batch_size=3, columns=flat)))
    assert [each["text"].shape[0] for each in batches] == [3, 3, 1]
    expected = list(
        tfds.builder_from_directory(odd.store.path(odd.version.path))
        .as_dataset(
            split="train",
            read_config=tfds.ReadConfig(interleave_cycle_length=1),
            decoders=tfds.decode.PartialDecoding(dict.fromkeys(flat, True)),
        )
        .batch(3)
    )
    assert [plain(each) for each in batches] == [plain(each) for each in expected]


def test_ragged_batches_and_padded_ones(odd: Any) -> None:
    import tensorflow as tf

    columns = ["open", "tags", "turns", "deep"]
    options = FeedOptions(batch_size=7, columns=columns)
    (batch,) = feed(odd.store, odd.version, "train", options)
    singles = list(feed(odd.store, odd.version, "train", replace(options, batch_size=None)))
    assert isinstance(batch["open"], tf.RaggedTensor)
    for at, single in enumerate(singles):
        assert batch["tags"][at].numpy().tolist() == single["tags"].numpy().tolist()
        assert batch["open"][at].numpy().tolist() == single["open"].numpy().tolist()
        assert batch["turns"]["at"][at].numpy().tolist() == single["turns"]["at"].numpy().tolist()
        assert batch["deep"][at].to_list() == single["deep"].to_list()
    (padded,) = feed(odd.store, odd.version, "train", replace(options, pad=True))
    assert padded["tags"].numpy().tolist() == batch["tags"].to_tensor().numpy().tolist()
    assert padded["deep"].shape.rank == 4
    directory = tfds.builder_from_directory(odd.store.path(odd.version.path))
    (peer,) = directory.as_dataset(
        split="train",
        batch_size=7,
        decoders=tfds.decode.PartialDecoding({"open": True, "tags": True}),
        read_config=tfds.ReadConfig(interleave_cycle_length=1),
    )
    assert plain(padded["open"]) == plain(peer["open"])
    assert plain(padded["tags"]) == plain(peer["tags"])
    # Beside a feature that can only be parsed one by one.
    slow = replace(options, pad=True, columns=[*columns, "nothing"])
    (single,) = feed(odd.store, odd.version, "train", slow)
    assert {name: plain(single[name]) for name in columns} == plain(padded)


def test_decoders_of_tfds(odd: Any) -> None:
    decoders = {"image": tfds.decode.SkipDecoding()}
    assert ours(odd, "train", decoders=decoders, columns=["image"]) == [
        {"image": each["image"]} for each in theirs(odd, "train", decoders=decoders)
    ]
    partial = tfds.decode.PartialDecoding({"inner": {"name"}, "label": True})
    assert ours(odd, "train", decoders=partial) == theirs(odd, "train", decoders=partial)

    @tfds.decode.make_decoder(output_dtype=np.float32)
    def halved(example: Any, feature: Any) -> Any:
        import tensorflow as tf

        return tf.cast(feature.decode_example(example), tf.float32) / 2

    custom = {"image": halved()}
    assert ours(odd, "test", decoders=custom) == theirs(odd, "test", decoders=custom)


def test_a_version_whose_examples_are_sequences() -> None:
    """A `Sequence` at the top passes on what its dict has, so that it looks like a dict."""
    features = tfds.features.Sequence(
        {"a": tfds.features.Scalar(np.int32), "b": tfds.features.Text()}
    )
    rows = [[{"a": n, "b": f"b{n}"} for n in range(length)] for length in (2, 0, 3)]
    stored = [features.serialize_example(features.encode_example(each)) for each in rows]
    document = features.to_json()
    expected = [[0, 1], [], [0, 1, 2]]
    for columns in (None, ["a"]):
        made = parser(document, columns)
        assert made.batch is not None
        batch = made.batch(stored)
        assert set(batch) == set(columns or ["a", "b"])
        assert batch["a"].to_list() == expected
        assert [made.single(each)["a"].numpy().tolist() for each in stored] == expected
        decode = decoder_of(document, columns, "some")
        assert [list(decode(each)["a"]) for each in stored] == expected


def test_the_order_of_tfds_is_an_option(odd: Any) -> None:
    mine = ours(odd, "train", columns=["number"], cycle_length=16, block_length=16)
    peer = [{"number": each["number"]} for each in theirs(odd, "train", cycle=16)]
    assert mine == peer


def test_all_splits_without_one(odd: Any) -> None:
    found = feed(odd.store, odd.version, None, FeedOptions(batch_size=2, columns=["number"]))
    assert {name: len(each) for name, each in found.items()} == {"train": 4, "test": 1}


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_hosts_share_every_example_once(odd: Any, count: int) -> None:
    def numbers(index: int, remainder: str) -> list[int]:
        options = FeedOptions(columns=["number"], count=count, index=index, remainder=remainder)
        return [int(each["number"]) for each in feed(odd.store, odd.version, "train", options)]

    kept = [numbers(index, "keep") for index in range(count)]
    assert sorted(chain(*kept)) == list(range(7))
    dropped = [numbers(index, "drop") for index in range(count)]
    assert {len(each) for each in dropped} == {7 // count}
    assert len(set(chain(*dropped))) == 7 // count * count
    padded = [numbers(index, "pad") for index in range(count)]
    assert {len(each) for each in padded} == {-(-7 // count)}
    assert set(chain(*padded)) == set(range(7))


def test_an_input_context_of_tf_distribute(odd: Any) -> None:
    import tensorflow as tf

    context = tf.distribute.InputContext(
        num_input_pipelines=3, input_pipeline_id=2, num_replicas_in_sync=3
    )
    options = for_context(FeedOptions(), context)
    assert (options.index, options.count) == (2, 3)
    with pytest.raises(SettingsError, match="input_context is 3"):
        for_context(FeedOptions(), 3)


def test_an_iterator_goes_on_from_a_checkpoint(odd: Any, tmp_path: Any) -> None:
    import tensorflow as tf

    options = FeedOptions(batch_size=2, columns=["number"], shuffle=5, seed=3, repeat=3)

    def start() -> Any:
        return iter(feed(odd.store, odd.version, "train", options))

    first = start()
    for _ in range(4):
        next(first)
    saved = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "at"))
    expected = [each["number"].numpy().tolist() for each in first]
    second = start()
    tf.train.Checkpoint(iterator=second).restore(saved)
    assert [each["number"].numpy().tolist() for each in second] == expected
    assert expected


def test_shuffles_and_passes(odd: Any) -> None:
    def numbers(**options: Any) -> list[int]:
        data = feed(odd.store, odd.version, "train", FeedOptions(columns=["number"], **options))
        assert len(data) == 7 * options.get("repeat", 1)
        return [int(each["number"]) for each in data]

    both = numbers(shuffle=7, seed=1, repeat=2)
    assert sorted(both[:7]) == sorted(both[7:]) == list(range(7))
    assert both[:7] != both[7:]
    assert numbers(shuffle=7, seed=1) == both[:7]
    assert numbers(shuffle=7, seed=1, epoch=1) == both[7:]
    same = numbers(shuffle=7, seed=1, repeat=2, reshuffle=False)
    assert same[:7] == same[7:] == both[:7]
    files = {tuple(numbers(shuffle_files=True, seed=seed)) for seed in range(8)}
    assert len(files) == 2  # two files, so two orders
    assert numbers(repeat=2) == numbers() * 2
    endless = feed(odd.store, odd.version, "train", FeedOptions(repeat=None, columns=["number"]))
    assert len(list(endless.take(20))) == 20


def test_preprocessing_before_batches(odd: Any) -> None:
    def longer(example: Any) -> Any:
        import tensorflow as tf

        return {"image": tf.image.resize(example["image"], (4, 4))}

    (batch,) = feed(odd.store, odd.version, "test", FeedOptions(batch_size=2, preprocess=longer))
    assert batch["image"].shape == (2, 4, 4, 1)


@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"preprocess": dict}])
def test_supervised_pairs(odd: Any, options: dict[str, Any]) -> None:
    directory = tfds.builder_from_directory(odd.store.path(odd.version.path))
    data = directory.as_dataset(split="test", as_supervised=True)
    if batch := options.get("batch_size"):
        data = data.batch(batch)
    expected = [plain(each) for each in data]
    assert ours(odd, "test", as_supervised=True, **options) == expected
    narrow = {"columns": ["label", "text", "inner"], **options}
    assert ours(odd, "test", as_supervised=True, **narrow) == expected


def test_what_is_not_supervised(notes: Any, odd: Any) -> None:
    with pytest.raises(BuilderError, match="no supervised keys"):
        feed(notes.store, notes.version, "train", FeedOptions(as_supervised=True))
    with pytest.raises(SettingsError, match="needs the feature 'label', which columns leaves out"):
        ours(odd, "test", as_supervised=True, columns=["text", "inner"])


def test_split_objects_of_tfds_and_lists(odd: Any) -> None:
    some = tfds.core.ReadInstruction("train", from_=20, to=80, unit="%")
    part = tfds.even_splits("train+test", 2)[1]
    for split in (some, part, some + tfds.core.ReadInstruction("test", to=1), tfds.Split.TEST):
        assert ours(odd, split, columns=["number"]) == [
            {"number": each["number"]} for each in theirs(odd, split)
        ]
    both = feed(odd.store, odd.version, ["train[:2]", part], FeedOptions(columns=["number"]))
    assert [len(each) for each in both] == [2, 4]
    with pytest.raises(SplitError, match="3 is not a split"):
        feed(odd.store, odd.version, 3, FeedOptions())
    with pytest.raises(SplitError, match="The splits are train, test"):
        feed(odd.store, odd.version, tfds.core.ReadInstruction("trian"), FeedOptions())


def test_decoders_of_features_that_are_not_there(odd: Any) -> None:
    skip = tfds.decode.SkipDecoding()
    with pytest.raises(UnknownReference, match="Did you mean 'image'"):
        ours(odd, "train", decoders={"imag": skip})
    with pytest.raises(UnknownReference, match="There is no feature 'turns/whom'"):
        ours(odd, "train", decoders={"turns": {"whom": skip}})
    with pytest.raises(UnknownReference, match="Missing expected feature 'imag'"):
        ours(odd, "train", decoders=tfds.decode.PartialDecoding({"imag": True}))
    with pytest.raises(SettingsError, match="image has no decoder but 3"):
        ours(odd, "train", decoders={"image": 3})
    # A decoder of a feature that is not asked for is none that is missing.
    narrow = ours(odd, "test", decoders={"image": skip}, columns=["number"])
    assert narrow == ours(odd, "test", columns=["number"])


def test_what_is_asked_wrongly(odd: Any) -> None:
    with pytest.raises(UnknownReference, match="Did you mean 'train'"):
        feed(odd.store, odd.version, "trian", FeedOptions())
    with pytest.raises(UnknownReference, match="Did you mean 'label'"):
        feed(odd.store, odd.version, "train", FeedOptions(columns=["labels"]))
    with pytest.raises(SplitError, match="shared evenly"):
        feed(odd.store, odd.version, "test", FeedOptions(count=3))


@pytest.mark.parametrize(
    "option",
    [
        {"batch_size": 0}, {"batch_size": -1}, {"batch_size": True}, {"batch_size": 2.5},
        {"batch_size": "32"}, {"shuffle": True}, {"shuffle": 0}, {"seed": 2**64}, {"seed": "x"},
        {"epoch": -1}, {"start": 2.5}, {"cycle_length": None}, {"index": -1}, {"prefetch": -2},
        {"parallel_calls": 0}, {"deterministic": None}, {"drop_remainder": "no"},
        {"columns": "text"}, {"columns": []}, {"preprocess": 3}, {"remainder": "lose"},
        {"route": "gcs"},
    ],
)  # fmt: skip
def test_values_that_an_option_cannot_have(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(SettingsError, match=f"{name} is ") as found:
        FeedOptions(**option)
    assert found.value.hint


def test_numbers_of_numpy_and_autotune_are_options() -> None:
    import tensorflow as tf

    FeedOptions(batch_size=np.int64(4), seed=np.int32(-3), prefetch=tf.data.AUTOTUNE)
    FeedOptions(parallel_calls=tf.data.AUTOTUNE, prefetch=0, drop_remainder=np.bool_(True))
