"""The global order through `InputReader`: global batches do not depend on hosts or replicas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.reader import InputReader
from provender.settings import Settings

tf = pytest.importorskip("tensorflow")
BATCH = 16
Make = Callable[..., InputReader]


@pytest.fixture
def reader(make_files: Callable[..., list[Path]], settings: Settings) -> Make:
    paths = {
        "news": [str(each) for each in make_files("news", 31, 22)],
        "books": str(make_files("books", 40)[0]),
    }

    def make(**options: Any) -> InputReader:
        given = {
            "input_path": paths,
            "weights": {"news": 0.75, "books": 0.25},
            "is_training": True,
            "global_batch_size": BATCH,
            "global_shuffle": True,
            **options,
        }
        return InputReader(DataConfig(**given), settings=settings)

    return make


def global_batches(reader: InputReader, hosts: int, replicas: int, steps: int) -> list[Any]:
    """The examples of each step, from hosts with so many replicas each."""
    parts = []
    for host in range(hosts):
        context = tf.distribute.InputContext(hosts, host, hosts * replicas)
        batches = list(reader.read(context).take(steps * replicas).as_numpy_iterator())
        assert {len(each) for each in batches} == {BATCH // hosts // replicas}
        flat = [example for each in batches for example in each.tolist()]
        own = BATCH // hosts
        parts.append([flat[at * own : (at + 1) * own] for at in range(steps)])
    return [[each for part in step for each in part] for step in zip(*parts, strict=True)]


@pytest.mark.parametrize("seed", [None, 5])
def test_hosts_and_replicas_change_nothing(reader: Make, seed: int | None) -> None:
    whole = global_batches(reader(seed=seed), 1, 1, 8)
    for hosts, replicas in ((1, 4), (2, 2), (4, 1), (8, 2)):
        assert global_batches(reader(seed=seed), hosts, replicas, 8) == whole
    news = [each for step in whole for each in step if each.startswith(b"news")]
    assert len(set(news[:53])) == 53


def test_a_resume_with_other_hosts(reader: Make) -> None:
    first = reader()
    whole = global_batches(first, 2, 1, 9)
    state = first.indexed.input_state()
    state.advance(5)
    second = reader()
    second.indexed.input_state().load(state.to_json())
    assert global_batches(second, 4, 2, 4) == whole[5:]
    assert second.indexed.report().sources["news"].share == 0.75


def test_evaluation_reads_everything_once_in_file_order(reader: Make) -> None:
    evaluation = reader(is_training=False, stop_on_empty_dataset=False, drop_remainder=False)
    read = [each for batch in evaluation.read().as_numpy_iterator() for each in batch.tolist()]
    assert [each for each in read if each.startswith(b"books")] == [
        b"books/%d" % at for at in range(40)
    ]
    assert len(set(read)) == len(read) == 93


def test_what_excludes_a_global_order(reader: Make) -> None:
    service = {"enable_tf_data_service": True, "tf_data_service_address": "grpc://127.0.0.1:1"}
    with pytest.raises(SettingsError, match="reads in this process"):
        reader(**service)
    with pytest.raises(SettingsError, match="fixes the order"):
        reader(deterministic=False)


def test_steps_that_take_other_numbers_of_records(
    reader: Make, settings: Settings, tmp_path: Path
) -> None:
    """The place does not follow from the step; the iterator can be saved instead."""
    reader()  # writes the files

    def filtered() -> InputReader:
        return InputReader(
            DataConfig(
                input_path=str(tmp_path / "news-*.tfrecord"),
                is_training=True,
                global_batch_size=4,
                global_shuffle=True,
            ),
            filter_fn=lambda record: tf.strings.regex_full_match(record, ".*[02468]"),
            settings=settings,
        )

    with pytest.raises(SettingsError, match="With filter_fn a step does not take"):
        filtered().indexed.input_state()
    iterator = iter(filtered().read())
    whole = [next(iterator).numpy().tolist() for _ in range(12)]
    iterator = iter(filtered().read())
    for _ in range(5):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "iterator"))
    other = iter(filtered().read())
    tf.train.Checkpoint(iterator=other).restore(path)
    assert [next(other).numpy().tolist() for _ in range(7)] == whole[5:]
