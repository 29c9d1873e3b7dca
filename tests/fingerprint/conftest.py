"""Servers that run case programs under several hash seeds and Python versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PLATFORM = HERE.parents[1] / "platform"


class Server:
    """One process that runs programs; see case_server.py."""

    def __init__(self, python: str, seed: int, home: Path, preload: tuple[str, ...] = ()) -> None:
        env = {
            **os.environ,
            "PYTHONHASHSEED": str(seed),
            "PYTHONPATH": str(PLATFORM),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "",
            "HOME": str(home),
            "AIRFLOW_HOME": str(home / "airflow"),
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_LOGGING_LEVEL": "ERROR",
            "DO_NOT_TRACK": "1",
        }
        with (home / f"server-{seed}.err").open("a") as log:
            self.process = subprocess.Popen(
                [python, str(HERE / "case_server.py"), *preload],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def run(self, path: Path, **options: Any) -> dict[str, str]:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"path": str(path), "fork": True, **options}) + "\n")
        stdin.flush()
        return json.loads(stdout.readline() or '{"error": "the server died"}')

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def lay(variant: dict[str, Any], root: Path) -> Path:
    """Writes one variant of a case below ``root``, which is emptied first; its main script."""
    shutil.rmtree(root, ignore_errors=True)
    folder = root / variant["sub"]
    for name, text in {**variant["files"], variant["name"]: variant["main"]}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / variant["name"]


def interpreter(version: str) -> str | None:
    """A Python of that minor version on this machine, if it starts."""
    candidates = [shutil.which(f"python{version}")]
    candidates += [str(p) for p in Path.home().glob(f".pyenv/versions/{version}*/bin/python")]
    for candidate in candidates:
        if candidate is None:
            continue
        check = "import sys; assert sys.version_info[:2] == " + str(
            tuple(map(int, version.split(".")))
        )
        if (
            subprocess.run([candidate, "-c", check], capture_output=True, check=False).returncode
            == 0
        ):
            return candidate
    return None


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Makes servers, one for each (Python, seed, preloaded modules), kept for the session."""
    home = tmp_path_factory.mktemp("home")
    made: dict[Any, Server] = {}

    def get(seed: int, python: str = sys.executable, preload: tuple[str, ...] = ()) -> Server:
        key = (seed, python, preload)
        if key not in made:
            made[key] = Server(python, seed, home, preload)
        return made[key]

    yield get
    for each in made.values():
        each.close()
