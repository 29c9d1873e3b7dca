"""A real tf.data service: dispatcher and workers as processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "data-service.md"
START = "from provender.cli import main; main()"


class Server:
    """A started ``provender data-service`` command."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.arguments = arguments
        self.log = home / f"{arguments[0]}-{time.monotonic_ns()}.log"
        self._home = home
        self._told: dict[str, Any] | None = None
        self.process: Any = None
        self.start()

    def start(self) -> None:
        self._told = None
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        environment = {**os.environ, "HOME": str(self._home), "TF_CPP_MIN_LOG_LEVEL": "1"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, "data-service", *self.arguments, "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=self._home,
            )

    @property
    def told(self) -> dict[str, Any]:
        """What it printed once it served."""
        if self._told is None:
            text = ""
            for line in self.process.stdout:
                text += line
                if line.startswith("}"):
                    break
            assert text, self.log.read_text()
            self._told = json.loads(text)
        return self._told

    @property
    def address(self) -> str:
        return str(self.told["address"])

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a page."""
        try:
            with urllib.request.urlopen(self.told["http"] + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def health(self, path: str = "/healthz") -> dict[str, Any]:
        return json.loads(self.get(path)[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def kill_child(self) -> None:
        """Kills what the command watches over."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self._told = None
        os.kill(int(children[0]), signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def close(self) -> None:
        if self.process.poll() is None:
            # What is watched over would outlive its killed watcher.
            self.process.terminate() if "--restart" in self.arguments else self.process.kill()
        self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Cluster:
    """Starts servers and ends them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.servers: list[Server] = []

    def start(self, *arguments: str) -> Server:
        self.servers.append(Server(self.home, *arguments))
        return self.servers[-1]

    def close(self) -> None:
        for each in self.servers:
            each.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def page_commands(ports: dict[str, int]) -> list[list[str]]:
    """The commands that the page shows first, with other ports."""
    block = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.S | re.M)[0]
    for shown, port in ports.items():
        assert shown in block
        block = block.replace(shown, str(port))
    return [line.removeprefix("provender data-service ").split() for line in block.splitlines()]


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def helpers() -> SimpleNamespace:
    """Functions of this module, which tests cannot import."""
    return SimpleNamespace(free_port=free_port, until=until, page_commands=page_commands)
