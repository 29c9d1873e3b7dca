"""Files behind any other fsspec file system."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from provender.data.sources.access.files import DataFile, Pending, RangeReader, changed, gone
from provender.data.sources.access.transfer import LoopPending, repeated, submit
from provender.errors import StoreError

_TOKENS = (
    "generation",
    "ETag",
    "etag",
    "version_id",
    "mtime",
    "LastModified",
    "last_modified",
    "modified",
)
_CHECKSUMS = ("ETag", "etag", "md5", "crc32c")


class Generic:
    """An fsspec file system.

    Args:
        url: any address on it.
        options: its arguments (``storage_options``).

    Raises:
        StoreError: there is no such file system, or it cannot be set up.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import fsspec

        self._options = dict(options)
        settings = {"use_listings_cache": False, **options}
        try:
            self.fs, _ = fsspec.core.url_to_fs(url, **settings)
        except TypeError:
            self.fs, _ = fsspec.core.url_to_fs(url, **dict(options))
        except (ValueError, ImportError) as error:
            raise StoreError(
                f"There is no way to read {url.partition('://')[0]}:// : {error}",
                where=DataFile(url, 0).name,
                hint="Use a path, gs://, https://, or install the fsspec package for it.",
            ) from error

    def find(self, pattern: str) -> list[DataFile]:
        """The files that a glob pattern matches, sorted."""
        path = self._path(pattern)
        if not any(char in path for char in "*?["):
            file = self.stat(pattern)
            return [file] if file else []
        found = self.fs.glob(path, detail=True)
        files = [self._file(self._url(pattern, name), info) for name, info in found.items()]
        return sorted((each for each in files if each), key=lambda file: file.url)

    def is_folder(self, url: str) -> bool:
        """Whether there is such a folder."""
        return bool(self.fs.isdir(self._path(url)))

    def stat(self, url: str) -> DataFile | None:
        """A file as it is now; None where there is none."""
        try:
            return self._file(url, self.fs.info(self._path(url)))
        except FileNotFoundError:
            return None

    def reader(self, file: DataFile) -> RangeReader:
        """A reader of the file as it was found."""
        return GenericReader(file, self)

    def _path(self, url: str) -> str:
        head = url.partition("::")[2] and url.partition("::")[0]
        path: str = self.fs._strip_protocol(head or url)
        return path

    def _url(self, pattern: str, name: str) -> str:
        scheme, _, rest = pattern.partition("://")
        head, chained, behind = rest.partition("::")
        del head
        return f"{scheme}://{name.lstrip('/') if chained else name}{chained}{behind}"

    def _file(self, url: str, info: Mapping[str, Any]) -> DataFile | None:
        if info.get("type", "file") != "file":
            return None
        token = next((str(info[key]) for key in _TOKENS if info.get(key) is not None), "")
        content = next((f"{key.lower()}:{info[key]}" for key in _CHECKSUMS if info.get(key)), "")
        return DataFile(url, int(info["size"]), token, content, self._options)


class GenericReader(RangeReader):
    """Reads with ``cat_file``: as a task of the event loop, or in a thread where there is none."""

    def __init__(self, file: DataFile, place: Generic) -> None:
        super().__init__(file)
        self._place = place
        self._at = place._path(file.url)
        now = place.stat(file.url)
        if now is None:
            raise gone(file.name)
        if file.token and (now.token, now.size) != (file.token, file.size):
            raise changed(file)

    def begin(self, start: int, length: int) -> Pending:
        fs = self._place.fs
        if getattr(fs, "async_impl", False):
            return submit(self._fetch(fs, start, length), fs.loop, self.file)
        return _InThread(self, start, length)

    async def _fetch(self, fs: Any, start: int, length: int) -> bytes:
        async def attempt() -> bytes:
            return self._whole(
                await fs._cat_file(self._at, start=start, end=start + length), length
            )

        return await repeated(attempt, self.file, start)

    def read_now(self, start: int, length: int) -> bytes:
        """Reads in this thread, with retries."""
        import asyncio

        async def attempt() -> bytes:
            data = self._place.fs.cat_file(self._at, start=start, end=start + length)
            return self._whole(data, length)

        return asyncio.run(repeated(attempt, self.file, start))

    def _whole(self, data: bytes, length: int) -> bytes:
        if len(data) != length:
            raise EOFError(f"{len(data):,} of {length:,} bytes arrived")
        return data


class _InThread(LoopPending):
    """A read in a daemon thread, which ends with its one request even if nobody waits."""

    def __init__(self, reader: GenericReader, start: int, length: int) -> None:
        future: Future[bytes] = Future()
        super().__init__(future, reader.file)

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(reader.read_now(start, length))
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                future.set_exception(error)

        threading.Thread(target=run, name="provender-range", daemon=True).start()
