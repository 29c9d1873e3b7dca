"""An HTTP proxy in front of a GCS server that refuses, cuts and delays what it is told to."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP = {"transfer-encoding", "connection", "keep-alive", "content-length"}


@dataclass
class Fault:
    """What shall happen to the next `times` requests that match.

    Kinds: ``status`` (answer `status` without asking the server), ``cut request`` (close in the
    middle of the body; the server sees nothing), ``truncated request`` (the server gets half the
    body, then the end of the connection), ``partial request`` (of an upload's piece the server
    stores the first half and nobody answers), ``lost answer`` (the server acts, the client hears
    nothing), ``cut answer`` (half of the answer's body, then the end), ``corrupt request`` and
    ``corrupt answer`` (a bit is flipped in the middle of the body).
    """

    kind: str
    pattern: str = "."
    times: int = 1
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class FaultProxy:
    """The running proxy.

    Attributes:
        endpoint: its URL.
        log: ``METHOD path content-range`` of every request seen.
        faults: what is still to happen.
        before: called with the log line before a request is passed on, e.g. to kill its sender.
        stored: resumable session -> bytes that the server has confirmed.
        active: requests being handled now.
        finished: resumable session -> headers and body of the server's last answer.
    """

    endpoint: str = ""
    log: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    before: Callable[[str], None] | None = None
    stored: dict[str, int] = field(default_factory=dict)
    finished: dict[str, tuple[list[tuple[str, str]], bytes]] = field(default_factory=dict)
    active: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def settle(self) -> None:
        """Waits until no request is on its way any more, not even one of a killed client."""
        while self.active:
            time.sleep(0.001)

    def take(self, line: str) -> Fault | None:
        with self.lock:
            self.log.append(line)
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.pattern, line):
                    fault.times -= 1
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed in the middle are what this proxy is for."""


@contextlib.contextmanager
def start(upstream: str) -> Iterator[FaultProxy]:
    """Runs a proxy before the server at `upstream` until the block ends."""
    proxy = FaultProxy()
    host = urlsplit(upstream).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def log_message(self, *args: object) -> None:
            pass

        def handle_any(self) -> None:
            with proxy.lock:
                proxy.active += 1
            try:
                self._handle()
            finally:
                with proxy.lock:
                    proxy.active -= 1

        def _handle(self) -> None:
            asked = self.headers.get("Content-Range", "")
            line = f"{self.command} {self.path} {asked}"
            fault = proxy.take(line)
            length = int(self.headers.get("Content-Length") or 0)
            if fault and fault.kind == "cut request":
                self.rfile.read(length // 2)
                self.close_connection = True
                return
            body = self.rfile.read(length)
            if proxy.before:
                proxy.before(line)
            if fault and fault.kind == "status":
                self._answer(fault.status, list(fault.headers.items()), b"refused on purpose")
                return
            if fault and fault.kind == "truncated request":
                self._send_half(body)
                self.close_connection = True
                return
            if fault and fault.kind == "corrupt request":
                body = _flipped(body)
            if asked.startswith("bytes */"):
                self._tell_stored()
                return
            if fault and fault.kind == "partial request":
                self._pass_half_a_piece(asked, body)
                return
            status, headers, answer = self._ask(body)
            if asked and status == 200:
                proxy.finished[self.path] = (headers, answer)
            if status == 308:
                proxy.stored[self.path] = int(asked.split()[1].partition("/")[0].split("-")[1]) + 1
            if fault and fault.kind == "corrupt answer":
                answer = _flipped(answer)
            if fault and fault.kind == "lost answer":
                self.close_connection = True
                return
            self._answer(status, headers, answer, cut=bool(fault) and fault.kind == "cut answer")

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

        def _tell_stored(self) -> None:
            # The server takes the question for the end of a stream and keeps what it has as the
            # object, so the proxy answers as the service documents it.
            if self.path in proxy.finished:
                self._answer(200, *proxy.finished[self.path])
                return
            stored = proxy.stored.get(self.path, 0)
            self._answer(308, [("Range", f"bytes=0-{stored - 1}")] if stored else [], b"")

        def _pass_half_a_piece(self, asked: str, body: bytes) -> None:
            start = int(asked.split()[1].partition("-")[0])
            half = len(body) // 2
            size = asked.partition("/")[2]
            self.headers.replace_header("Content-Range", f"bytes {start}-{start + half - 1}/{size}")
            self._ask(body[:half])
            proxy.stored[self.path] = start + half
            self.close_connection = True

        def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            upstream_connection = http.client.HTTPConnection(host, timeout=60)
            try:
                headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
                headers["Host"] = host
                headers["Content-Length"] = str(len(body))
                upstream_connection.request(self.command, self.path, body, headers)
                answer = upstream_connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                upstream_connection.close()

        def _send_half(self, body: bytes) -> None:
            upstream_connection = http.client.HTTPConnection(host, timeout=60)
            upstream_connection.putrequest(self.command, self.path, skip_host=True)
            for key, value in self.headers.items():
                upstream_connection.putheader(key, value)
            upstream_connection.endheaders()
            upstream_connection.send(body[: len(body) // 2])
            upstream_connection.close()

        def _answer(
            self, status: int, headers: list[tuple[str, str]], body: bytes, cut: bool = False
        ) -> None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                for key, value in headers:
                    if key.lower() not in _HOP:
                        self.send_header(key, value.replace(upstream, proxy.endpoint))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.close_connection = True

    server = _Server(("127.0.0.1", 0), Handler)
    proxy.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
