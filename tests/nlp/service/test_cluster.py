"""A dispatcher and two workers: what is read in each mode, and what breaking and stopping cost.

The tests use one service one after the other; each leaves it whole.
"""

from __future__ import annotations

import dataclasses
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.nlp.config import DataConfig
from provender.nlp.reader import InputReader
from provender.nlp.service.addresses import local_addresses
from provender.records.tfrecord import frame_joined

tf = pytest.importorskip("tensorflow")
COUNT = 2000


@pytest.fixture(scope="module")
def service(cluster: Any, helpers: SimpleNamespace) -> Iterator[SimpleNamespace]:
    ports = {each: helpers.free_port() for each in ("5050", "5051", "5060", "5061")}
    dispatching, working = helpers.page_commands(ports)
    dispatcher = cluster.start(*dispatching)
    quick = ("--heartbeat=0.3", "--drain=2")
    address = f"--dispatcher=127.0.0.1:{ports['5050']}"
    workers = [cluster.start("worker", address, *quick), cluster.start(*working, *quick)]
    assert [each.told["role"] for each in workers] == ["worker", "worker"]
    helpers.until(lambda: dispatcher.health()["workers"] == 2)
    yield SimpleNamespace(dispatcher=dispatcher, workers=workers, address=dispatcher.address)


def distributed(address: str, policy: str, job: str | None = None, count: int = COUNT) -> Any:
    kind = tf.data.experimental.service
    return tf.data.Dataset.range(count).apply(
        kind.distribute(getattr(kind.ShardingPolicy, policy), address, job_name=job)
    )


class Reading:
    """Reads a dataset in a thread."""

    def __init__(self, dataset: Any) -> None:
        self.found: list[int] = []
        self.enough = False
        self.begun = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(dataset,), daemon=True)
        self._thread.start()

    def _read(self, dataset: Any) -> None:
        for each in dataset:
            self.found.append(int(each))
            if len(self.found) == 100:
                self.begun.set()
            if self.enough:
                break

    def ended(self, seconds: float = 90) -> Counter[int]:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"stopped after {len(self.found)}"
        return Counter(self.found)


def endless(address: str, **mode: Any) -> Any:
    kind = tf.data.experimental.service
    policy = kind.ShardingPolicy.OFF
    return tf.data.Dataset.range(COUNT).repeat().apply(kind.distribute(policy, address, **mode))


def test_each_example_once_or_once_a_worker(service: SimpleNamespace) -> None:
    dynamic = Counter(distributed(service.address, "DYNAMIC").as_numpy_iterator())
    assert dynamic == Counter(range(COUNT))
    off = Counter(distributed(service.address, "OFF").as_numpy_iterator())
    assert off == Counter(list(range(COUNT)) * 2)


def test_pages(service: SimpleNamespace) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    for server, own in ((service.dispatcher, "workers"), (service.workers[0], "tasks")):
        for path in ("/healthz", "/readyz"):
            assert server.get(path)[0] == 200
            assert server.health(path)["state"] == "serving"
        code, text = server.get("/metrics")
        families = {each.name: each for each in parser.text_string_to_metric_families(text)}
        assert code == 200
        names = {"up", own, "cpu_seconds", "resident_memory_bytes", "uptime_seconds"}
        assert {f"provender_data_service_{name}" for name in names} <= set(families)
        up = families["provender_data_service_up"].samples[0]
        assert (up.value, up.labels) == (1.0, {"role": server.told["role"]})
        assert server.get("/else")[0] == 404
    workers = families["provender_data_service_dispatcher_reachable"].samples[0]
    assert workers.value == 1.0


def test_nobody_outside_this_machine_is_served(service: SimpleNamespace) -> None:
    outside = [each for each in local_addresses() if not each.startswith("fe80")]
    if not outside:
        pytest.skip("this machine has a loopback address only")
    for server in (service.dispatcher, service.workers[0]):
        with (
            pytest.raises(ConnectionResetError),
            socket.create_connection((outside[0], server.port), timeout=5) as connection,
        ):
            connection.recv(1)


@dataclasses.dataclass
class InTurns(DataConfig):
    enable_round_robin_tf_data_service: bool = False


@pytest.fixture
def read(service: SimpleNamespace, tmp_path: Path) -> Callable[..., Any]:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame_joined([b"%d" % at for at in range(60)])[0])

    def make(context: Any, **options: Any) -> Any:
        params = InTurns(
            input_path=str(path),
            global_batch_size=4,
            enable_tf_data_service=True,
            tf_data_service_address=service.address,
            **options,
        )
        return InputReader(params).read(context)

    return make


def test_readers_of_one_name_share_a_job(read: Callable[..., Any]) -> None:
    datasets = [
        read(tf.distribute.InputContext(2, at, 2), tf_data_service_job_name="one")
        for at in range(2)
    ]
    iterators = [iter(each.unbatch()) for each in datasets]
    found = [int(next(each).numpy()) for each in iterators]
    found += [int(each.numpy()) for iterator in iterators for each in iterator]
    # Each of two workers reads everything once: "parallel_epochs".
    assert Counter(found) == Counter(list(range(60)) * 2)


def test_trainers_that_share_a_job_get_the_same_batches(read: Callable[..., Any]) -> None:
    context = tf.distribute.InputContext(1, 0, 1)
    options = {
        "is_training": True,
        "tf_data_service_job_name": "shared",
        "enable_shared_tf_data_service_between_parallel_trainers": True,
    }
    found = []
    for trainer in ("a", "b"):
        batches = read(context, trainer_id=trainer, **options).take(20)
        found.append({tuple(each.tolist()) for each in batches.as_numpy_iterator()})
    # Each is a random choice of 4 in 60: trainers with jobs of their own would have none in common.
    assert found[0] & found[1]


def test_consumers_take_turns(read: Callable[..., Any]) -> None:
    options = {"is_training": True, "tf_data_service_job_name": "turns"}
    batches = read(
        tf.distribute.InputContext(1, 0, 2), enable_round_robin_tf_data_service=True, **options
    )
    found = list(batches.take(30).as_numpy_iterator())
    assert [len(each) for each in found] == [2] * 30


@pytest.mark.slow
def test_a_worker_is_killed_midway(service: SimpleNamespace, helpers: SimpleNamespace) -> None:
    """DYNAMIC: none twice, lost is what it had in hand. OFF: none lost, some more often.

    Endless reading, shared by trainers or in turns, goes on without the worker.
    """
    dynamic = Reading(distributed(service.address, "DYNAMIC", "killed-dynamic"))
    off = Reading(distributed(service.address, "OFF", "killed-off", 5 * COUNT))
    trainer = tf.data.experimental.service.CrossTrainerCache(trainer_id="a")
    training = [
        Reading(endless(service.address, job_name="k1", cross_trainer_cache=trainer)),
        Reading(endless(service.address, job_name="k2", consumer_index=0, num_consumers=1)),
    ]
    for each in (dynamic, off, *training):
        assert each.begun.wait(60)
    supervised = service.workers[1]
    supervised.kill_child()
    before = [len(each.found) for each in training]
    for each, count in zip(training, before, strict=True):
        helpers.until(lambda each=each, count=count: len(each.found) > count + 2 * COUNT)
        each.enough = True
        each.ended()
    assert supervised.told["address"]
    found = dynamic.ended()
    assert max(found.values()) == 1
    assert COUNT - 200 < len(found) <= COUNT
    found = off.ended()
    assert len(found) == 5 * COUNT
    assert max(found.values()) <= 3
    assert "killed by signal 9" in supervised.log.read_text()
    again = Counter(distributed(service.address, "OFF").as_numpy_iterator())
    assert again == Counter(list(range(COUNT)) * 2)


@pytest.mark.slow
def test_the_dispatcher_is_killed_midway(
    service: SimpleNamespace, helpers: SimpleNamespace
) -> None:
    reading = Reading(distributed(service.address, "DYNAMIC", "dispatcher", 2 * COUNT))
    assert reading.begun.wait(60)
    service.dispatcher.kill()
    worker = service.workers[0]
    assert worker.get("/healthz")[0] == 200
    assert worker.get("/readyz")[0] == 503
    assert "no dispatcher answers" in worker.health("/readyz")["trouble"]
    service.dispatcher.start()
    assert reading.ended() == Counter(range(2 * COUNT))
    helpers.until(lambda: service.dispatcher.health()["workers"] == 2)
    assert worker.get("/readyz")[0] == 200


def test_stopping(service: SimpleNamespace, helpers: SimpleNamespace) -> None:
    """The last test: a worker waits for its tasks, everything ends with 0."""
    reading = iter(endless(service.address))
    next(reading)
    worker, supervised = service.workers
    helpers.until(lambda: worker.health()["tasks"] > 0)
    worker.process.send_signal(signal.SIGTERM)
    helpers.until(lambda: worker.health()["state"] == "stopping")
    assert worker.get("/healthz")[0] == 503
    next(reading)
    assert worker.process.wait(timeout=60) == 0
    assert service.dispatcher.stop() == 0
    # Also without a dispatcher, and while a reader waits.
    assert supervised.stop() == 0
    del reading
