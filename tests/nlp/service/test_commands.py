"""``provender data-service`` before TensorFlow is even imported: its errors and its help."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

START = """
import sys
from provender.cli.app import run
code = run(sys.argv[1:])
assert "tensorflow" not in sys.modules, "TensorFlow was imported"
sys.exit(code)
"""


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START, "data-service", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fails(*arguments: str) -> dict[str, str]:
    process = started(*arguments, "--json")
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 2, errors
    found: dict[str, str] = json.loads(out)["error"]
    return found


@pytest.mark.parametrize(
    "arguments",
    [("dispatcher",), ("worker", "--dispatcher=127.0.0.1:1"), ("dispatcher", "--restart")],
)
def test_a_port_that_is_taken(arguments: tuple[str, ...]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        error = fails(*arguments, f"--port={port}")
    assert error["message"] == f"Port {port} cannot be listened on: Address already in use."
    assert "another port" in error["hint"]


def test_no_dispatcher() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        error = fails("worker", f"--dispatcher=grpc://127.0.0.1:{port}", "--wait=0.2")
    assert error["message"] == f"No dispatcher answers at 127.0.0.1:{port} after 0.2 s."
    assert f"provender data-service dispatcher --port {port}" in error["hint"]


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:port", ":5050"])
def test_what_is_no_address(address: str) -> None:
    error = fails("worker", f"--dispatcher={address}")
    assert "HOST:PORT" in error["message"]


def test_a_work_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = fails("dispatcher", "--port=0", f"--work-dir={tmp_path / 'file' / 'journal'}")
    assert error["where"] == "--work-dir"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_waits_for_its_dispatcher_can_be_stopped(number: int) -> None:
    process = started("worker", "--dispatcher=127.0.0.1:1", "--wait=60")
    status = Path(f"/proc/{process.pid}/status")
    wanted = 1 << (signal.SIGTERM - 1)
    # Until it has its signal handler it would just die.
    for _ in range(600):
        caught = next(x for x in status.read_text().splitlines() if x.startswith("SigCgt"))
        if int(caught.split()[1], 16) & wanted:
            break
        time.sleep(0.05)
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == 0
