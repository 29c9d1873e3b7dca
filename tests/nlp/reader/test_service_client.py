"""The client's side of the tf.data service, with a real dispatcher and real workers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.service import DataService


@dataclasses.dataclass
class RoundRobin(DataConfig):
    enable_round_robin_tf_data_service: bool = True


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    import tensorflow as tf

    api = tf.data.experimental.service
    dispatcher = api.DispatchServer(api.DispatcherConfig(port=0))
    address = dispatcher.target.partition("://")[2]
    worker = api.WorkerServer(api.WorkerConfig(dispatcher_address=address))
    yield dispatcher.target
    worker._stop()
    dispatcher._stop()


@pytest.fixture(scope="module")
def files(data: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("service")
    data.write_numbers(folder, [6, 6])
    return f"{folder}/*"


def reader(
    data: Any, files: str, service: str, kind: type[DataConfig] = DataConfig, **options: Any
) -> InputReader:
    params = kind(
        input_path=files, global_batch_size=2, drop_remainder=False, enable_tf_data_service=True,
        tf_data_service_address=service, **options,
    )  # fmt: skip
    return InputReader(params, features=data.features())


def test_a_worker_reads_everything_whatever_the_pipelines_share(
    data: SimpleNamespace, files: str, service: str
) -> None:
    """Sharing out is the service's: the pipeline itself is not cut in two."""
    made = reader(data, files, service, tf_data_service_job_name="plain")
    both = [data.numbers(made.read(data.context(0, 2, 2)))]
    assert sorted(both[0]) == list(range(12))


def test_without_a_context_or_address_the_pipeline_runs_here(
    data: SimpleNamespace, files: str
) -> None:
    made = reader(data, files, "grpc://127.0.0.1:1")
    assert sorted(data.numbers(made.read())) == list(range(12))
    assert DataService.of(DataConfig()).apply("as it is", data.context(0, 1)) == "as it is"


def test_the_consumers_of_a_step_get_neighbours(
    data: SimpleNamespace, files: str, service: str
) -> None:
    made = reader(
        data, files, service, RoundRobin, is_training=True, seed=1, shuffle_buffer_size=1,
        tf_data_service_job_name="rounds",
    )  # fmt: skip
    # Both replicas belong to one pipeline, and its elements come in turns.
    found = data.numbers(made.read(data.context(0, 1, 2)), 12)
    assert set(found) == set(range(12))
    # Two files of 6 are read record by record in turns, so neighbours in the stream are 6 apart.
    steps = list(zip(found[::2], found[1::2], strict=True))
    assert [abs(one - other) for one, other in steps] == [6] * 6


def test_trainers_that_share_a_job_each_read_all_of_it(
    data: SimpleNamespace, files: str, service: str
) -> None:
    found = []
    for trainer in ("one", "two"):
        made = reader(
            data, files, service, is_training=True, trainer_id=trainer, seed=1,
            enable_shared_tf_data_service_between_parallel_trainers=True,
            tf_data_service_job_name="shared",
        )  # fmt: skip
        found.append(data.numbers(made.read(data.context(0, 1)), 6))
    assert found[0] == found[1]


def test_examples_may_come_from_the_service_and_be_batched_here(
    data: SimpleNamespace, files: str, service: str
) -> None:
    made = reader(
        data, files, service, is_training=True, trainer_id="three",
        enable_shared_tf_data_service_between_parallel_trainers=True,
        apply_tf_data_service_before_batching=True, tf_data_service_job_name="before",
    )  # fmt: skip
    [batch] = made.read(data.context(0, 1)).take(1)
    assert batch["ids"].shape.as_list() == [2, 4]


@pytest.mark.parametrize("seed", [None, 3])
def test_workers_read_in_orders_of_their_own(
    data: SimpleNamespace, files: str, seed: int | None
) -> None:
    """Each worker makes an iterator of the same pipeline, and must not give the same again."""
    made = reader(data, files, "grpc://127.0.0.1:1", is_training=True, seed=seed)
    pipeline = made._sources[""].read(data.context(0, 1)).take(12)
    orders = [[each.numpy() for each in pipeline] for _ in range(2)]
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def name(**options: Any) -> str:
    params = DataConfig(
        global_batch_size=8, enable_tf_data_service=True, tf_data_service_address="grpc://x:1",
        tf_data_service_job_name="bert", **options,
    )  # fmt: skip
    found = DataService.of(params).job_name
    assert found is not None
    return found


def test_the_name_of_a_job() -> None:
    assert re.fullmatch(r"bert_bs8_\d+", name())
    assert name() == name(), "one number a process"
    assert name(tf_data_service_run=7) == "bert_bs8_7"
    shared = {"enable_shared_tf_data_service_between_parallel_trainers": True, "trainer_id": "a"}
    assert re.fullmatch(r"bert_\d+", name(**shared))
    assert name(tf_data_service_run=7, **shared) == "bert_7"


def test_a_configured_run_is_what_several_processes_agree_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}}')
    shared = {"enable_shared_tf_data_service_between_parallel_trainers": True, "trainer_id": "a"}
    with pytest.raises(ValueError, match="have not agreed"):
        name(**shared)
    assert name(tf_data_service_run=3, **shared) == "bert_3"
