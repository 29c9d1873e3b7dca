"""A real Prefect server on loopback, and projects for flows to build."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Read when Prefect is imported. Its home must not be that of whoever runs the tests.
_HOME = tempfile.mkdtemp(prefix="provender-prefect-")
os.environ["PREFECT_HOME"] = _HOME
os.environ["PREFECT_LOCAL_STORAGE_PATH"] = f"{_HOME}/storage"
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"
# Flows that are told nothing else do their work in this process, which has TensorFlow already.
os.environ["PROVENDER_TASK_RUNNER"] = "threads:1"

import pytest  # noqa: E402

from provender.catalog import Catalog  # noqa: E402
from provender.settings import Settings, load_settings  # noqa: E402

BUILDER = '''
"""Two splits of numbered lines."""
import tensorflow_datasets as tfds


class Lines(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        path = dl_manager.download("SOURCE")
        return {"train": self._generate_examples(path, 300), "test": self._generate_examples(path, 60)}

    def _generate_examples(self, path, count):
        with open(path, encoding="utf-8") as file:
            word = file.read().strip()
        for number in range(count):
            yield number, {"text": f"{word} {number}"}
'''


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes], seconds: float = 180) -> None:
    """Waits until a server answers."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    raise AssertionError(f"{url} does not answer")


def stop(process: subprocess.Popen[Any]) -> None:
    """Ends a process and all that it began."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(15)
            break
        except subprocess.TimeoutExpired:
            continue


def said_all() -> None:
    """Waits until Prefect has sent what it logs: without a server it would try for a minute."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=30)
    EventsWorker.drain_all(timeout=30)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prefect server's API."""
    folder, port = tmp_path_factory.mktemp("prefect-server"), free_port()
    environ = {**os.environ, "PREFECT_HOME": str(folder)}
    command = [sys.executable, "-m", "prefect", "server", "start"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=environ, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/api/health", process)
        yield f"http://127.0.0.1:{port}/api"
        said_all()
    finally:
        stop(process)


@contextmanager
def talking_to(server: str) -> Iterator[str]:
    """Lets flows of this process talk to a server."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: server}):
        yield server


@pytest.fixture
def api(server: str) -> Iterator[str]:
    """The server, as the one that flows of this process talk to."""
    with talking_to(server):
        yield server


@dataclass
class Place:
    """A project of its own: provender.toml, one builder, a store."""

    root: Path

    @property
    def file(self) -> str:
        return str(self.root / "provender.toml")

    @property
    def settings(self) -> Settings:
        environ = {"HOME": str(self.root / "home")}
        return load_settings(file=self.file, environ=environ, only=())

    def catalog(self) -> Catalog:
        return Catalog.open(self.settings.catalog)

    def start(self, server: str, *command: str, **environ: str) -> subprocess.Popen[str]:
        """Starts a program in the project's folder, as somebody would from a terminal."""
        return subprocess.Popen(
            command, cwd=self.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={
                **os.environ, "HOME": str(self.root / "home"), "PREFECT_API_URL": server,
                "PYTHONPATH": os.getcwd(),
                "PYTHONUNBUFFERED": "1", **environ,
            },
            start_new_session=True,
        )  # fmt: skip

    def shards(self, name: str = "lines/1.0.0") -> dict[str, bytes]:
        folder = self.root / "store" / "datasets" / name
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tfrecord*"))}

    def edit(self, old: str, new: str) -> None:
        path = self.root / "lines.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


def ended(process: subprocess.Popen[str], seconds: float = 240) -> dict[str, Any]:
    """What a program that ends well has printed."""
    out, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, errors[-4000:]
    found: dict[str, Any] = json.loads(out)
    return found


def prepare(
    place: Place, dataset: str = "lines", runner: str | None = None, **parameters: Any
) -> Any:
    """Runs the flow in this process; gives its final state."""
    from provender.orchestration.prefect import prepare_dataset, runner_of

    flow = prepare_dataset.with_options(task_runner=runner_of(runner))
    return flow(dataset, config_file=place.file, return_state=True, **parameters)


def task_runs(state: Any) -> list[Any]:
    """The task runs of a flow run, as the server tells them: it hears of their ends a little later."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    async def ask() -> list[Any]:
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
        async with get_client() as client:
            for _ in range(100):
                found = await client.read_task_runs(flow_run_filter=wanted)
                if all(each.state.is_final() for each in found):
                    return found
                await asyncio.sleep(0.3)
        raise AssertionError([each.state for each in found])

    return asyncio.run(ask())


def artifacts(key: str) -> list[Any]:
    """All artifacts of a key, newest last."""
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    async def ask() -> list[Any]:
        async with get_client() as client:
            found = await client.read_artifacts(
                artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key]))
            )
            return sorted(found, key=lambda each: each.created)

    return asyncio.run(ask())


class Listener(logging.Handler):
    """Hears what flows and tasks of this process log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.answers: list[tuple[str, Callable[[], None]]] = []

    def once(self, text: str, act: Callable[[], None]) -> None:
        """Does something when a pattern is logged for the first time after those given before."""
        self.answers.append((text, act))

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self.lines.append(line)
        if self.answers and re.search(self.answers[0][0], line):
            self.answers.pop(0)[1]()


@pytest.fixture
def log() -> Iterator[Listener]:
    """What is logged while a test runs."""
    from prefect.logging.configuration import setup_logging

    # It would take other handlers away at the first flow run.
    setup_logging()
    listener = Listener()
    loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
    for each in loggers:
        each.addHandler(listener)
    yield listener
    for each in loggers:
        each.removeHandler(listener)


def make_place(root: Path, extra: str = "") -> Place:
    """Writes a project into a folder."""
    root.mkdir(parents=True, exist_ok=True)
    source = root / "source.txt"
    source.write_text("line\n")
    (root / "lines.py").write_text(BUILDER.replace("SOURCE", source.as_uri()))
    (root / "provender.toml").write_text(
        f'store = "store"\nhome = "home/provender"\nworkers = 2\n\n'
        f'[datasets.lines]\nbuilder = "lines.py:Lines"\nnum_shards = 3\n{extra}'
    )
    return Place(root)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A project with one dataset, ``lines``, of three shards a split."""
    return make_place(tmp_path / "project")
