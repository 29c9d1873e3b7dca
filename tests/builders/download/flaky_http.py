"""A real HTTP server whose files misbehave on request."""

from __future__ import annotations

import hashlib
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

ODD_NAME = "a b#c%41=[xy]*é.bin"


@dataclass
class Served:
    """One file and its faults; each fault is used up as requests arrive."""

    body: bytes
    cuts: list[int] = field(default_factory=list)  # close the connection after so many body bytes
    statuses: list[int] = field(default_factory=list)  # answer with these first
    retry_after: str | None = None
    ranges: bool = True
    if_range: bool = True  # False: honours Range whatever If-Range says
    etag: str | None = "auto"
    last_modified: str | None = None
    content_type: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)
    head: bool = True
    delay: float = 0.0  # seconds between blocks of 16 KiB
    then: bytes | None = None  # body after the first cut
    login: str | None = None  # base64 of user:password
    redirect: str | None = None

    def tag(self) -> str | None:
        if self.etag == "auto":
            return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"'
        return self.etag


@dataclass
class Request:
    method: str
    path: str
    range: str | None
    if_range: str | None
    authorization: str | None
    status: int = 0
    sent: int = 0


class FlakyServer:
    """Serves ``files`` by decoded path (query included as a fallback) and keeps ``requests``."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self.url = ""

    def gets(self, path: str | None = None) -> list[Request]:
        return [r for r in self.requests if r.method == "GET" and path in (None, r.path)]

    @property
    def bytes_sent(self) -> int:
        return sum(r.sent for r in self.requests)


@contextmanager
def serve(certificate: Any = None) -> Iterator[FlakyServer]:
    """Runs the server until the block ends; over TLS with a trustme certificate."""
    state = FlakyServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            path = unquote(self.path.partition("?")[0])
            headers = self.headers
            request = Request(
                self.command,
                path,
                headers.get("range"),
                headers.get("if-range"),
                headers.get("authorization"),
            )
            with state.lock:
                state.requests.append(request)
                file = state.files.get(unquote(self.path)) or state.files.get(path)
                if file is None:
                    self.brief(request, 404)
                    return
                if self.command == "HEAD" and not file.head:
                    self.brief(request, 405)
                    return
                if file.login and request.authorization != f"Basic {file.login}":
                    self.brief(request, 401)
                    return
                if file.redirect:
                    self.brief(request, 302, {"location": file.redirect})
                    return
                if file.statuses:
                    extra = {"retry-after": file.retry_after} if file.retry_after else {}
                    self.brief(request, file.statuses.pop(0), extra)
                    return
                cut = file.cuts.pop(0) if file.cuts and self.command == "GET" else None
                body = file.body
                tag = file.tag()
                if cut is not None and file.then is not None:
                    file.body, file.then = file.then, None
            self.content(request, file, body, tag, cut)

        def brief(self, request: Request, status: int, extra: dict[str, str] | None = None) -> None:
            request.status = status
            self.send_response(status)
            self.send_header("content-length", "0")
            for name, value in (extra or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def content(
            self, request: Request, file: Served, body: bytes, tag: str | None, cut: int | None
        ) -> None:
            start = 0
            if request.range and file.ranges:
                same = request.if_range in (None, tag, file.last_modified)
                if same or not file.if_range:
                    start = int(request.range.removeprefix("bytes=").split("-")[0])
            if start and start >= len(body):
                self.brief(request, 416, {"content-range": f"bytes */{len(body)}"})
                return
            partial = (
                request.range is not None and file.ranges and (start or request.if_range is None)
            )
            request.status = 206 if partial else 200
            self.send_response(request.status)
            if partial:
                self.send_header("content-range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("content-length", str(len(body) - start))
            self.send_header("content-type", file.content_type)
            if tag:
                self.send_header("etag", tag)
            if file.last_modified:
                self.send_header("last-modified", file.last_modified)
            for name, value in file.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            rest = body[start:] if cut is None else body[start : start + cut]
            try:
                for at in range(0, len(rest), 16384):
                    self.wfile.write(rest[at : at + 16384])
                    request.sent += len(rest[at : at + 16384])
                    if file.delay:
                        self.wfile.flush()
                        time.sleep(file.delay)
                self.wfile.flush()
            except OSError:
                self.close_connection = True
            if cut is not None:
                self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *args: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        state.url = state.url.replace("http:", "https:")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
