"""Files on local disks."""

# Paths are plain strings here, as in provender.store: addresses are no Paths.
# ruff: noqa: PTH111, PTH112

from __future__ import annotations

import glob as globbing
import os

from provender.data.sources.access.files import DataFile, Pending, RangeReader, changed, gone
from provender.errors import StoreError


class Local:
    """The local file system."""

    def find(self, pattern: str) -> list[DataFile]:
        """The files that a glob pattern matches, sorted; a plain path matches itself."""
        path = local_path(pattern)
        if not globbing.has_magic(path) or os.path.lexists(path):
            file = self.stat(path)
            return [file] if file else []
        found = (self.stat(each) for each in globbing.iglob(path, recursive=True))
        return sorted((each for each in found if each), key=lambda file: file.url)

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        return os.path.isdir(local_path(path))

    def stat(self, path: str) -> DataFile | None:
        """A file as it is now; None where there is none."""
        path = local_path(path)
        try:
            info = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from error
        if os.path.isdir(path):
            return None
        return DataFile(path, info.st_size, _token(info))

    def reader(self, file: DataFile) -> RangeReader:
        """A reader of the file."""
        return LocalReader(file)


class LocalReader(RangeReader):
    """Reads with ``pread``; the operating system reads ahead.

    Raises:
        StoreError: the file is missing, or other than it was.
    """

    is_remote = False
    _fd: int | None = None

    def __init__(self, file: DataFile) -> None:
        super().__init__(file)
        try:
            self._fd = os.open(file.url, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise gone(file.name) from None
        except OSError as error:
            raise _unreadable(file.url, error) from error
        info = os.fstat(self._fd)
        if file.token and _token(info) != file.token:
            self.close()
            raise changed(file, f"{file.size:,} bytes then, {info.st_size:,} now")

    def read(self, start: int, length: int) -> bytes:
        assert self._fd is not None
        parts: list[bytes] = []
        while length > 0:
            try:
                part = os.pread(self._fd, length, start)
            except OSError as error:
                raise _unreadable(self.file.url, error) from error
            if not part:
                raise changed(self.file, f"it ends at byte {start:,}")
            parts.append(part)
            start += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def begin(self, start: int, length: int) -> Pending:
        return _Later(self, start, length)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __del__(self) -> None:
        self.close()


class _Later:
    """A local read, done when its bytes are wanted."""

    def __init__(self, reader: LocalReader, start: int, length: int) -> None:
        self._reader, self._start, self._length = reader, start, length

    def result(self) -> bytes:
        return self._reader.read(self._start, self._length)

    def cancel(self) -> None:
        """Nothing has begun."""


def local_path(path: str) -> str:
    """The absolute form of a path or ``file://`` URL; ``~`` is the home directory."""
    for scheme in ("file://", "local://"):
        if path.startswith(scheme):
            path = path[len(scheme) :]
    return os.path.abspath(os.path.expanduser(path))


def _token(info: os.stat_result) -> str:
    return f"{info.st_size}:{info.st_mtime_ns}"


def _unreadable(path: str, error: OSError) -> StoreError:
    return StoreError(
        f"The file cannot be read: {error.strerror or error}.",
        where=path,
        hint="Check its permissions and the disk.",
    )
