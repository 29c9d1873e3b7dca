"""Which process is meant, and whether it is provably dead.

A pid alone proves nothing: it is reused after the process ended, and means something else on
another machine or in another container. So a process is named by its *host* (machine boot and
pid namespace), its pid, and the kernel's start time of that pid. Only where the host matches
can a process be proven dead; everywhere else its claims must run out.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, anywhere.

    Attributes:
        host: host name and a digest of (boot, pid namespace): ``worker-3~5f2c91aa``.
        pid: process id inside that namespace.
        process_start: start time of that pid, opaque text; empty where unknown.
        note: what it is doing, for people.
    """

    host: str
    pid: int
    process_start: str
    note: str = ""

    def same_process(self, other: Owner) -> bool:
        """Whether both name one process; the notes do not count."""
        return (self.host, self.pid, self.process_start) == (
            other.host,
            other.pid,
            other.process_start,
        )

    def __str__(self) -> str:
        text = f"process {self.pid} on {self.host.partition('~')[0]}"
        return f"{text} ({self.note})" if self.note else text


def this_process(note: str = "") -> Owner:
    """The calling process as an owner."""
    pid = os.getpid()
    return Owner(host_identity(), pid, _own_start(pid), note)


@lru_cache(maxsize=1)
def host_identity() -> str:
    """Host name plus a digest that differs by boot and by pid namespace.

    Two containers can share a host name (host networking) and still number their processes
    separately, and a pid from before a reboot must not be looked up after it.
    """
    facts = [_read("/proc/sys/kernel/random/boot_id"), _link("/proc/self/ns/pid")]
    digest = hashlib.blake2b("\0".join(facts).encode(), digest_size=4).hexdigest()
    return f"{socket.gethostname()}~{digest}"


def is_dead(owner: Owner) -> bool:
    """Whether the owner's process is certainly gone.

    Returns:
        True if the owner ran on this host and its pid is gone, is a zombie, or now belongs to
        a process that started at another time. False for any other host.
    """
    if owner.host != host_identity():
        return False
    if not _exists(owner.pid):
        return True
    start = process_start(owner.pid)
    return start is None or bool(owner.process_start and start != owner.process_start)


def process_start(pid: int) -> str | None:
    """The start time of a running process as the kernel tells it.

    Returns:
        Clock ticks since boot on Linux (field 22 of ``/proc/<pid>/stat``), the text of
        ``ps -o lstart`` elsewhere; None if there is no such process or it is a zombie.
    """
    stat = _read(f"/proc/{pid}/stat")
    if stat:
        # The second field is the command in parentheses and may itself hold ") ".
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    if Path("/proc/self/stat").exists():
        return None
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None


@lru_cache(maxsize=1)
def _own_start(pid: int) -> str:
    """Keyed by pid, so that a forked child does not answer with its parent's start time."""
    return process_start(pid) or ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
