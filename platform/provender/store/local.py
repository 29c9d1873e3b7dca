"""A store in a local folder. Uses `os` alone: a rerun without work must stay a few stat calls."""

# Paths are plain strings here: pathlib costs more than the system call, and URLs are no Paths.
# ruff: noqa: PTH104, PTH105, PTH106, PTH108, PTH112, PTH113, PTH114, PTH121, PTH202

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat as stat_module
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from provender.errors import StoreError
from provender.store import files, paths, ranges
from provender.store.base import Store, existing, missing
from provender.store.faults import guarded
from provender.store.values import Entry, Identity, Progress

BUILDING = "building"
_ABSENT = {errno.ENOENT, errno.ENOTDIR}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES}
_LANDINGS = 20


class LocalStore(Store):
    """Files in a folder.

    Every new file is written under ``<root>/.incoming`` and renamed into place, so what a listing
    shows is whole. The identity token is ``mtime_ns:inode``: it survives `move`, `copy` (a hard
    link) and the rename of a published folder, and changes with any rewrite. The change time is
    left out because a hard link alters it. Restoring files from a backup gives new inodes, hence
    new tokens: such files need one re-reading to be trusted again.

    Args:
        root: the folder; it is made by the first write.
        scratch: ignored: work in progress belongs on the store's own file system, from where a
            rename publishes it.
    """

    is_local = True

    def __init__(self, root: str, scratch: str | None = None) -> None:
        super().__init__(paths.local_root(root), scratch)
        self._root = self.url
        self._incoming_root = os.path.join(self._root, paths.INCOMING)

    @property
    def fs(self) -> Any:
        import fsspec

        return fsspec.filesystem("file", auto_mkdir=True)

    @property
    def scratch(self) -> Path:
        folder = Path(self._root, BUILDING)
        with guarded("make the folder for work in progress", str(folder)):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def path(self, *parts: str) -> str:
        rel = paths.check_directory(paths.join(*parts))
        return self._at(rel) if rel else self._root

    def local(self, rel: str = "") -> Path | None:
        return Path(self.path(rel))

    def stat(self, rel: str) -> Identity | None:
        path = self._at(paths.check_rel(rel))
        try:
            return _identity(os.stat(path))
        except OSError as exc:
            if exc.errno in _ABSENT:
                return None
            with guarded("look at a file", path):
                raise

    def stat_many(self, rels: Iterable[str]) -> dict[str, Identity | None]:
        return {rel: self.stat(rel) for rel in rels}

    def exists(self, rel: str) -> bool:
        return os.path.exists(self._at(paths.check_rel(rel)))

    def read(self, rel: str) -> bytes:
        with self.open_file(rel) as file, guarded("read", self._at(rel)):
            return file.read()

    def read_range(self, rel: str, start: int, length: int) -> bytes:
        with self.open_file(rel) as file, guarded("read", self._at(rel)):
            file.seek(start)
            return file.read(length)

    def open_file(self, rel: str, *, buffer_bytes: int = 4 << 20) -> BinaryIO:
        del buffer_bytes  # the kernel reads ahead by itself
        path = self._at(paths.check_rel(rel))
        try:
            return open(path, "rb")
        except (IsADirectoryError, NotADirectoryError, FileNotFoundError) as exc:
            raise missing(path) from exc
        except OSError:
            with guarded("open", path):
                raise

    def write(self, rel: str, data: bytes) -> Identity:
        target = self._at(paths.check_rel(rel))
        with guarded("write", target, len(data)), self._incoming() as temp:
            _fill(temp, data)
            return self._land(temp, target)

    def create(self, rel: str, data: bytes) -> Identity:
        target = self._at(paths.check_rel(rel))
        with guarded("create", target, len(data)), self._incoming() as temp:
            _fill(temp, data)
            mine = os.stat(temp)
            try:
                self._in_folder(os.link, temp, target)
            except FileExistsError as exc:
                # NFS may repeat a link whose answer was lost: then the name is this very file.
                if not _same_file(temp, target):
                    raise existing(target) from exc
            except OSError as exc:
                if exc.errno not in _NO_LINKS:
                    raise
                mine = self._create_without_links(target, data)
            return Identity(mine.st_size, _token(mine))

    def _create_without_links(self, target: str, data: bytes) -> os.stat_result:
        """Exclusive, but not whole at once: the best that a file system without links can do."""
        try:
            _fill(target, data)
        except FileExistsError as exc:
            raise existing(target) from exc
        except OSError:
            os.unlink(target)
            raise
        return os.stat(target)

    def put(
        self, local_path: str | os.PathLike[str], rel: str, progress: Progress | None = None
    ) -> Identity:
        source, target = os.fspath(local_path), self._at(paths.check_rel(rel))
        if not os.path.isfile(source):
            raise FileNotFoundError(f"no such local file: {source}")
        with guarded("copy into the store", target, os.path.getsize(source)):
            with self._incoming() as temp:
                files.copy_file(source, temp, progress)
                return self._land(temp, target)

    def fetch(
        self,
        rel: str,
        local_path: str | os.PathLike[str],
        progress: Progress | None = None,
        *,
        sha256: str | None = None,
    ) -> Identity:
        identity = self._require(rel)
        source, target = self._at(rel), os.path.abspath(local_path)
        with guarded("copy out of the store", target, identity.size):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            temp = os.path.join(os.path.dirname(target), f".{os.urandom(16).hex()}.part")
            with _removed_at_end(temp):
                files.copy_file(source, temp, progress)
                if sha256 is not None and files.sha256_of(temp) != sha256:
                    raise ranges.damaged(source, identity.size)
                os.replace(temp, target)
        return identity

    def move(self, src: str, dst: str) -> Identity:
        identity = self._require(src)
        source, target = self._at(src), self._at(paths.check_rel(dst))
        if source == target:
            return identity
        with guarded("move", target, identity.size):
            moved = self._land(source, target)
            if _same_file(source, target):
                os.unlink(source)
            self._prune(source)
        return moved

    def copy(self, src: str, dst: str) -> Identity:
        identity = self._require(src)
        source, target = self._at(src), self._at(paths.check_rel(dst))
        if source == target:
            return identity
        with guarded("copy", target, identity.size), self._incoming() as temp:
            try:
                os.link(source, temp)
            except OSError as exc:
                if exc.errno not in _NO_LINKS:
                    raise
                files.copy_file(source, temp)
            return self._land(temp, target)

    def remove(self, rel: str) -> bool:
        path = self._at(paths.check_rel(rel))
        with guarded("remove", path):
            if os.path.isdir(path) and not os.path.islink(path):
                return False
            try:
                os.unlink(path)
            except OSError as exc:
                if exc.errno in _ABSENT:
                    return False
                raise
            self._prune(path)
        return True

    def remove_tree(self, rel: str) -> int:
        path = self._at(paths.check_rel(rel))
        with guarded("remove the folder", path):
            if not os.path.isdir(path):
                return 0
            trash = self._new_incoming()
            try:
                os.rename(path, trash)
            except FileNotFoundError:
                return 0
            except OSError as exc:
                if exc.errno != errno.EXDEV:
                    raise
                trash = path
            count = sum(len(names) for _, _, names in os.walk(trash))
            shutil.rmtree(trash)
            self._prune(path)
        return count

    def list(self, rel: str = "", recursive: bool = False) -> list[Entry]:
        path = self.path(rel)
        with guarded("list", path):
            found = list(self._walk(rel, path, recursive))
        return sorted(found, key=lambda entry: (entry.rel, entry.is_dir))

    def _walk(self, rel: str, path: str, recursive: bool) -> Iterator[Entry]:
        try:
            items = list(os.scandir(path))
        except OSError as exc:
            if exc.errno in _ABSENT:
                return
            raise
        for item in items:
            below = paths.join(rel, item.name)
            if item.name.startswith(paths.INCOMING):
                continue
            if item.is_dir():
                if not recursive:
                    yield Entry(item.name, below, None, is_dir=True)
                elif not item.is_symlink():
                    yield from self._walk(below, item.path, recursive)
                continue
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile, or a dangling link
                identity = _identity(os.stat(item.path))
                if identity:
                    yield Entry(item.name, below, identity, is_dir=False)

    def same_content(self, one: str, other: str) -> bool:
        return self._require(one) == self._require(other) or super().same_content(one, other)

    def free_bytes(self) -> int | None:
        folder = self._root
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        with guarded("measure the free space", folder):
            return shutil.disk_usage(folder).free

    def sweep(self, max_age_seconds: float) -> int:
        limit = time.time_ns() - int(max_age_seconds * 1e9)
        count = 0
        with guarded("remove unfinished files", self._incoming_root):
            if not os.path.isdir(self._incoming_root):
                return 0
            for item in os.scandir(self._incoming_root):
                born = item.name.partition("-")[0]
                if not born.isdigit() or int(born) > limit:
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if item.is_dir(follow_symlinks=False):
                        shutil.rmtree(item.path)
                    else:
                        os.unlink(item.path)
                    count += 1
        return count

    def rename_directory(self, src: str, dst: str) -> None:
        """Renames a whole folder in one step, after making its files durable.

        Raises:
            FileExistsError: `dst` is there and holds something.
            FileNotFoundError: there is no folder `src`.
        """
        source, target = self._at(paths.check_rel(src)), self._at(paths.check_rel(dst))
        with guarded("publish the folder", target):
            for folder, _, names in os.walk(source):
                for name in names:
                    files.sync_file(os.path.join(folder, name))
                files.sync_file(folder)
            try:
                self._in_folder(os.rename, source, target)
            except OSError as exc:
                if exc.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise existing(target) from exc
                raise
            files.sync_file(os.path.dirname(target))
            self._prune(source)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Holds a lock of this store on this machine; a dead holder's lock is free at once."""
        path = os.path.join(self._incoming_root, name)
        with guarded("lock", path), files.locked(path):
            yield

    def _at(self, rel: str) -> str:
        return f"{self._root}/{rel}" if self._root != "/" else f"/{rel}"

    def _new_incoming(self) -> str:
        os.makedirs(self._incoming_root, exist_ok=True)
        # The name tells the age: a hard link has the times of the file that it shares.
        return os.path.join(self._incoming_root, f"{time.time_ns()}-{os.urandom(16).hex()}")

    @contextlib.contextmanager
    def _incoming(self) -> Iterator[str]:
        """The path for a new file that is not visible yet; what is left there goes at the end."""
        temp = self._new_incoming()
        with _removed_at_end(temp):
            yield temp

    def _land(self, temp: str, target: str) -> Identity:
        identity = cast(Identity, _identity(os.stat(temp)))
        try:
            self._in_folder(os.replace, temp, target)
        except OSError as exc:
            if exc.errno != errno.EXDEV:
                raise
            return self._land_from_afar(temp, target)
        return identity

    def _land_from_afar(self, temp: str, target: str) -> Identity:
        """Lands a file where part of the store is another mounted file system."""
        beside = os.path.join(os.path.dirname(target), f"{paths.INCOMING}-{os.urandom(16).hex()}")
        with _removed_at_end(beside):
            files.copy_file(temp, beside)
            identity = cast(Identity, _identity(os.stat(beside)))
            os.replace(beside, target)
        os.unlink(temp)
        return identity

    def _in_folder(self, act: Callable[[str, str], None], source: str, target: str) -> None:
        """Does ``act(source, target)``, making the folder of `target` when it is missing.

        Repeats, since another process may prune the folder, empty still, between the two.
        """
        folder = os.path.dirname(target)
        for _ in range(_LANDINGS):
            try:
                return act(source, target)
            except FileNotFoundError:
                if not os.path.lexists(source):
                    raise
            # A folder that goes away again meanwhile makes makedirs itself stumble, either way.
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                os.makedirs(folder, exist_ok=True)
        message = "the folder was removed again and again while a file was to be put there"
        raise StoreError(message, where=folder, hint="find out which process removes it")

    def _prune(self, path: str) -> None:
        """Removes the folders above `path` that have become empty."""
        folder = os.path.dirname(path)
        keep = {self._root, os.path.join(self._root, BUILDING)}
        while folder not in keep and folder.startswith(self._root):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)


def _fill(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


@contextlib.contextmanager
def _removed_at_end(path: str) -> Iterator[None]:
    try:
        yield
    finally:
        # Also after success: renaming one of two hard links onto the other leaves both in place.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _token(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}:{found.st_ino}"


def _identity(found: os.stat_result) -> Identity | None:
    return Identity(found.st_size, _token(found)) if stat_module.S_ISREG(found.st_mode) else None


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except FileNotFoundError:
        return False
