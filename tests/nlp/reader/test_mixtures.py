"""Several sources read as one, by weight."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.nlp import DataConfig, InputReader


@pytest.fixture(scope="module")
def paths(data: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Numbers below 100 are of a, below 200 of b, the others of c."""
    folder: Path = tmp_path_factory.mktemp("mixture")
    found = {}
    for at, (name, size) in enumerate((("a", 40), ("b", 20), ("c", 10))):
        records = [data.example(100 * at + each) for each in range(size)]
        found[name] = data.write(folder / f"{name}.tfrecord", records)
    return found


def read(data: Any, paths: Any, steps: int | None = None, **options: Any) -> list[int]:
    settled: dict[str, Any] = {
        "global_batch_size": 1, "drop_remainder": False, "weights": {"a": 3, "b": 1}, **options
    }  # fmt: skip
    if "weights" in settled and settled["weights"] is not None:
        paths = {name: paths[name] for name in settled["weights"]}
    params = DataConfig(input_path=paths, **settled)
    found: list[int] = data.numbers(InputReader(params, features=data.features()).read(), steps)
    return found


def of(found: list[int]) -> str:
    return "".join("abc"[each // 100] for each in found)


def test_every_stretch_keeps_to_the_weights(data: SimpleNamespace, paths: Any) -> None:
    found = of(read(data, paths, 200, is_training=True, weights={"a": 0.5, "b": 0.3, "c": 0.2}))
    for start in range(0, 200, 10):
        assert Counter(found[start : start + 10]) == {"a": 5, "b": 3, "c": 2}


def test_weights_need_not_add_up(data: SimpleNamespace, paths: Any) -> None:
    assert of(read(data, paths, 8, is_training=True, weights={"a": 30, "b": 10})).count("a") == 6


def test_turns_are_the_same_in_each_run_and_for_any_seed(data: SimpleNamespace, paths: Any) -> None:
    runs = [of(read(data, paths, 40, is_training=True, seed=seed)) for seed in (None, None, 3)]
    assert runs[0] == runs[1] == runs[2]


def test_drawn_sources_follow_the_seed(data: SimpleNamespace, paths: Any) -> None:
    options = {"is_training": True, "deterministic_mixing": False}
    seeded = [of(read(data, paths, 120, seed=seed, **options)) for seed in (3, 3, 4)]
    assert seeded[0] == seeded[1]
    assert seeded[0] != seeded[2]
    assert 70 <= seeded[0].count("a") <= 108
    unseeded = [of(read(data, paths, 120, **options)) for _ in range(2)]
    assert unseeded[0] != unseeded[1]


@pytest.mark.parametrize("fixed", [True, False])
def test_evaluation_ends_with_the_first_source_or_the_last(
    data: SimpleNamespace, paths: Any, fixed: bool
) -> None:
    options = {"deterministic_mixing": fixed, "seed": 1, "weights": {"a": 1, "b": 1}}
    short = read(data, paths, **options)
    assert of(short).count("b") == 20
    assert len(short) < 60
    long = read(data, paths, stop_on_empty_dataset=False, **options)
    assert sorted(long) == [*range(40), *range(100, 120)]


def test_each_source_keeps_its_order_in_evaluation(data: SimpleNamespace, paths: Any) -> None:
    found = read(data, paths, weights={"a": 1, "b": 1})
    assert [each for each in found if each < 100] == list(range(21))
    assert [each for each in found if each >= 100] == list(range(100, 120))


@pytest.mark.parametrize("way", ["fast", "slow"])
def test_a_combine_function_of_the_callers_takes_the_place(
    data: SimpleNamespace, paths: Any, way: str
) -> None:
    import tensorflow as tf

    def combine(datasets: Any) -> Any:
        assert list(datasets) == ["a", "b", "c"]
        return datasets["c"].concatenate(datasets["b"])

    params = DataConfig(input_path=paths, global_batch_size=100, drop_remainder=False)
    options: dict[str, Any] = {"features": data.features()}
    if way == "slow":
        options = {"decoder_fn": lambda each: tf.io.parse_single_example(each, data.features())}
    found = data.numbers(InputReader(params, combine_fn=combine, **options).read())
    assert of(found) == "c" * 10 + "b" * 20


def test_hosts_share_each_source(data: SimpleNamespace, paths: Any) -> None:
    params = DataConfig(
        input_path={name: paths[name] for name in ("a", "b")}, global_batch_size=2,
        drop_remainder=False, weights={"a": 1, "b": 1}, stop_on_empty_dataset=False,
    )  # fmt: skip
    parts = [
        data.numbers(InputReader(params, features=data.features()).read(data.context(host, 2)))
        for host in range(2)
    ]
    assert sorted(parts[0] + parts[1]) == [*range(40), *range(100, 120)]


def test_a_mixture_given_as_datasets(data: SimpleNamespace, paths: Any) -> None:
    import tensorflow as tf

    params = DataConfig(
        input_path={name: paths[name] for name in ("a", "b")}, global_batch_size=4,
        weights={"a": 1, "b": 1}, drop_remainder=False,
    )  # fmt: skip
    given = {
        name: tf.data.Dataset.from_tensor_slices([data.example(each) for each in numbers])
        for name, numbers in (("a", (1, 2)), ("b", (101, 102)))
    }
    made = InputReader(params, features=data.features()).read(dataset=given)
    assert sorted(data.numbers(made)) == [1, 2, 101, 102]
