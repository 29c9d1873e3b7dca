"""Configurations that contradict themselves are refused before anything is read."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from provender.errors import MissingFiles, SettingsError
from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.files import compressed_records, dataset_fn_of

TWO = {"a": "FILE", "b": "FILE"}


@pytest.fixture(scope="module")
def file(data: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> str:
    [path] = data.write_numbers(tmp_path_factory.mktemp("checks"), [3])
    return str(path)


@dataclasses.dataclass
class RoundRobin(DataConfig):
    enable_round_robin_tf_data_service: bool = True


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"input_path": "FILE", "tfds_name": "x", "tfds_split": "s"}, "At most one of", "tfds_name"),
    ({"input_path": "FILE", "version": "x", "tfds_split": "s"}, "At most one of", "version"),
    ({"tfds_name": "y", "version": "x", "tfds_split": "s"}, "At most one of", "version"),
    ({}, "nothing to read", "input_path"),
    ({"tfds_name": "mnist"}, "'mnist', but tfds_split is not specified", "tfds_split"),
    ({"version": "digits:1.0.0"}, "'digits:1.0.0', but tfds_split is not", "tfds_split"),
    ({"input_path": TWO}, "A combine_fn is required if", "weights"),
    ({"tfds_name": {"a": "x"}, "tfds_split": "s"}, "A combine_fn is required if", "weights"),
    ({"version": {"a": "x"}, "tfds_split": "s"}, "A combine_fn is required if", "weights"),
    ({"input_path": TWO, "weights": {"a": 1}}, "no weight for b", "weights"),
    ({"input_path": TWO, "weights": {"a": 1, "b": 1, "c": 1}}, "no source for c", "weights"),
    ({"input_path": TWO, "weights": {"a": 1, "b": -1}}, "weights are", "weights"),
    ({"input_path": TWO, "weights": {"a": 0, "b": 0}}, "weights are", "weights"),
    ({"input_path": TWO, "weights": {"a": float("nan"), "b": 1}}, "weights are", "weights"),
    ({"input_path": "FILE", "weights": {"a": 1}}, "one source without a name", "weights"),
    ({"input_path": "FILE", "global_batch_size": -1}, "global_batch_size is -1", ""),
    ({"input_path": "FILE", "shuffle_buffer_size": 0}, "shuffle_buffer_size is 0", ""),
    ({"input_path": "FILE", "cycle_length": 0}, "cycle_length is 0", ""),
    ({"input_path": "FILE", "block_length": 0}, "block_length is 0", ""),
    ({"input_path": "FILE", "ram_budget": 0}, "ram_budget is 0", ""),
    ({"input_path": "FILE", "prefetch_buffer_size": -1}, "prefetch_buffer_size is -1", ""),
    ({"input_path": "FILE", "version_route": "fast"}, "version_route is 'fast'", ""),
    ({"input_path": "FILE", "autotune_algorithm": "BEST"}, "autotune_algorithm is 'BEST'", ""),
    ({"input_path": "FILE", "packing": {}}, "nothing here says how", "packing"),
    (
        {"input_path": "FILE", "enable_tf_data_service": True},
        "there is no tf_data_service_address",
        "tf_data_service_address",
    ),
    (
        {"input_path": "FILE", "apply_tf_data_service_before_batching": True},
        "for a shared service only",
        "apply_tf_data_service_before_batching",
    ),
    (
        {
            "input_path": "FILE", "enable_tf_data_service": True,
            "tf_data_service_address": "grpc://x:1",
            "enable_shared_tf_data_service_between_parallel_trainers": True,
        },
        "trainer_id is not set",
        "trainer_id",
    ),
    (
        {"tfds_name": "x", "tfds_split": "s", "global_shuffle": True, "global_batch_size": 1},
        "TFDS builders cannot",
        "tfds_name",
    ),
    (
        {
            "input_path": "FILE", "global_shuffle": True, "global_batch_size": 1,
            "is_training": True, "cache": True,
        },
        "a new order",
        "cache",
    ),
    ({"input_path": "FILE", "global_shuffle": True}, "counts steps", "global_batch_size"),
]  # fmt: skip


def filled(value: Any, file: str) -> Any:
    if isinstance(value, dict):
        return {name: filled(each, file) for name, each in value.items()}
    return file if value == "FILE" else value


@pytest.mark.parametrize(("options", "message", "where"), CASES)
def test_a_contradiction_is_told(
    options: dict[str, Any], message: str, where: str, file: str
) -> None:
    params = DataConfig().override(filled(options, file))
    with pytest.raises(SettingsError, match=message) as caught:
        InputReader(params)
    assert caught.value.where == (where or message.split()[0])
    assert caught.value.hint


def test_round_robin_and_a_shared_job_exclude_each_other(file: str) -> None:
    params = RoundRobin(
        input_path=file,
        enable_tf_data_service=True,
        tf_data_service_address="grpc://x:1",
        trainer_id="one",
        enable_shared_tf_data_service_between_parallel_trainers=True,
    )
    with pytest.raises(SettingsError, match="does not support round-robin"):
        InputReader(params)


def test_a_weight_under_a_misspelt_name_says_which_is_meant(file: str) -> None:
    params = DataConfig(input_path={"wiki": file, "books": file}, weights={"wikis": 1, "books": 1})
    with pytest.raises(SettingsError) as caught:
        InputReader(params)
    assert "'wikis' may mean 'wiki'" in caught.value.hint


def test_a_glob_without_a_match_is_told_at_construction(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="does not match any files"):
        InputReader(DataConfig(input_path=f"{tmp_path}/*.tfrecord"))


def test_a_file_that_is_not_there_is_told_at_construction(tmp_path: Any) -> None:
    with pytest.raises(MissingFiles, match="There is no file"):
        InputReader(DataConfig(input_path=f"{tmp_path}/a.tfrecord"))


def test_files_without_any_record_are_told_at_construction(tmp_path: Any) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").write_bytes(b"")
    with pytest.raises(SettingsError, match="All 2 files are empty"):
        InputReader(DataConfig(input_path=f"{tmp_path}/*"))


def test_file_types() -> None:
    assert dataset_fn_of("tfrecord") is None
    assert dataset_fn_of("tfrecord_compressed") is compressed_records
    with pytest.raises(ValueError, match="Unrecognized file_type: 'csv'"):
        dataset_fn_of("csv")


@pytest.mark.parametrize("name", ["dataset_fn", "combine_fn"])
def test_functions_that_have_no_place_in_a_global_order(name: str, file: str) -> None:
    params = DataConfig(input_path=file, global_shuffle=True, global_batch_size=1)
    with pytest.raises(SettingsError, match=f"a {name} has"):
        InputReader(params, **{name: compressed_records})
