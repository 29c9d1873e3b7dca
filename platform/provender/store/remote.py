"""Stores that are reached through fsspec."""

# Paths are plain strings here: pathlib costs more than the system call, and URLs are no Paths.
# ruff: noqa: PTH111, PTH113, PTH202

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from provender.errors import StoreError
from provender.store import files, paths, ranges
from provender.store.base import Store, existing, missing
from provender.store.faults import guarded
from provender.store.relay import OpenRange
from provender.store.threads import parallel
from provender.store.values import Digest, Entry, Identity, Progress

_REWRITES = 5
_LISTING_PAYS_FROM = 4
_TOKENS = ("generation", "etag", "ETag", "version_id", "mtime", "LastModified", "last_modified")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Pinned:
    """One version of a remote file.

    Attributes:
        identity: it.
        read: reads ranges of exactly that version.
        crc32c: of its content, where the store knows.
        stream: opens long ranges of it, where there is a better way than `read`.
    """

    identity: Identity
    read: ranges.ReadRange
    crc32c: int | None = None
    stream: OpenRange | None = None


class RemoteStore(Store):
    """What remote stores have in common: scratch, range reads, fetching, one file system each.

    Args:
        url: the root, as `Store.open` takes it.
        scratch: local folder for work in progress.
    """

    def __init__(self, url: str, scratch: str | None = None) -> None:
        scheme, rest = paths.split_scheme(url)
        super().__init__(f"{scheme}://{rest.rstrip('/')}", scratch)
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None

    @property
    def fs(self) -> Any:
        # One per process: event loops and connections do not survive a fork.
        made = self._made
        if made is None or made[0] != os.getpid():
            with self._lock:
                made = self._made
                if made is None or made[0] != os.getpid():
                    with guarded("open the store", self.url):
                        made = self._made = (os.getpid(), self._make_fs())
        return made[1]

    @abstractmethod
    def _make_fs(self) -> Any:
        """The fsspec file system, without listing cache."""

    @property
    def scratch(self) -> Path:
        folder = Path(self._scratch) if self._scratch else _cache_folder(self.url)
        with guarded("make the folder for work in progress", str(folder)):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def stat_many(self, rels: Iterable[str]) -> dict[str, Identity | None]:
        by_folder: dict[str, list[str]] = {}
        for rel in rels:
            by_folder.setdefault(os.path.dirname(paths.check_rel(rel)), []).append(rel)

        def stat_folder(members: list[str]) -> dict[str, Identity | None]:
            if len(members) < _LISTING_PAYS_FROM:
                return {rel: self.stat(rel) for rel in members}
            listed = self.list(os.path.dirname(members[0]))
            known = {entry.rel: entry.identity for entry in listed if not entry.is_dir}
            return {rel: known.get(rel) for rel in members}

        found: dict[str, Identity | None] = {}
        for part in parallel(stat_folder, by_folder.values()):
            found.update(part)
        return found

    @abstractmethod
    def _pin(self, rel: str) -> Pinned:
        """The version of a file that there is now."""

    def read_range(self, rel: str, start: int, length: int) -> bytes:
        def read_pinned(pinned: Pinned) -> bytes:
            size = min(length, pinned.identity.size - start)
            return pinned.read(start, size) if size > 0 else b""

        return self._undisturbed(rel, read_pinned)

    def open_file(self, rel: str, *, buffer_bytes: int = 4 << 20) -> BinaryIO:
        pinned = self._pin(rel)
        return io.BufferedReader(ranges.RangeFile(pinned.read, pinned.identity.size), buffer_bytes)

    def fetch(
        self,
        rel: str,
        local_path: str | os.PathLike[str],
        progress: Progress | None = None,
        *,
        sha256: str | None = None,
    ) -> Identity:
        target, where = os.path.abspath(local_path), self.path(rel)

        def fetch_pinned(pinned: Pinned) -> Identity:
            identity = pinned.identity
            what = ranges.Part(where, identity, pinned.crc32c, sha256)
            with guarded("fetch", target, identity.size):
                ranges.fetch(pinned.read, what, target, progress, pinned.stream)
            if pinned.crc32c is None and sha256 is None and self.stat(rel) != identity:
                raise missing(where)  # nothing but the identity tells that it is another version
            return identity

        return self._undisturbed(rel, fetch_pinned)

    def _undisturbed(self, rel: str, act: Callable[[Pinned], Result]) -> Result:
        """Does `act` with a pinned file, again when that version is replaced meanwhile."""
        for _ in range(_REWRITES):
            pinned = self._pin(rel)
            with contextlib.suppress(FileNotFoundError):
                return act(pinned)
        message = f"the file changed {_REWRITES} times while it was read"
        hint = "wait until its writer is done, then run the command again"
        raise StoreError(message, where=self.path(rel), hint=hint)

    def digest(self, rel: str, progress: Progress | None = None) -> Digest:
        def digest_pinned(pinned: Pinned) -> Digest:
            digester, size = files.Digester(), pinned.identity.size

            def take(block: memoryview) -> None:
                digester.update(bytes(block))
                if progress:
                    progress(digester.size, max(digester.size, size))

            ranges.relayed(pinned.read, 0, size, take, pinned.stream)
            return digester.digest()

        return self._undisturbed(rel, digest_pinned)

    def move(self, src: str, dst: str) -> Identity:
        if paths.check_rel(src) == paths.check_rel(dst):
            return self._require(src)
        identity = self.copy(src, dst)
        self.remove(src)
        return identity

    def remove_tree(self, rel: str) -> int:
        found = [entry.rel for entry in self.list(paths.check_rel(rel), recursive=True)]
        return sum(parallel(self.remove, found))


class FsspecStore(RemoteStore):
    """Any fsspec file system, as far as that one goes.

    Writes appear whole and `create` has one winner where the file system promises so for
    ``pipe_file`` and ``pipe_file(mode="create")``: object stores do.
    """

    def __init__(self, url: str, scratch: str | None = None) -> None:
        super().__init__(url, scratch)
        self._prefix: str | None = None

    def _make_fs(self) -> Any:
        import fsspec

        try:
            fs, _ = fsspec.url_to_fs(self.url, use_listings_cache=False, skip_instance_cache=True)
        except (ValueError, ImportError) as exc:
            scheme = paths.split_scheme(self.url)[0]
            message = f"no file system for {scheme}:// : {exc}"
            hint = "use a local path or gs://bucket/prefix, or install the fsspec package for it"
            raise StoreError(message, where=self.url, hint=hint) from exc
        return fs

    def _at(self, rel: str) -> str:
        if self._prefix is None:
            self._prefix = self.fs._strip_protocol(self.url).rstrip("/")
        return f"{self._prefix}/{rel}" if rel else self._prefix

    def _pin(self, rel: str) -> Pinned:
        identity = self._require(rel)
        where, path, fs = self.path(rel), self._at(rel), self.fs

        def read(start: int, length: int) -> bytes:
            with guarded("read", where):
                return fs.cat_file(path, start=start, end=start + length)

        return Pinned(identity, read)

    def stat(self, rel: str) -> Identity | None:
        path = self._at(paths.check_rel(rel))
        with guarded("look at a file", self.path(rel)):
            try:
                return self._identity(self.fs.info(path))
            except FileNotFoundError:
                return None

    def _identity(self, info: dict[str, Any]) -> Identity | None:
        if info["type"] != "file":
            return None
        token = next((str(info[key]) for key in _TOKENS if info.get(key) is not None), "")
        return Identity(int(info["size"]), token)

    def read(self, rel: str) -> bytes:
        self._require(rel)
        with guarded("read", self.path(rel)):
            return self.fs.cat_file(self._at(rel))

    def write(self, rel: str, data: bytes) -> Identity:
        path = self._at(paths.check_rel(rel))
        with guarded("write", self.path(rel), len(data)):
            self.fs.pipe_file(path, data)
        return self._require(rel)

    def create(self, rel: str, data: bytes) -> Identity:
        path = self._at(paths.check_rel(rel))
        with guarded("create", self.path(rel), len(data)):
            try:
                self.fs.pipe_file(path, data, mode="create")
            except FileExistsError as exc:
                raise existing(self.path(rel)) from exc
        return self._require(rel)

    def put(
        self, local_path: str | os.PathLike[str], rel: str, progress: Progress | None = None
    ) -> Identity:
        source, path = os.fspath(local_path), self._at(paths.check_rel(rel))
        if not os.path.isfile(source):
            raise FileNotFoundError(f"no such local file: {source}")
        size = os.path.getsize(source)
        with guarded("upload", self.path(rel), size):
            self.fs.put_file(source, path)
        if progress:
            progress(size, size)
        return self._require(rel)

    def copy(self, src: str, dst: str) -> Identity:
        identity = self._require(src)
        if src == paths.check_rel(dst):
            return identity
        with guarded("copy", self.path(dst), identity.size):
            self.fs.cp_file(self._at(src), self._at(dst))
        return self._require(dst)

    def remove(self, rel: str) -> bool:
        if self.stat(rel) is None:
            return False
        with guarded("remove", self.path(rel)):
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(self._at(rel))
                return True
        return False

    def list(self, rel: str = "", recursive: bool = False) -> list[Entry]:
        folder = self._at(paths.check_directory(rel))
        with guarded("list", self.path(rel)):
            try:
                if recursive:
                    infos = list(self.fs.find(folder, detail=True).values())
                else:
                    infos = self.fs.ls(folder, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
        prefix = f"{folder}/"
        found = []
        for info in infos:
            name = info["name"].rstrip("/")
            if not name.startswith(prefix):  # a file's own listing is the file itself
                continue
            below = paths.join(rel, name[len(prefix) :])
            is_dir = info["type"] == "directory"
            if not (is_dir and recursive):
                identity = None if is_dir else self._identity(info)
                found.append(Entry(below.rpartition("/")[2], below, identity, is_dir))
        return sorted(found, key=lambda entry: (entry.rel, entry.is_dir))


def _cache_folder(url: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.blake2b(url.encode(), digest_size=8).hexdigest()
    return Path(base, "provender", name)
