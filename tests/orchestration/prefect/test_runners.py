"""Where tasks run: processes, a Dask cluster of which a worker is killed, two runs at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.orchestration.prefect.conftest import Place, ended, make_place

from provender import build
from provender.errors import SettingsError

FLOW = Path(__file__).parents[3] / "flows" / "prepare_dataset.py"

SLOW = """
        for number in range(count):
            if number % 60 == 0:
                import os, pathlib, time
                pathlib.Path("MARKS", str(os.getpid())).touch()
                time.sleep(0.7)
"""


def slow(place: Place) -> Path:
    """Makes the builder slow, and lets it leave the id of each process that it works in."""
    marks = place.root / "marks"
    marks.mkdir()
    place.edit(
        "        for number in range(count):\n", SLOW.lstrip("\n").replace("MARKS", str(marks))
    )
    return marks


def start(server: str, place: Place, runner: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(FLOW), "lines", "--runner", runner]
    return place.start(server, *command, "--set", f"config_file={place.file}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The shards that a build in one process gives."""
    place = make_place(tmp_path_factory.mktemp("expected"))
    build("lines", settings=place.settings)
    return place.shards()


@pytest.mark.slow
def test_worker_processes_give_the_same_bytes(server, place, expected) -> None:
    done = ended(start(server, place, "processes:2"))
    assert done["state"] == "Completed" and done["result"]["changed"]
    assert place.shards() == expected


@pytest.mark.slow
def test_a_dask_worker_killed_in_the_middle_changes_nothing(
    server, place, expected, cluster
) -> None:
    marks = slow(place)
    process = start(server, place, f"dask:{cluster.scheduler_address}")
    workers = {each.pid for each in cluster.workers.values()}
    deadline = time.monotonic() + 150
    while not (at_work := workers & {int(each.name) for each in marks.iterdir()}):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    os.kill(at_work.pop(), signal.SIGKILL)
    done = ended(process)
    assert done["state"] == "Completed" and place.shards() == expected
    with place.catalog() as catalog:
        [run] = catalog.runs()
        assert run.outcome == "succeeded" and run.orchestrator["name"] == "prefect"


@pytest.mark.slow
def test_of_two_runs_at_once_one_builds_and_the_other_reuses(server, place, expected) -> None:
    slow(place)
    first = start(server, place, "threads:2")
    second = start(server, place, "threads:2")
    ends: dict[int, dict[str, Any]] = {}

    def wait(number: int, process: subprocess.Popen[str]) -> None:
        ends[number] = ended(process)

    threads = [threading.Thread(target=wait, args=each) for each in enumerate([first, second])]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(ends) == 2 and place.shards() == expected
    with place.catalog() as catalog:
        runs = catalog.runs()
        assert len(runs) == 2 and len({run.orchestrator["flow_run_id"] for run in runs}) == 2
        assert all(run.outcome in ("succeeded", "reused", "cached") for run in runs)
        ran = [each.key for each in catalog.stages(state="succeeded", limit=None)]
        assert len(ran) == len(set(ran)), "no stage ran twice"
    assert sum(end["result"]["changed"] for end in ends.values()) == 1


@pytest.mark.parametrize("text", ["thread", "threads:0", "threads:x", "dask", "dask:", "ray:4"])
def test_a_runner_that_does_not_exist_is_named(text) -> None:
    from provender.orchestration.prefect import runner_of

    with pytest.raises(SettingsError, match="names no task runner") as caught:
        runner_of(text)
    assert "dask:tcp://" in str(caught.value)


def test_the_environment_names_the_runner(monkeypatch) -> None:
    from provender.orchestration.prefect import runner_of
    from provender.orchestration.prefect.runners import width_of

    monkeypatch.setenv("PROVENDER_TASK_RUNNER", "processes:3")
    assert runner_of()._max_workers == 3 and width_of(runner_of()) == 1
    monkeypatch.setenv("PROVENDER_TASK_RUNNER", "threads:1")
    assert width_of(runner_of()) == 1
