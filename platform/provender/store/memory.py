"""A store in this process's memory, for tests and examples."""

from __future__ import annotations

import os
import threading
from typing import Any

from provender.store import paths
from provender.store.base import existing
from provender.store.remote import FsspecStore
from provender.store.values import Identity, Progress

# fsspec's memory file system is one dictionary for the whole process and checks before it writes.
_LOCK = threading.RLock()


class MemoryStore(FsspecStore):
    """Files in fsspec's process-wide memory file system; gone with the process."""

    def _identity(self, info: dict[str, Any]) -> Identity | None:
        if info["type"] != "file":
            return None
        file = self.fs.store.get(info["name"])
        if file is None:  # removed by another thread since
            return None
        return Identity(file.size, f"{file.created.timestamp():.6f}:{id(file)}")

    def write(self, rel: str, data: bytes) -> Identity:
        with _LOCK:
            return super().write(rel, data)

    def create(self, rel: str, data: bytes) -> Identity:
        with _LOCK:
            if self.stat(rel) is not None:
                raise existing(self.path(rel))
            return super().create(rel, data)

    def put(
        self, local_path: str | os.PathLike[str], rel: str, progress: Progress | None = None
    ) -> Identity:
        paths.check_rel(rel)
        try:
            with open(local_path, "rb") as file:
                data = file.read()
        except (FileNotFoundError, IsADirectoryError) as exc:
            raise FileNotFoundError(f"no such local file: {os.fspath(local_path)}") from exc
        identity = self.write(rel, data)
        if progress:
            progress(len(data), len(data))
        return identity

    def copy(self, src: str, dst: str) -> Identity:
        with _LOCK:
            return super().copy(src, dst)

    def remove(self, rel: str) -> bool:
        with _LOCK:
            return super().remove(rel)
