"""A real Prefect server on loopback, and projects for flows to build."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Read when Prefect is imported. Its home must not be that of whoever runs the tests.
_HOME = tempfile.mkdtemp(prefix="provender-prefect-")
os.environ["PREFECT_HOME"] = _HOME
os.environ["PREFECT_LOCAL_STORAGE_PATH"] = f"{_HOME}/storage"
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"

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
    finally:
        stop(process)


@pytest.fixture
def api(server: str) -> Iterator[str]:
    """The server, as the one that flows of this process talk to."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: server}):
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
        return load_settings(file=self.file, environ={"HOME": str(self.root / "home")})

    def catalog(self) -> Catalog:
        return Catalog.open(self.settings.catalog)

    def shards(self, name: str = "lines/1.0.0") -> dict[str, bytes]:
        folder = self.root / "store" / "datasets" / name
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tfrecord*"))}

    def edit(self, old: str, new: str) -> None:
        path = self.root / "lines.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


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
