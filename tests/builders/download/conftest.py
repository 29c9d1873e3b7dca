"""Servers and managers for the download tests."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders.download.flaky_http import FlakyServer, serve

from provender.builders.download import DownloadManager


@pytest.fixture
def server() -> Iterator[FlakyServer]:
    with serve() as running:
        yield running


@pytest.fixture
def ftp_root(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder served by a real FTP server that wants user:secret, and its URL prefix."""
    with warnings.catch_warnings():
        # pyftpdlib imports asyncore, which Python 3.11 calls deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        from pyftpdlib.authorizers import DummyAuthorizer
        from pyftpdlib.handlers import FTPHandler
        from pyftpdlib.ioloop import IOLoop
        from pyftpdlib.servers import FTPServer

    root = tmp_path / "ftp"
    root.mkdir()
    authorizer = DummyAuthorizer()
    authorizer.add_user("user", "secret", str(root), perm="elr")

    class Handler(FTPHandler):
        pass

    Handler.authorizer = authorizer
    loop = IOLoop()
    ftp = FTPServer(("127.0.0.1", 0), Handler, ioloop=loop)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            ftp.serve_forever(timeout=0.05, blocking=False, handle_exit=False)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield root, f"ftp://user:secret@127.0.0.1:{ftp.socket.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()
        ftp.close_all()


@pytest.fixture
def make_manager(tmp_path: Path) -> Iterator[Callable[..., DownloadManager]]:
    made: list[DownloadManager] = []

    def make(**options: Any) -> DownloadManager:
        options.setdefault("objects_dir", tmp_path / "objects")
        options.setdefault("extract_dir", tmp_path / "extracted")
        options.setdefault("retries", 1)
        manager = DownloadManager(options.pop("dataset_name", "demo"), **options)
        made.append(manager)
        return manager

    yield make
    for manager in made:
        manager.close()
