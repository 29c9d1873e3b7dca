"""`make airflow`: what it starts, and that Ctrl-C leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from examples.airflow import local_airflow
from examples.airflow.local_airflow import LocalAirflow, free_port

ROOT = Path(__file__).parents[3]


def test_the_makefile_starts_it() -> None:
    done = subprocess.run(["make", "-n", "airflow"], cwd=ROOT, capture_output=True, text=True)
    assert "examples/airflow/local_airflow.py" in done.stdout and done.returncode == 0


def test_settings_of_another_airflow_and_secrets_stay_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    airflow = LocalAirflow(tmp_path, 8080)
    first, again = airflow.environment(), LocalAirflow(tmp_path, 8080).environment()
    assert "AIRFLOW__CORE__EXECUTOR" not in first
    assert first == again, "those who are signed in stay so when it is started again"
    password = airflow.make_password()
    assert password and len(password) >= 16 and airflow.make_password() is None
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_port_that_is_taken_is_left_alone() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) != port


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    airflow = LocalAirflow(tmp_path, free_port(0))
    airflow.home.mkdir()
    airflow.start("nonsense", ["no-such-command"])
    with pytest.raises(
        local_airflow.ServerEnded, match=r"(?s)nonsense ended with code.*invalid choice"
    ):
        airflow.wait("metadatabase")
    airflow.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
def test_it_serves_and_ends_with_all_its_children(tmp_path: Path, number: int) -> None:
    with _started(tmp_path) as process:
        found = _address(process)
        airflow = LocalAirflow(tmp_path, int(found[1].rpartition(":")[2]))
        assert airflow.passwords.read_text() == json.dumps({"admin": found[2]})
        dags = airflow.ask("GET", "/api/v2/dags", token=airflow.sign_in())["dags"]
        assert {each["dag_id"] for each in dags} >= {"provender_digits", "provender_xsum"}
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) > 4
        listening = {
            each.laddr.ip
            for child in children
            for each in child.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1"}
        process.send_signal(number)
        assert process.wait(timeout=120) == 0
        assert [each for each in children if each.is_running() and each.status() != "zombie"] == []


@contextmanager
def _started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, local_airflow.__file__, str(folder)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "AIRFLOW_PORT": "0"},
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.terminate()


def _address(process: subprocess.Popen[str]) -> re.Match[str]:
    """Address and password, as they are said."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "Ctrl-C" in line:
            break
    found = re.search(r"(http://127\.0\.0\.1:\d+)\n\s+user admin, password (\S+)", said)
    assert found, said
    return found
