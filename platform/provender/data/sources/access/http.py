"""Files on web servers, read by ranges where the server knows them."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from typing import Any

from provender.data.sources.access.files import DataFile, Pending, RangeReader, changed, gone
from provender.data.sources.access.transfer import NoRanges, ranged, repeated, submit
from provender.errors import StoreError

_BLOCK = 1 << 20


class Http:
    """Web servers.

    Args:
        options: as fsspec's ``HTTPFileSystem`` takes them, e.g. ``client_kwargs`` or ``headers``.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        import fsspec

        settings = dict(options)
        self._headers = dict(settings.pop("headers", {}))
        self._options = dict(options)
        self._fs = fsspec.filesystem("https", skip_instance_cache=True, **settings)

    @property
    def fs(self) -> Any:
        """The connection."""
        return self._fs

    def find(self, pattern: str) -> list[DataFile]:
        """The file at a URL; web servers have no listings, so no globs."""
        if "*" in pattern.split("?", 1)[0]:
            raise StoreError(
                "Files on web servers cannot be found by a pattern: there is no listing.",
                where=DataFile(pattern, 0).name,
                hint="Name each file, or use braces: part-{000..063}.jsonl.",
            )
        file = self.stat(pattern)
        return [file] if file else []

    def is_folder(self, url: str) -> bool:
        """Never: there is no listing."""
        del url
        return False

    def stat(self, url: str) -> DataFile | None:
        """A file as it is now; None where there is none."""
        file = DataFile(url, 0, options=self._options)

        async def look() -> bytes:
            session = await self._fs.set_session()
            # A range instead of HEAD: it tells the size, the ETag and whether ranges are known.
            headers = {**self._headers, "Range": "bytes=0-0", "Accept-Encoding": "identity"}
            async with session.get(self._fs.encode_url(url), headers=headers) as answer:
                if answer.status in (404, 410):
                    raise FileNotFoundError(url)
                if answer.status >= 429:
                    raise OSError(f"the server answered {answer.status}")
                if answer.status not in (200, 206, 416):
                    raise StoreError(
                        f"The server refuses the file: {answer.status}.",
                        where=file.name,
                        hint="Check the address and the credentials (storage_options).",
                    )
                found.update(_facts(answer))
            return b""

        found: dict[str, Any] = {}
        try:
            submit(repeated(look, file, 0), self._fs.loop, file).result()
        except StoreError as error:
            if "missing" in error.facts:
                return None
            raise
        size, tag = int(found["size"]), str(found["tag"])
        content = f"etag:{tag}" if tag else ""
        token = f"{'ranges' if found['ranges'] else 'whole'}|{tag}"
        return DataFile(url, size, token, content, self._options)

    def reader(self, file: DataFile) -> RangeReader:
        """A reader of the file; whole files are kept in a temporary file where ranges are not known."""
        if file.token.startswith("whole|"):
            return SpooledReader(file, self)
        return HttpReader(file, self)

    def request(self, session: Any, url: str, headers: Mapping[str, str]) -> Any:
        """One GET."""
        return session.get(self._fs.encode_url(url), headers={**self._headers, **headers})


def _facts(answer: Any) -> dict[str, Any]:
    """Size, ETag and whether ranges are known, from an answer to ``bytes=0-0``."""
    tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
    span = answer.headers.get("Content-Range", "")
    if answer.status in (206, 416) and span.rpartition("/")[2].isdigit():
        return {"size": int(span.rpartition("/")[2]), "tag": tag, "ranges": True}
    size = answer.headers.get("Content-Length")
    return {"size": int(size) if size else -1, "tag": tag, "ranges": False}


class HttpReader(RangeReader):
    """Reads by range requests; another ETag or size is another file."""

    def __init__(self, file: DataFile, place: Http) -> None:
        super().__init__(file)
        self._place = place

    def begin(self, start: int, length: int) -> Pending:
        fs = self._place.fs
        return submit(self._fetch(start, length), fs.loop, self.file)

    async def _fetch(self, start: int, length: int) -> bytes:
        session = await self._place.fs.set_session()

        def request(headers: Mapping[str, str]) -> Any:
            return self._place.request(session, self.file.url, headers)

        try:
            return await ranged(request, self.file, start, length, check=self._check)
        except NoRanges:
            raise changed(self.file, "the server no longer answers ranges") from None

    def _check(self, answer: Any) -> None:
        now = _facts(answer)
        tag = self.file.token.partition("|")[2]
        if now["ranges"] and now["size"] != self.size:
            raise changed(self.file, f"{self.size:,} bytes then, {now['size']:,} now")
        if tag and now["tag"] and now["tag"] != tag:
            raise changed(self.file, "it has another ETag or date")


class SpooledReader(RangeReader):
    """A file of a server without ranges: fetched once, in order, into a temporary file."""

    is_remote = False

    def __init__(self, file: DataFile, place: Http) -> None:
        super().__init__(file)
        self._place = place
        self._lock = threading.Lock()
        self._spool: Any = None
        if file.size < 0:  # the server does not say: only having it tells
            self._whole()

    def _whole(self) -> Any:
        with self._lock:
            if self._spool is None:
                self._spool = tempfile.TemporaryFile(prefix="provender-spool-")  # noqa: SIM115
                try:
                    self._download()
                except BaseException:
                    self._spool.close()
                    self._spool = None
                    raise
            return self._spool

    def _download(self) -> None:
        spool, file, place = self._spool, self.file, self._place

        async def once() -> bytes:
            spool.seek(0)
            spool.truncate()
            session = await place.fs.set_session()
            async with place.request(session, file.url, {"Accept-Encoding": "identity"}) as answer:
                if answer.status == 404:
                    raise gone(file.name)
                if answer.status != 200:
                    raise OSError(f"the server answered {answer.status}")
                async for part in answer.content.iter_chunked(_BLOCK):
                    spool.write(part)
            if file.size >= 0 and spool.tell() != file.size:
                raise OSError(f"{spool.tell():,} of {file.size:,} bytes arrived")
            return b""

        submit(repeated(once, file, 0), place.fs.loop, file).result()
        self.size = spool.tell()

    def begin(self, start: int, length: int) -> Pending:
        return _Later(self, start, length)

    def read(self, start: int, length: int) -> bytes:
        import os

        self._whole()
        data = os.pread(self._spool.fileno(), length, start)
        if len(data) != length:
            raise changed(self.file, f"it ends at byte {start + len(data):,}")
        return data

    def close(self) -> None:
        with self._lock:
            if self._spool is not None:
                self._spool.close()
                self._spool = None


class _Later:
    def __init__(self, reader: RangeReader, start: int, length: int) -> None:
        self._reader, self._start, self._length = reader, start, length

    def result(self) -> bytes:
        return self._reader.read(self._start, self._length)

    def cancel(self) -> None:
        """Nothing has begun."""
