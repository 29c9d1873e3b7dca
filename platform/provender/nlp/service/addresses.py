"""Where a server of the tf.data service listens, and who is let in.

TensorFlow's servers listen on every address of the machine, ask for no password, and let a second
server of the same user join a port that is taken. So a port is tried before it is given away, and
connections to addresses that were not asked for are reset: the kernel prefers a listener on the
very address to one on all addresses, and `Guard` is that listener.
"""

from __future__ import annotations

import contextlib
import ipaddress
import selectors
import socket
import struct
import threading
from pathlib import Path

from provender.errors import SettingsError

_IPV4_ADDRESSES, _IPV6_ADDRESSES = Path("/proc/net/fib_trie"), Path("/proc/net/if_inet6")
_RESET = struct.pack("ii", 1, 0)
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


def is_wildcard(host: str) -> bool:
    """Whether a host means every address of the machine."""
    return host.strip("[]") in _WILDCARDS


def claim_port(port: int, where: str) -> int:
    """A port that nothing listens on.

    Args:
        port: the port wanted, or 0 for any.
        where: named in errors: the option.

    Raises:
        SettingsError: the port is taken, or may not be had.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # Connections of the server before may linger; a listener still stands in the way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            probe.listen(1)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise SettingsError(
            f"Port {port} cannot be listened on: {error.strerror or error}.",
            where=where,
            hint="Give another port; 0 takes any free one.",
        ) from error


def parsed(address: str, where: str) -> tuple[str, int]:
    """Host and port of ``host:port``, with or without ``grpc://``.

    Raises:
        SettingsError: it is no such address.
    """
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise SettingsError(
            f"An address is HOST:PORT, got {address!r}.", where=where, hint="grpc://127.0.0.1:5050"
        )
    return host.strip("[]"), int(port)


def answers(host: str, port: int, timeout: float = 1.0) -> bool:
    """Whether something accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=timeout):
            return True
    except OSError:
        return False


def joined(host: str, port: int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    host = host.strip("[]")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_addresses() -> set[str]:
    """The addresses of this machine that are not loopback, as the Linux kernel lists them.

    Link-local IPv6 addresses carry the interface: ``fe80::1%2``.
    """
    found: set[str] = set()
    with contextlib.suppress(OSError):
        last = ""
        for line in _IPV4_ADDRESSES.read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[:1] == ["|--"]:
                last = words[1]
            elif words[:3] == ["/32", "host", "LOCAL"]:
                found.add(last)
    with contextlib.suppress(OSError):
        for line in _IPV6_ADDRESSES.read_text(encoding="ascii").splitlines():
            digits, interface = line.split()[:2]
            address = ipaddress.IPv6Address(int(digits, 16))
            zone = f"%{int(interface, 16)}" if address.is_link_local else ""
            found.add(f"{address}{zone}")
    return {each for each in found if not ipaddress.ip_address(each).is_loopback}


class Guard:
    """Resets connections to a port at addresses that are not to be reached.

    Args:
        port: the port.
        host: the only address besides loopback that stays open; a wildcard leaves all open.
    """

    def __init__(self, port: int, host: str) -> None:
        self._port = port
        self._open = host.strip("[]")
        self._sockets: dict[str, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._over = False
        if not is_wildcard(host):
            # Before the server listens, so that there is no moment at which it is open.
            self.refresh()
            threading.Thread(target=self._serve, name="provender-guard", daemon=True).start()

    @property
    def addresses(self) -> set[str]:
        """The addresses at which connections are reset."""
        return set(self._sockets)

    def refresh(self) -> None:
        """Covers addresses that the machine has got since."""
        if is_wildcard(self._open):
            return
        addresses = local_addresses() - {self._open}
        with self._lock:
            for each in addresses - set(self._sockets):
                # An address may be gone again, or not ready yet; the next round tries anew.
                with contextlib.suppress(OSError):
                    self._sockets[each] = self._listener(each)
                    self._selector.register(self._sockets[each], selectors.EVENT_READ)
            for each in set(self._sockets) - addresses:
                gone = self._sockets.pop(each)
                self._selector.unregister(gone)
                gone.close()

    def _listener(self, address: str) -> socket.socket:
        family, _, _, _, place = socket.getaddrinfo(
            address, self._port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
        found = socket.socket(family, socket.SOCK_STREAM)
        try:
            if family == socket.AF_INET6:
                found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                found.setsockopt(socket.SOL_SOCKET, option, 1)
            found.setblocking(False)
            found.bind(place)
            found.listen(16)
        except OSError:
            found.close()
            raise
        return found

    def _serve(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(timeout=1):
                with contextlib.suppress(OSError):
                    visitor, _ = key.fileobj.accept()  # type: ignore[union-attr]
                    visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    visitor.close()

    def close(self) -> None:
        """Ends it."""
        self._over = True
        with self._lock:
            for each in self._sockets.values():
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(each)
                each.close()
            self._sockets.clear()
