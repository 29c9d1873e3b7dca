"""What a server of the tf.data service tells over HTTP: whether it is well, and its numbers.

``/healthz`` answers 200 while the server serves, and 503 while it stops. ``/readyz`` answers 503
also while it can do nothing: a worker without its dispatcher. ``/metrics`` is the Prometheus text
format, version 0.0.4.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from provender.errors import SettingsError
from provender.nlp.service.addresses import joined

_PREFIX = "provender_data_service"
_HELP = {
    "up": "1 while the server serves, 0 while it stops.",
    "start_time_seconds": "When the server started, Unix time.",
    "uptime_seconds": "Seconds since then.",
    "workers": "Workers that have registered, those that broke since included.",
    "tasks": "Tasks that the worker has.",
    "dispatcher_reachable": "1 if the dispatcher accepts connections.",
    "cpu_seconds_total": "CPU time of the process.",
    "resident_memory_bytes": "Memory of the process.",
}


class Status:
    """What is told of one server.

    Args:
        role: ``dispatcher`` or ``worker``.
        address: of the server.
        numbers: gives the server's own numbers by name.
        trouble: gives what keeps the server from being of use; None where nothing does.
    """

    def __init__(
        self,
        role: str,
        address: str,
        numbers: Callable[[], Mapping[str, float]],
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.role = role
        self.address = address
        self.stopping = threading.Event()
        self._numbers = numbers
        self._trouble = trouble
        self._started = time.time()

    def health(self, *, ready: bool) -> tuple[int, dict[str, Any]]:
        """HTTP status and document of ``/healthz``, or of ``/readyz``."""
        state = "stopping" if self.stopping.is_set() else "serving"
        trouble = self._trouble()
        well = state == "serving" and not (ready and trouble)
        document: dict[str, Any] = {"role": self.role, "address": self.address, "state": state}
        document |= dict(self._numbers())
        return (200 if well else 503), document | ({"trouble": trouble} if trouble else {})

    def metrics(self) -> str:
        """The text of ``/metrics``."""
        values = {
            "up": float(not self.stopping.is_set()),
            "start_time_seconds": self._started,
            "uptime_seconds": time.time() - self._started,
            "cpu_seconds_total": time.process_time(),
            "resident_memory_bytes": _resident(),
            **self._numbers(),
        }
        lines = []
        for name, value in values.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            full = f"{_PREFIX}_{name}"
            lines += [
                f"# HELP {full} {_HELP[name]}",
                f"# TYPE {full} {kind}",
                f'{full}{{role="{self.role}"}} {value!r}',
            ]
        return "\n".join(lines) + "\n"


def _resident() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return float("nan")
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


class StatusServer:
    """Serves a `Status` over HTTP in threads of its own.

    Args:
        status: what is told.
        host: address to listen on.
        port: port to listen on; 0 takes any free one.

    Raises:
        SettingsError: the port is taken.
    """

    def __init__(self, status: Status, host: str, port: int) -> None:
        class Handler(_Handler):
            told = status

        kind = _Server6 if ":" in host else _Server
        try:
            self._server = kind((host.strip("[]"), port), Handler)
        except OSError as error:
            raise SettingsError(
                f"The health page cannot listen on {joined(host, port)}: "
                f"{error.strerror or error}.",
                where="--http-port",
                hint="Give another --http-port; 0 takes any free one.",
            ) from error
        self.url = f"http://{joined(host, self._server.server_address[1])}"
        threading.Thread(
            target=self._server.serve_forever, name="provender-status", daemon=True
        ).start()

    def close(self) -> None:
        """Stops answering."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # http.server looks up the host's name here, which takes seconds where DNS is slow.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    told: Status
    timeout = 10

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in ("/healthz", "/readyz"):
            code, document = self.told.health(ready=path == "/readyz")
            self._send(code, "application/json", json.dumps(document) + "\n")
        elif path == "/metrics":
            self._send(200, "text/plain; version=0.0.4; charset=utf-8", self.told.metrics())
        else:
            self._send(404, "text/plain", "There are /healthz, /readyz and /metrics.\n")

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def _send(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds; nobody wants a line of each."""
