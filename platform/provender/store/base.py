"""The interface of a store: where bytes live."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from provender.store import files, paths
from provender.store.values import Digest, Entry, Identity, Progress


class Store(ABC):
    """Files under one root, local or remote, with the same promises everywhere.

    - Paths are relative to the root, separated by ``/`` and taken literally.
    - A file is either absent or whole: writes, uploads and copies replace atomically.
    - Folders come and go with the files in them.
    - A missing file is `FileNotFoundError`, `create` of an existing one `FileExistsError`; a full
      disk is `DiskFull`, any other failure a `StoreError`.
    - Files are never changed in place, for a copy may share the bytes (hard links).
    - A store can be used by many threads, pickled, and carried over a fork.
    """

    is_local = False

    def __init__(self, url: str, scratch: str | None = None) -> None:
        self.url = url
        self._scratch = scratch

    @staticmethod
    def open(url: str, *, scratch: str | None = None) -> Store:
        """The store at `url`, without touching disk or network yet.

        Args:
            url: a local path, ``file://``, ``memory://``, ``gs://bucket/prefix``, or the URL of
                any other fsspec file system.
            scratch: local folder for temporary work when the store is remote; by default a folder
                of this store under ``$XDG_CACHE_HOME/provender`` (``~/.cache/provender``).

        Raises:
            StoreError: the URL is of no known kind.
        """
        scheme, rest = paths.split_scheme(url)
        if scheme == "file":
            from provender.store.local import LocalStore

            return LocalStore(rest, scratch)
        if scheme in ("gs", "gcs"):
            from provender.store.gcs import GcsStore

            return GcsStore(rest, scratch)
        if scheme == "memory":
            from provender.store.memory import MemoryStore

            return MemoryStore(url, scratch)
        from provender.store.remote import FsspecStore

        return FsspecStore(url, scratch)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, (self.url, self._scratch))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    @abstractmethod
    def fs(self) -> Any:
        """The fsspec file system, made when first asked for."""

    def connect(self) -> None:
        """Makes the file system now, so that missing credentials are told here.

        Raises:
            StoreError: it cannot be made.
        """
        _ = self.fs

    @property
    @abstractmethod
    def scratch(self) -> Path:
        """A local folder for work in progress; it exists."""

    def path(self, *parts: str) -> str:
        """The absolute path or URI of a file, e.g. for TFDS's ``data_dir``."""
        rel = paths.check_directory(paths.join(*parts))
        return f"{self.url}{rel}" if self.url.endswith("://") else paths.join(self.url, rel)

    def local(self, rel: str = "") -> Path | None:
        """The local path of a file, or None where the store is not a local folder."""
        del rel
        return None

    @abstractmethod
    def stat(self, rel: str) -> Identity | None:
        """A file's identity now; None when it is missing or a folder."""

    @abstractmethod
    def stat_many(self, rels: Iterable[str]) -> dict[str, Identity | None]:
        """The identities of many files with few requests: remote folders are listed at once."""

    def exists(self, rel: str) -> bool:
        """Whether there is such a file, or a folder that holds something."""
        return self.stat(rel) is not None or bool(self.list(rel))

    @abstractmethod
    def read(self, rel: str) -> bytes:
        """The whole content of a file.

        Raises:
            FileNotFoundError: there is no such file.
        """

    @abstractmethod
    def read_range(self, rel: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from offset `start`; fewer only at the end of the file.

        Raises:
            FileNotFoundError: there is no such file.
        """

    @abstractmethod
    def open_file(self, rel: str, *, buffer_bytes: int = 4 << 20) -> BinaryIO:
        """A readable, seekable file; on ``gs://`` it stays with the generation that it opened.

        Args:
            rel: the file.
            buffer_bytes: how much one request to a remote store reads ahead.

        Raises:
            FileNotFoundError: there is no such file.
        """

    @abstractmethod
    def write(self, rel: str, data: bytes) -> Identity:
        """Writes a file in one step, replacing what was there."""

    @abstractmethod
    def create(self, rel: str, data: bytes) -> Identity:
        """Writes a file that must not exist yet; of several racers exactly one succeeds.

        A request that succeeded although its answer was lost is recognised as this caller's own.

        Raises:
            FileExistsError: the file is there.
        """

    @abstractmethod
    def put(
        self, local_path: str | os.PathLike[str], rel: str, progress: Progress | None = None
    ) -> Identity:
        """Copies a local file into the store; it appears whole.

        Raises:
            FileNotFoundError: there is no such local file.
        """

    @abstractmethod
    def fetch(
        self,
        rel: str,
        local_path: str | os.PathLike[str],
        progress: Progress | None = None,
        *,
        sha256: str | None = None,
    ) -> Identity:
        """Copies a file to a local path; it appears whole there.

        From a remote store the bytes gather in ``<local_path>.part``, from which a later call goes
        on if the remote file is still the same.

        Args:
            rel: the file.
            local_path: replaced in one step.
            progress: called as bytes arrive.
            sha256: what the content must hash to (64 hex digits). Remote stores hash as the bytes
                arrive, so a caller that knows the digest need not read the file again.

        Raises:
            FileNotFoundError: there is no such file.
            DamageError: the bytes are not those that the store, or `sha256`, promises.
        """

    @abstractmethod
    def move(self, src: str, dst: str) -> Identity:
        """Renames a file, replacing `dst`; remote stores copy, then remove.

        Raises:
            FileNotFoundError: there is no file `src`.
        """

    @abstractmethod
    def copy(self, src: str, dst: str) -> Identity:
        """Copies a file within the store, replacing `dst`.

        Local stores make a hard link where they can, object stores copy on the server.

        Raises:
            FileNotFoundError: there is no file `src`.
        """

    @abstractmethod
    def remove(self, rel: str) -> bool:
        """Removes a file; False when there was none."""

    @abstractmethod
    def remove_tree(self, rel: str) -> int:
        """Removes a folder with all in it; returns the number of files removed."""

    @abstractmethod
    def list(self, rel: str = "", recursive: bool = False) -> list[Entry]:
        """What a folder holds, sorted by path; empty when there is no such folder.

        Args:
            rel: the folder; "" is the root.
            recursive: list all files below instead (and no folders).
        """

    def digest(self, rel: str, progress: Progress | None = None) -> Digest:
        """Reads a file and returns its size, sha256 and crc32c.

        Raises:
            FileNotFoundError: there is no such file.
        """
        identity = self.stat(rel)
        with self.open_file(rel) as file:
            total = identity.size if identity else 0
            return files.digest_of(files.blocks_of(file), total, progress)

    def same_content(self, one: str, other: str) -> bool:
        """Whether two files hold the same bytes, as cheaply as the backend can tell.

        Raises:
            FileNotFoundError: one of them is missing.
        """
        sizes = [self._require(rel).size for rel in (one, other)]
        return sizes[0] == sizes[1] and self.digest(one) == self.digest(other)

    def free_bytes(self) -> int | None:
        """Room left in bytes; None where there is no such limit."""
        return None

    def sweep(self, max_age_seconds: float) -> int:
        """Removes unfinished files that killed processes left behind; returns how many.

        Args:
            max_age_seconds: how old one must be before nobody can still be writing it.
        """
        del max_age_seconds
        return 0

    def _require(self, rel: str) -> Identity:
        identity = self.stat(rel)
        if identity is None:
            raise missing(self.path(rel))
        return identity


def missing(where: str) -> FileNotFoundError:
    """The error for a file that is not in the store."""
    return FileNotFoundError(f"no such file in the store: {where}")


def existing(where: str) -> FileExistsError:
    """The error for a file that was to be created and is there already."""
    return FileExistsError(f"already in the store: {where}")


def _reopen(url: str, scratch: str | None) -> Store:
    return Store.open(url, scratch=scratch)
