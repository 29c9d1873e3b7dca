"""Ports and addresses of servers that listen everywhere."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from provender.errors import SettingsError
from provender.nlp.service.addresses import (
    Guard,
    answers,
    claim_port,
    joined,
    local_addresses,
    parsed,
)

OUTSIDE = sorted(each for each in local_addresses() if not each.startswith("fe80"))
needs_network = pytest.mark.skipif(not OUTSIDE, reason="this machine has a loopback address only")


@contextlib.contextmanager
def server_everywhere(port: int) -> Iterator[None]:
    """Listens as TensorFlow does: on all addresses, sharing the port with its user."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("::", port))
        listener.listen(64)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    visitor, _ = listener.accept()
                    visitor.sendall(b"hello")
                    visitor.close()

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        # Until the call has come back, the kernel keeps the port for it.
        server.join()


def greeted(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            return connection.recv(5) == b"hello"
    except ConnectionResetError:
        return False


@needs_network
def test_only_loopback_is_served_unless_asked() -> None:
    port = claim_port(0, "--port")
    guard = Guard(port, "127.0.0.1")
    with server_everywhere(port):
        for _ in range(5):
            assert greeted("127.0.0.1", port)
            assert not any(greeted(each, port) for each in OUTSIDE)
        assert guard.addresses >= set(OUTSIDE)
        guard.close()
        assert all(greeted(each, port) for each in OUTSIDE)


@needs_network
def test_the_address_asked_for_is_served() -> None:
    port = claim_port(0, "--port")
    for host, closed in ((OUTSIDE[0], OUTSIDE[1:]), ("0.0.0.0", [])):
        guard = Guard(port, host)
        with server_everywhere(port):
            assert greeted(OUTSIDE[0], port)
            assert not any(greeted(each, port) for each in closed)
            assert greeted("127.0.0.1", port)
        guard.close()


@needs_network
def test_addresses_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    from provender.nlp.service import addresses

    port = claim_port(0, "--port")
    known: set[str] = set()
    monkeypatch.setattr(addresses, "local_addresses", lambda: set(known))
    guard = Guard(port, "127.0.0.1")
    with server_everywhere(port):
        assert greeted(OUTSIDE[0], port)
        known.add(OUTSIDE[0])
        guard.refresh()
        assert not greeted(OUTSIDE[0], port)
        known.clear()
        guard.refresh()
        assert greeted(OUTSIDE[0], port)
    guard.close()


def test_a_port_that_is_shared_counts_as_taken() -> None:
    port = claim_port(0, "--port")
    with (
        server_everywhere(port),
        pytest.raises(SettingsError, match=f"Port {port} .* in use") as caught,
    ):
        claim_port(port, "--port")
    assert caught.value.where == "--port"
    assert claim_port(port, "--port") == port


def test_answers() -> None:
    port = claim_port(0, "--port")
    assert not answers("127.0.0.1", port)
    with server_everywhere(port):
        assert answers("127.0.0.1", port)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("grpc://10.0.0.2:5050", ("10.0.0.2", 5050)),
        ("host:1", ("host", 1)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_parsed(text: str, found: tuple[str, int]) -> None:
    assert parsed(text, "--dispatcher") == found
    assert parsed(joined(*found), "") == found


@pytest.mark.parametrize("text", ["", "host", ":5050", "host:", "host:x", "host:0", "host:65536"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(SettingsError, match="HOST:PORT"):
        parsed(text, "--dispatcher")
