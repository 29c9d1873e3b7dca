"""The order of operations, told from what comes out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.errors import SettingsError
from provender.nlp import DataConfig, InputReader


@pytest.fixture(scope="module")
def files(data: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("operations")
    data.write_numbers(folder, [4, 4, 4])
    return f"{folder}/part-*.tfrecord"


def config(files: Any, **options: Any) -> DataConfig:
    return DataConfig(
        input_path=files, **{"global_batch_size": 4, "drop_remainder": False, **options}
    )


def decoder(data: Any) -> Any:
    def decode(record: Any) -> Any:
        import tensorflow as tf

        return tf.io.parse_single_example(record, data.features())

    return decode


def test_every_function_is_called_in_its_place(data: SimpleNamespace, files: str) -> None:
    """Each function writes what it sees: types and values tell what came before."""

    def sample(dataset: Any) -> Any:
        assert set(dataset.element_spec) == {"number", "ids", "weights"}, "after decoding"
        return dataset.take(10)

    def parse(example: Any) -> Any:
        return {"number": example["number"] * 10}

    def keep(example: Any) -> Any:
        assert set(example) == {"number"}, "after parsing"
        return example["number"] % 20 == 0

    def batch(dataset: Any, context: Any) -> Any:
        assert context is given
        return dataset.batch(3)

    def post(examples: Any) -> Any:
        assert examples["number"].shape.rank == 1, "after batching"
        return {"number": examples["number"] + 1}

    given = data.context(0, 1)
    made = InputReader(
        config(files, cycle_length=1), decoder_fn=decoder(data), sample_fn=sample,
        parser_fn=parse, filter_fn=keep, transform_and_batch_fn=batch, postprocess_fn=post,
    ).read(given)  # fmt: skip
    # Ten of twelve are sampled before the filter keeps every other one.
    assert data.numbers(made) == [1, 21, 41, 61, 81]
    assert [len(each["number"]) for each in made] == [3, 2]


def test_evaluation_reads_files_in_turns_and_in_order(data: SimpleNamespace, files: str) -> None:
    import tensorflow as tf

    names = sorted(str(each) for each in Path(files).parent.iterdir())
    for cycle, block in ((1, 1), (2, 1), (3, 2), (2, 3)):
        ours = InputReader(
            config(files, cycle_length=cycle, block_length=block), features=data.features()
        ).read()
        theirs = tf.data.Dataset.from_tensor_slices(names).interleave(
            tf.data.TFRecordDataset, cycle_length=cycle, block_length=block
        )
        expected = [int(decoder(data)(each)["number"]) for each in theirs]
        assert data.numbers(ours) == expected


def test_training_repeats_and_shuffles_and_evaluation_does_not(
    data: SimpleNamespace, files: str
) -> None:
    made = InputReader(config(files, is_training=True, seed=3), features=data.features()).read()
    found = data.numbers(made, 9)
    assert len(found) == 36
    assert sorted(found[:12]) == list(range(12))
    assert found[:12] != sorted(found[:12])
    assert data.numbers(InputReader(config(files), features=data.features()).read()).__len__() == 12


@pytest.mark.parametrize("training", [None, False])
def test_is_training_none_is_no(data: SimpleNamespace, files: str, training: bool | None) -> None:
    made = InputReader(config(files, is_training=training), features=data.features()).read()
    assert len(data.numbers(made)) == 12


def test_a_seed_makes_training_repeatable(data: SimpleNamespace, files: str) -> None:
    def run(seed: int | None) -> list[int]:
        params = config(files, is_training=True, seed=seed)
        found: list[int] = data.numbers(InputReader(params, features=data.features()).read(), 9)
        return found

    assert run(5) == run(5)
    assert run(5) != run(6)
    assert run(None) != run(None), "without a seed records are shuffled anew in each run"


def test_the_cache_holds_parsed_and_filtered_examples(data: SimpleNamespace, files: str) -> None:
    """A parser that draws at random is asked once an example; so the cache comes after it."""
    import tensorflow as tf

    def parse(example: Any) -> Any:
        return example | {"drawn": tf.random.uniform([])}

    made = InputReader(
        config(files, is_training=True, cache=True, shuffle_buffer_size=50),
        decoder_fn=decoder(data), parser_fn=parse, filter_fn=lambda each: each["number"] < 8,
    ).read()  # fmt: skip
    drawn: dict[int, set[float]] = {}
    for batch in made.take(8):
        for number, value in zip(batch["number"].numpy(), batch["drawn"].numpy(), strict=True):
            drawn.setdefault(int(number), set()).add(float(value))
    assert sorted(drawn) == list(range(8))
    assert all(len(each) == 1 for each in drawn.values())


def test_the_cache_freezes_what_a_batch_parser_draws(data: SimpleNamespace, files: str) -> None:
    import tensorflow as tf

    def parse(examples: Any) -> Any:
        return examples | {"drawn": tf.random.uniform(tf.shape(examples["number"]))}

    made = InputReader(
        config(files, is_training=True, cache=True), features=data.features(), parser_fn=parse,
        batch_parser_fn=parse,
    ).read()  # fmt: skip
    drawn: dict[int, set[float]] = {}
    for batch in made.take(9):
        for number, value in zip(batch["number"].numpy(), batch["drawn"].numpy(), strict=True):
            drawn.setdefault(int(number), set()).add(float(value))
    assert all(len(each) == 1 for each in drawn.values())


def test_a_cached_epoch_is_repeated_and_shuffled(data: SimpleNamespace, files: str) -> None:
    made = InputReader(
        config(files, is_training=True, cache=True, seed=1), features=data.features()
    ).read()
    found = data.numbers(made, 30)
    assert set(found) == set(range(12))
    assert len(found) == 120


def test_the_batch_is_that_of_one_replica(data: SimpleNamespace, files: str) -> None:
    made = InputReader(config(files, global_batch_size=8), features=data.features())
    sizes = [len(each["number"]) for each in made.read(data.context(0, 1, 4))]
    assert sizes == [2] * 6


def test_a_dataset_takes_the_place_of_the_source(data: SimpleNamespace, files: str) -> None:
    import tensorflow as tf

    given = tf.data.Dataset.from_tensor_slices([data.example(each) for each in (7, 9)])
    made = InputReader(config(files), features=data.features())
    assert data.numbers(made.read(dataset=given)) == [7, 9]
    assert len(data.numbers(made.read())) == 12


@pytest.mark.parametrize("size", [None, 0, 3])
def test_prefetch_is_last(data: SimpleNamespace, files: str, size: int | None) -> None:
    import tensorflow as tf

    made = InputReader(config(files, prefetch_buffer_size=size), features=data.features()).read()
    assert type(made).__name__ == "_PrefetchDataset"
    buffer = int(tf.get_static_value(made._buffer_size))
    assert buffer == (size or tf.data.AUTOTUNE)


def test_options_are_set_only_where_asked(data: SimpleNamespace, files: str) -> None:
    import tensorflow as tf

    made = InputReader(
        config(
            files, deterministic=False, ram_budget=2, autotune_algorithm="STAGE_BASED",
        ),
        features=data.features(),
    ).read().options()  # fmt: skip
    assert made.deterministic is False
    assert made.autotune.ram_budget == 2 << 30
    assert made.autotune.autotune_algorithm == tf.data.experimental.AutotuneAlgorithm.STAGE_BASED
    plain = InputReader(config(files), features=data.features()).read().options()
    assert plain.deterministic is None
    assert plain.autotune.ram_budget is None
    assert plain.autotune.autotune_algorithm is None


def test_drop_remainder_gives_static_shapes_and_full_batches(
    data: SimpleNamespace, files: str
) -> None:
    made = InputReader(
        config(files, global_batch_size=5, drop_remainder=True), features=data.features()
    ).read()
    assert made.element_spec["ids"].shape.as_list() == [5, 4]
    assert [len(each["ids"]) for each in made] == [5, 5]
    kept = InputReader(config(files, global_batch_size=5), features=data.features()).read()
    assert kept.element_spec["ids"].shape.as_list() == [None, 4]
    assert [len(each["ids"]) for each in kept] == [5, 5, 2]


@pytest.mark.parametrize("ragged", [False, True])
def test_evaluation_data_smaller_than_a_batch_is_an_error(
    data: SimpleNamespace, files: str, ragged: bool
) -> None:
    import tensorflow as tf

    features = data.features()
    if ragged:
        features["ids"] = tf.io.RaggedFeature(tf.int64)
    made = InputReader(
        config(files, global_batch_size=13, drop_remainder=True), features=features,
        parser_fn=None, filter_fn=(lambda each: each["number"] >= 0) if ragged else None,
    ).read()  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError, match="12 examples, fewer than a batch"):
        list(made)
    kept = InputReader(config(files, global_batch_size=13), features=features).read()
    assert len(data.numbers(kept)) == 12


def test_known_to_be_smaller_than_a_batch_is_an_error_at_once(
    data: SimpleNamespace, files: str
) -> None:
    import tensorflow as tf

    given = tf.data.Dataset.from_tensor_slices([data.example(each) for each in range(3)])
    made = InputReader(config(files, drop_remainder=True), features=data.features())
    with pytest.raises(SettingsError, match="3 examples, fewer than a batch of 4"):
        made.read(dataset=given)


@pytest.mark.parametrize("training", [False, True])
def test_a_pipeline_can_be_made_inside_a_graph(
    data: SimpleNamespace, files: str, training: bool
) -> None:
    """As coordinators of remote workers do."""
    import tensorflow as tf

    made = InputReader(
        config(files, is_training=training, drop_remainder=True, shuffle_buffer_size=12),
        features=data.features(),
    )

    @tf.function
    def total() -> Any:
        batches = made.read(data.context(0, 1)).take(3)
        return batches.reduce(
            tf.constant(0, tf.int64), lambda sum_, batch: sum_ + tf.reduce_sum(batch["number"])
        )

    assert int(total()) == sum(range(12))


def test_no_batch_size_is_an_error_unless_batches_are_made_elsewhere(
    data: SimpleNamespace, files: str
) -> None:
    params = config(files, global_batch_size=0)
    with pytest.raises(SettingsError, match="global_batch_size is 0"):
        InputReader(params, features=data.features()).read()
    made = InputReader(
        params, features=data.features(), transform_and_batch_fn=lambda each, _: each.batch(12)
    ).read()
    assert len(next(iter(made))["number"]) == 12
