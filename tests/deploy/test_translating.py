"""What Compose prints is read in the form of its first version, which Debian has, and of its second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.deploy.composition import seconds
from tests.deploy.translating import LISTENS, LOOPBACK, Machine, Mount, mounted, published


@pytest.mark.parametrize(
    "volume",
    [
        "/here/dags:/opt/provender/dags:ro",
        {
            "type": "bind",
            "source": "/here/dags",
            "target": "/opt/provender/dags",
            "read_only": True,
        },
    ],
)
def test_mounts(volume: Any) -> None:
    assert mounted(volume) == Mount("/here/dags", "/opt/provender/dags", named=False)


@pytest.mark.parametrize(
    "volume", ["work:/work:rw", {"type": "volume", "source": "work", "target": "/work"}]
)
def test_volumes(volume: Any) -> None:
    assert mounted(volume) == Mount("work", "/work", named=True)


@pytest.mark.parametrize(
    "port",
    [
        "127.0.0.1:80:8080/tcp",
        {"mode": "ingress", "host_ip": "127.0.0.1", "target": 8080, "published": "80"},
    ],
)
def test_ports(port: Any) -> None:
    assert published(port) == (LOOPBACK, 80, 8080)


def test_durations() -> None:
    assert [seconds(each, 3) for each in ("29s", "2m", "1m0s", "1h0m2s", None)] == [
        29,
        120,
        60,
        3602,
        3,
    ]


def test_only_what_is_known_is_translated(tmp_path: Path) -> None:
    """An error of the file stays one."""
    machine = Machine(tmp_path, {name: 40000 + number for number, name in enumerate(LISTENS)})
    machine.services = {"gcs": {"image": "x:1", "volumes": ["gcs:/storage:rw"]}}
    (tmp_path / "checkout" / "deploy").mkdir(parents=True)
    docker = "COPY pyproject.toml ./\nCOPY --from=build /opt/venv /opt/venv\nCOPY dags /opt/dags\n"
    (tmp_path / "checkout" / "deploy" / "Dockerfile").write_text(docker)
    root = tmp_path / "root"
    for text, found in {
        "redis://:secret@redis:6379/0": "redis://:secret@127.0.0.1:40001/0",
        "http://airflow-api:8080/execution/": "http://127.0.0.1:40003/execution/",
        "http://airflow-api:8081/": "http://airflow-api:8081/",
        "http://gcs:44430": "http://gcs:44430",
        "/opt/dags/one.py": f"{root}/opt/dags/one.py",
        "-root=/storage": f"-root={root}/storage",
        "/opt/dagster": "/opt/dagster",
        "/opt/venv/bin": "/opt/venv/bin",
        "http://gcs:4443/storage/v1": "http://127.0.0.1:40002/storage/v1",
    }.items():
        assert machine.text(text) == found
    words = ["-port=4443", "http://127.0.0.1:4443/storage", "0.0.0.0", "44431"]
    port = machine.ports["gcs"]
    told = [f"-port={port}", f"http://127.0.0.1:{port}/storage", LOOPBACK, "44431"]
    assert machine.words("gcs", words) == told
    assert machine.words("airflow-scheduler", words) == words
