"""One dataset by command line, Airflow, Prefect and Prefect on Dask: apart, together, at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest
import sqlalchemy as sa
from tests.orchestration.prefect.conftest import Place, ended, make_place, stop

import provender

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[3]
FLOW = ROOT / "flows" / "prepare_dataset.py"
PROGRAM = Path(__file__).with_name("airflow_program.py")
CLI = "from provender.cli import main; main()"

GATE = """
        import pathlib, time
        gate = pathlib.Path("GATE")
        gate.with_name("begun").touch()
        deadline = time.monotonic() + 600
        while not gate.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
"""


WAITS = {
    "airflow": "examples/train/part-0-of-1: waits for process",
    "prefect": "examples/train/part-0-of-1 waits: process",
}
"""What each says in its task's log."""


@pytest.fixture(scope="module")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of an Airflow of its own; its database is made by the first run."""
    return str(tmp_path_factory.mktemp("airflow") / "home")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


def with_dags(place: Place) -> Place:
    (place.root / "dags").mkdir()
    for path in (ROOT / "dags").glob("provender*.py"):
        (place.root / "dags" / path.name).write_text(path.read_text())
    return place


def airflow(place: Place, home: str) -> subprocess.Popen[str]:
    dags = place.root / "dags"
    return place.start(
        "", sys.executable, str(PROGRAM), str(dags / "provender.py"), "lines",
        AIRFLOW_HOME=home, AIRFLOW__CORE__DAGS_FOLDER=str(dags),
        AIRFLOW__CORE__LOAD_EXAMPLES="False", AIRFLOW__OPENLINEAGE__DISABLED="True",
        AIRFLOW__CORE__PLUGINS_FOLDER=f"{home}/plugins",
    )  # fmt: skip


def prefect(place: Place, server: str, runner: str = "threads:2") -> subprocess.Popen[str]:
    command = [sys.executable, str(FLOW), "lines", "--runner", runner]
    return place.start(server, *command, "--set", f"config_file={place.file}")


def command_line(place: Place, *command: str) -> subprocess.Popen[str]:
    return place.start("", sys.executable, "-c", CLI, *command)


def last_line(process: subprocess.Popen[str], seconds: float = 300) -> dict[str, Any]:
    """What the Airflow program has told; all else that it prints is Airflow's log."""
    out, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, (out + errors)[-4000:]
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert found["state"] == "success", found
    return found


def digests(place: Place) -> dict[str, str]:
    """File -> SHA-256 of all shards of the one version that the catalog knows."""
    with place.catalog() as catalog:
        [version] = catalog.versions("lines")
        return {each.name: each.sha256 for each in catalog.shards(version.id)}


def test_each_on_its_own_makes_the_same_shards(server, airflow_home, cluster, tmp_path) -> None:
    def place(name: str) -> Place:
        return with_dags(make_place(tmp_path / name))

    ways = {name: place(name) for name in ("command", "airflow", "threads", "dask")}
    ended(command_line(ways["command"], "build", "lines", "--json"))
    last_line(airflow(ways["airflow"], airflow_home))
    ended(prefect(ways["threads"], server))
    ended(prefect(ways["dask"], server, f"dask:{cluster.scheduler_address}"))
    made = {name: digests(each) for name, each in ways.items()}
    assert len(made["command"]) == 6
    assert all(each == made["command"] for each in made.values()), made
    for each in ways.values():
        assert each.shards() == ways["command"].shards()
        with each.catalog() as catalog:
            assert [run.outcome for run in catalog.runs()] == ["succeeded"]


def test_all_on_one_catalog_make_one_version(server, airflow_home, cluster, tmp_path) -> None:
    place = with_dags(make_place(tmp_path / "project"))
    ended(command_line(place, "build", "lines", "--json"))
    made = digests(place)
    dag_run = last_line(airflow(place, airflow_home))
    threads = ended(prefect(place, server))
    dask = ended(prefect(place, server, f"dask:{cluster.scheduler_address}"))
    assert (threads["state"], dask["state"]) == ("Cached", "Cached")
    stages = [each for doc in dag_run["storage"].values() for each in doc.get("stages", ())]
    assert {each["state"] for each in stages} == {"cached", "absent"}
    assert digests(place) == made

    runs = ended(command_line(place, "runs", "lines", "--json"))
    assert [run["outcome"] for run in runs] == ["cached", "cached", "cached", "succeeded"]
    of_dask, of_threads, of_airflow, of_command = (run["orchestrator"] for run in runs)
    assert of_command is None
    ids = {"dag_id": "provender_lines", "run_id": dag_run["run_id"]}
    assert of_airflow == {"name": "airflow", **ids}
    assert {of_threads["name"], of_dask["name"]} == {"prefect"}
    assert of_threads["flow_run_id"] != of_dask["flow_run_id"]
    assert [runs[1]["id"], runs[0]["id"]] == [
        each["result"]["run_id"] for each in (threads, dask)
    ]  # fmt: skip
    with provender.catalog(place.settings.catalog) as ask:
        told = [run.orchestrator for run in ask.runs("lines")]
    assert told == [run["orchestrator"] for run in runs]
    with place.catalog() as catalog:
        [version] = catalog.versions("lines")
        assert version.run_id == runs[3]["id"]
        assert {run.reused_version_id for run in catalog.runs("lines", limit=3)} == {version.id}


def in_one_piece(place: Place) -> Path:
    """One split, one part, one shard; its examples wait until a file is there."""
    gate = place.root / "gate"
    loop = "        for number in range(count):\n"
    place.edit(loop, GATE.lstrip("\n").replace("GATE", str(gate)) + loop)
    place.edit(', "test": self._generate_examples(path, 60)', "")
    toml = Path(place.file)
    toml.write_text(
        toml.read_text().replace("workers = 2", "workers = 1").replace("shards = 3", "shards = 1")
    )
    return gate


def read(pipe: IO[str], lines: list[str]) -> None:
    with pipe:
        lines.extend(pipe)


class Heard:
    """All that a process prints, read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.out, self.errors = process, [], []
        self._threads = [
            threading.Thread(target=read, args=each, daemon=True)
            for each in ((process.stdout, self.out), (process.stderr, self.errors))
        ]
        for each in self._threads:
            each.start()

    @property
    def text(self) -> str:
        return "".join([*self.out, *self.errors])

    def end(self, seconds: float = 300) -> None:
        self.process.wait(seconds)
        for each in self._threads:
            each.join(30)
        assert self.process.returncode == 0, self.text[-4000:]

    def wait_for(self, text: str, seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < deadline and self.process.poll() is None, self.text[-4000:]
            time.sleep(0.05)


def frozen(process: subprocess.Popen[str], catalog: str) -> None:
    """Stops a process and its children for a while, at a moment at which it locks nothing."""
    engine = sa.create_engine(catalog, connect_args={"timeout": 0.2})
    for _ in range(100):
        os.killpg(process.pid, signal.SIGSTOP)
        with suppress(sa.exc.OperationalError), engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.exec_driver_sql("ROLLBACK")
            engine.dispose()
            return
        os.killpg(process.pid, signal.SIGCONT)
        time.sleep(0.05)
    raise AssertionError("it locks the catalog all the time")


def test_of_airflow_and_prefect_at_once_one_builds_and_the_other_reuses(
    server, airflow_home, tmp_path
) -> None:
    place = with_dags(make_place(tmp_path / "project"))
    gate = in_one_piece(place)
    racers = {"airflow": airflow(place, airflow_home), "prefect": prefect(place, server)}
    try:
        heard = {name: Heard(each) for name, each in racers.items()}
        builder, other = who_came_first(place, heard)
        heard[other].wait_for(WAITS[other])
        # All is left to the builder; else the one that wakes up could take its next stage.
        frozen(racers[other], place.settings.catalog)
        gate.touch()
        heard[builder].end()
        os.killpg(racers[other].pid, signal.SIGCONT)
        heard[other].end()
    finally:
        for each in racers.values():
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGCONT)
            stop(each)
    check_race(place, heard, builder, other)


def who_came_first(place: Place, heard: dict[str, Heard]) -> tuple[str, str]:
    """The orchestrator whose process generates, as the catalog tells, and the other one."""
    deadline = time.monotonic() + 300
    while not (place.root / "begun").exists():
        assert time.monotonic() < deadline
        assert all(each.process.poll() is None for each in heard.values()), [
            each.text[-3000:] for each in heard.values()
        ]
        time.sleep(0.1)
    with place.catalog() as catalog:
        running = [e for e in catalog.stages(state="running") if e.key.startswith("examples")]
        [run_id] = {each.run_id for each in running}
        run = catalog.run(run_id)
    assert run.orchestrator is not None
    first = str(run.orchestrator["name"])
    return first, "prefect" if first == "airflow" else "airflow"


def check_race(place: Place, heard: dict[str, Heard], builder: str, other: str) -> None:
    dag_run = json.loads(heard["airflow"].out[-1])
    flow_run = json.loads("".join(heard["prefect"].out))
    with place.catalog() as catalog:
        runs = {str(run.orchestrator["name"]): run for run in catalog.runs() if run.orchestrator}
        assert len(catalog.runs()) == 2
        assert (runs[builder].outcome, runs[other].outcome) == ("succeeded", "reused")
        assert runs["airflow"].orchestrator["run_id"] == dag_run["run_id"]
        assert runs["prefect"].id == flow_run["result"]["run_id"]
        [version] = catalog.versions("lines")
        assert version.run_id == runs[builder].id
        assert runs[other].reused_version_id == version.id
        ran = catalog.stages(state="succeeded", limit=None)
        assert {each.run_id for each in ran} == {runs[builder].id} and len(place.shards()) == 1
        assert len({each.key for each in ran}) == len(ran), "no stage ran twice"
    # Each says in its own pages what it did.
    built = {"airflow": bool(dag_run["events"]), "prefect": flow_run["result"]["changed"]}
    assert built == {"airflow": True, "prefect": builder == "prefect"}
    encoded = [doc for task, doc in dag_run["storage"].items() if task.startswith("encode")]
    if builder == "prefect":
        [stage] = encoded[0]["stages"]
        assert stage["state"] == "reused" and "process" in stage["waited_for"]
    else:
        assert flow_run["state"] == "Cached" and "meanwhile" in flow_run["message"]
        assert "reused: waited for" in heard["prefect"].text
