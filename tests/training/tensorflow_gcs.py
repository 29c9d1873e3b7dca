"""Leads TensorFlow's built-in ``gs://`` to a test server.

TensorFlow speaks to fixed hosts over HTTPS and knows no variable for another endpoint. libcurl,
below it, does obey a proxy and a certificate bundle, so a proxy that answers CONNECT, ends the TLS
connection itself and passes the requests on does the redirection without any privilege.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

HOSTS = ("www.googleapis.com", "storage.googleapis.com")
_HOP = {"connection", "content-length", "host", "proxy-connection", "transfer-encoding"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_CONNECT(self) -> None:
        host = self.path.partition(":")[0]
        if host not in HOSTS:
            self.send_error(403)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb")
        self.host = host
        self.close_connection = False

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.log.append(
            f"{self.command} {self.path} {self.headers.get('Range', '')}".strip()
        )
        layout = re.match(r"/storage/v1/b/([^/]+)/storageLayout", self.path)
        if layout:  # a question that the test server has no answer to
            namespace = {"hierarchicalNamespace": {"enabled": False}}
            self._answer(200, {}, json.dumps(namespace).encode())
            return
        headers = {name: each for name, each in self.headers.items() if name.lower() not in _HOP}
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=30)
        try:
            upstream.request(self.command, self.path, body, headers)
            response = upstream.getresponse()
            found = {k: v for k, v in response.getheaders() if k.lower() not in _HOP}
            if "Location" in found:
                found["Location"] = re.sub(
                    r"^http://[^/]+", f"https://{self.host}", found["Location"]
                )
            self._answer(response.status, found, response.read())
        finally:
            upstream.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = _forward

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().finish()
        if isinstance(self.connection, ssl.SSLSocket):
            self.rfile.close()
            self.connection.close()

    def log_message(self, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: int, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.tls = upstream, tls
        self.log: list[str] = []


@contextlib.contextmanager
def redirected(endpoint: str, folder: Path) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Runs the proxy until the block ends.

    Args:
        endpoint: of the test server.
        folder: gets the certificate.

    Yields:
        The environment under which TensorFlow's ``gs://`` is the test server's, and the requests
        as they come.
    """
    import trustme

    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*HOSTS).configure_cert(tls)
    bundle = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(bundle))
    server = _Server(urlsplit(endpoint).port or 80, tls)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        environment = {
            "https_proxy": f"http://127.0.0.1:{server.server_port}",
            "no_proxy": "127.0.0.1",
            "CURL_CA_BUNDLE": str(bundle),
            "NO_GCE_CHECK": "true",
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "test",
        }
        yield environment, server.log
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
