"""Shards of remote stores on the local disk: downloaded once a host, proven, and kept within a limit.

Processes of one host share a folder. A shard is one file, named by its content where its digest is
known. Whoever needs it first downloads it under a lock, while others wait; everyone holds a shared
lock on the file as long as it is open, so that what is in use is never removed. A process that
dies gives its locks back, and the part it downloaded is gone on with.

    <folder>/<2 hex>/<key>            the shard
    <folder>/<2 hex>/<key>.proof      what it looked like when its content was proven
    <folder>/<2 hex>/<key>.part       a download under way; <key>.part.json says of what
    <folder>/<2 hex>/<key>.lock       held by the one that downloads
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from provender.errors import DamageError, SettingsError, StoreError
from provender.training.disks import CacheFull, unusable_disk

if TYPE_CHECKING:
    from provender.store import Store

DEFAULT_LIMIT = 50 << 30
LIMIT_VARIABLE = "PROVENDER_SHARD_CACHE_LIMIT"
FOLDER_VARIABLE = "PROVENDER_SHARD_CACHE"
_BLOCK = 256 << 10
_POLL = 0.02
_STALE_SECONDS = 7 * 86_400
_SPARE = 64 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShardKey:
    """Which shard is meant, and what its bytes must be.

    Attributes:
        source: its address, without secrets; for messages, and for the key where no digest is known.
        size: bytes.
        sha256: 64 hex digits, or None.
        crc32c: 8 hex digits, or None.
        token: the store's identity of this version of it.
    """

    source: str
    size: int
    sha256: str | None = None
    crc32c: str | None = None
    token: str = ""

    @property
    def name(self) -> str:
        """The file name in the cache: the content's digest, or one of address and version."""
        if self.sha256:
            return self.sha256
        text = "\0".join([self.source, str(self.size), self.crc32c or "", self.token])
        return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


class HeldShard:
    """A shard in the cache that stays there while this object is open.

    Attributes:
        path: the local file; only to be read.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd: int | None = fd

    def close(self) -> None:
        """Lets the cache remove the file when it needs room."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> HeldShard:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class ShardCache:
    """A folder of shards.

    Args:
        folder: made on first use.
        limit: most bytes of shards; the ones used longest ago make room for new ones.
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.folder = Path(folder)
        self.limit = limit

    @classmethod
    def current(cls, home: Path | None = None) -> ShardCache:
        """The cache that the settings name.

        ``PROVENDER_SHARD_CACHE`` is its folder (by default ``shards`` in the project's home),
        ``PROVENDER_SHARD_CACHE_LIMIT`` its limit (``20GB``; by default 50 GiB).

        Args:
            home: of the project; by default as provender.toml and the environment say.

        Raises:
            SettingsError: the limit cannot be read.
        """
        folder = os.environ.get(FOLDER_VARIABLE)
        if not folder:
            from provender.settings import load_settings

            folder = str((home or load_settings().home) / "shards")
        limit = os.environ.get(LIMIT_VARIABLE)
        return cls(Path(folder).expanduser(), _limit(limit) if limit else DEFAULT_LIMIT)

    # ------------------------------------------------------------------ getting a shard

    def hold(
        self,
        key: ShardKey,
        fetch: Callable[[Path], Any],
        cancelled: Callable[[], bool] | None = None,
    ) -> HeldShard:
        """The shard as a local file, downloaded unless it is there.

        Args:
            key: which.
            fetch: brings it to a path; what it leaves in ``<path>.part`` it may go on with later.
            cancelled: asked while another process downloads; True ends the wait.

        Raises:
            CacheFull: there is no room for it; read it from where it lies.
            DamageError: what was fetched is not the shard, twice.
            StoreError: it cannot be fetched.
        """
        return self._hold(key, fetch, cancelled, proves=False)

    def _hold(
        self,
        key: ShardKey,
        fetch: Callable[[Path], Any],
        cancelled: Callable[[], bool] | None,
        proves: bool,
    ) -> HeldShard:
        path = self._path(key)
        held = self._open(path, key)
        if held is not None:
            return held
        with unusable_disk(path, made=True):
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone(path, key, cancelled):
            held = self._open(path, key)  # another process was faster
            if held is not None:
                return held
            return self._download(path, key, fetch, proves)

    def hold_from(self, store: Store, rel: str, key: ShardKey) -> HeldShard:
        """`hold` for a file of a store.

        Raises:
            FileNotFoundError: the store has no such file.
        """

        def fetch(path: Path) -> None:
            store.fetch(rel, path, sha256=key.sha256)

        # A store that is told the digest compares it as the bytes arrive.
        return self._hold(key, fetch, None, proves=key.sha256 is not None)

    def has(self, key: ShardKey) -> bool:
        """Whether a shard was brought here; it may be on its way out."""
        return _proof(self._path(key)).exists()

    def _path(self, key: ShardKey) -> Path:
        return self.folder / key.name[:2] / key.name

    def _open(self, path: Path, key: ShardKey) -> HeldShard | None:
        """Opens a shard that is there, holding it; None where it is missing or damaged."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        keep = False
        try:
            with unusable_disk(path):
                fcntl.flock(fd, fcntl.LOCK_SH)
            # It may have been removed between opening and locking.
            with contextlib.suppress(FileNotFoundError):
                if not os.path.samestat(os.fstat(fd), path.stat()):
                    return None
                if self._is_proven(path, key, fd):
                    # The time of use stands at the proof: at the shard it would change what the
                    # shard looks like.
                    with contextlib.suppress(OSError):
                        os.utime(_proof(path))
                    keep = True
                    return HeldShard(path, fd)
                _log.warning("the cached copy of %s is damaged and is fetched again", key.source)
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
            return None
        finally:
            if not keep:
                os.close(fd)

    def _is_proven(self, path: Path, key: ShardKey, fd: int) -> bool:
        """Whether the content is right; read only if the file looks different from when it was."""
        looks = _looks(os.fstat(fd))
        proof = _proof(path)
        with contextlib.suppress(OSError, ValueError):
            if json.loads(proof.read_text("utf-8")) == looks:
                return True
        if _mismatch(path, key) is not None:
            return False
        _write(proof, json.dumps(looks))
        return True

    def _download(
        self, path: Path, key: ShardKey, fetch: Callable[[Path], Any], proves: bool
    ) -> HeldShard:
        self._make_room(key, path)
        for attempt in range(2):
            wrong = self._fetched(path, key, fetch, proves)
            if wrong is None:
                break
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            if attempt:
                raise DamageError(
                    f"The shard that was fetched {wrong}.",
                    where=key.source,
                    hint="`provender verify` tells whether the store is damaged.",
                )
        with unusable_disk(path, made=True):
            _write(_proof(path), json.dumps(_looks(path.stat())))
        held = self._open(path, key)
        if held is None:  # somebody removed it at once: the cache is of no use here
            raise CacheFull("The shard was removed right after it was fetched.", where=str(path))
        return held

    def _fetched(
        self, path: Path, key: ShardKey, fetch: Callable[[Path], Any], proves: bool
    ) -> str | None:
        """Fetches; returns what is wrong with what came, None if nothing."""
        try:
            with unusable_disk(path):
                fetch(path)
        except CacheFull:
            # What was downloaded takes the room that others need.
            for each in (f"{path.name}.part", f"{path.name}.part.json"):
                path.with_name(each).unlink(missing_ok=True)
            raise
        except DamageError:
            if not proves:
                raise
            return "has another sha256"
        except FileNotFoundError as error:
            if path.parent.is_dir():
                raise  # the store has no such file
            message = "Its folder was removed while a shard was fetched."
            raise CacheFull(message, where=str(path.parent)) from error
        return _wrong_size(path, key) if proves else _mismatch(path, key)

    @contextlib.contextmanager
    def _alone(
        self, path: Path, key: ShardKey, cancelled: Callable[[], bool] | None
    ) -> Iterator[None]:
        """Holds a shard's download lock."""
        lock = path.with_name(f"{path.name}.lock")
        with unusable_disk(path, made=True):
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while True:
                try:
                    with unusable_disk(path):
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if cancelled is not None and cancelled():
                        raise StoreError("The read was given up.", where=key.source) from None
                    time.sleep(_POLL)
            yield
        finally:
            os.close(fd)

    # ------------------------------------------------------------------ room

    def _make_room(self, key: ShardKey, path: Path) -> None:
        """Removes shards used longest ago until the new one fits.

        Raises:
            CacheFull: it does not, with all that can be removed gone.
        """
        if key.size > self.limit:
            raise CacheFull(
                f"A shard of {key.size:,} bytes is larger than the whole cache ({self.limit:,}).",
                where=key.source,
                hint=f"Raise {LIMIT_VARIABLE}.",
            )
        with self._one_at_a_time():
            shards, under_way = self._inventory(but=path)
            used = sum(size for _, _, size in shards) + under_way
            for _, victim, size in sorted(shards):
                free = shutil.disk_usage(self.folder).free
                if used + key.size <= self.limit and free >= key.size + _SPARE:
                    return
                if self._remove(victim):
                    used -= size
            free = shutil.disk_usage(self.folder).free
            if used + key.size > self.limit or free < key.size:
                raise CacheFull(
                    f"There is no room for {key.size:,} bytes: {used:,} of {self.limit:,} are in "
                    f"use, {free:,} are free on the disk.",
                    where=str(self.folder),
                    hint=f"Raise {LIMIT_VARIABLE}, or free some space.",
                )

    def _inventory(self, but: Path) -> tuple[list[tuple[int, Path, int]], int]:
        """Last use, path and size of every shard, and the bytes that downloads will still take."""
        shards: list[tuple[int, Path, int]] = []
        under_way = 0
        for folder in self._folders():
            for entry in os.scandir(folder):
                with contextlib.suppress(OSError, ValueError, KeyError):
                    if entry.name.endswith(".part.json"):
                        part = Path(entry.path).with_name(entry.name.removesuffix(".json"))
                        if _abandoned(part):
                            part.unlink(missing_ok=True)
                            Path(entry.path).unlink(missing_ok=True)
                        elif not entry.name.startswith(but.name):
                            under_way += int(
                                json.loads(Path(entry.path).read_text("utf-8"))["size"]
                            )
                    elif "." not in entry.name:
                        shards.append(
                            (_used(Path(entry.path)), Path(entry.path), entry.stat().st_size)
                        )
        return shards, under_way

    def _folders(self) -> list[Path]:
        with contextlib.suppress(FileNotFoundError):
            return [
                Path(e.path) for e in os.scandir(self.folder) if e.is_dir() and len(e.name) == 2
            ]
        return []

    def _remove(self, path: Path) -> bool:
        """Removes a shard unless somebody holds it."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            _proof(path).unlink(missing_ok=True)
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        with unusable_disk(self.folder, made=True):
            self.folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            with unusable_disk(self.folder):
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # ------------------------------------------------------------------ for people

    @property
    def size(self) -> int:
        """Bytes of all shards in the cache."""
        return sum(size for _, _, size in self._inventory(but=Path())[0])

    def clear(self) -> int:
        """Removes every shard that nobody holds; returns the bytes."""
        shards, _ = self._inventory(but=Path())
        return sum(size for _, path, size in shards if self._remove(path))


_warned: set[str] = set()
_warning_lock = threading.Lock()


def warn_once(error: CacheFull) -> None:
    """Says, once in a process, that shards are read from their store instead of the cache."""
    with _warning_lock:
        if "full" in _warned:
            return
        _warned.add("full")
    import warnings

    warnings.warn(
        f"The local shard cache is not used: {error.message} Shards are streamed from their store.",
        RuntimeWarning,
        stacklevel=3,
    )


def _limit(text: str) -> int:
    from provender.settings import parse_size

    size = parse_size(text)
    if size is None:
        raise SettingsError(
            f"{text!r} is no number of bytes.", where=LIMIT_VARIABLE, hint="Write e.g. 20GB."
        )
    return size


def _wrong_size(path: Path, key: ShardKey) -> str | None:
    size = path.stat().st_size
    return None if size == key.size else f"has {size:,} bytes instead of {key.size:,}"


def _mismatch(path: Path, key: ShardKey) -> str | None:
    """What is wrong with a file's content; None if nothing."""
    if (wrong := _wrong_size(path, key)) is not None:
        return wrong
    if key.sha256 is None and key.crc32c is None:
        return None
    with path.open("rb", buffering=0) as file:
        if key.sha256 is not None:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            return None if found == key.sha256 else "has another sha256"
        return None if _crc32c(file) == key.crc32c else "has another crc32c"


def _crc32c(file: BinaryIO) -> str:
    import google_crc32c

    crc = 0
    while block := file.read(_BLOCK):
        crc = google_crc32c.extend(crc, block)
    return f"{crc:08x}"


def _looks(info: os.stat_result) -> list[int]:
    # The time of the last change of any kind cannot be set back, unlike that of the content.
    return [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]


def _used(path: Path) -> int:
    """When a shard was used last; when it came, if it has no proof yet."""
    try:
        return _proof(path).stat().st_mtime_ns
    except FileNotFoundError:
        return path.stat().st_mtime_ns


def _proof(path: Path) -> Path:
    return path.with_name(f"{path.name}.proof")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def _abandoned(part: Path) -> bool:
    """Whether a part has not grown for a week."""
    try:
        return time.time() - part.stat().st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return True
