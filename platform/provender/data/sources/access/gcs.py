"""Objects in Google Cloud Storage, read by generation."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import Any

from provender.data.sources.access.files import DataFile, Pending, RangeReader
from provender.data.sources.access.transfer import Retry, ranged, submit
from provender.errors import StoreError


class Gcs:
    """One bucket, with the credentials of this process.

    Args:
        bucket: its name.
    """

    def __init__(self, bucket: str) -> None:
        from provender.store.gcs import GcsStore

        self._name = bucket
        self._store = GcsStore(bucket)

    @property
    def fs(self) -> Any:
        """The connection of this process."""
        return self._store.fs

    @property
    def _bucket(self) -> Any:
        return self._store._bucket

    def find(self, pattern: str) -> list[DataFile]:
        """The objects that a glob pattern matches, sorted; a name without magic is itself."""
        key = self._key(pattern)
        if not re.search(r"[*?\[]", key):
            file = self.stat(pattern)
            return [file] if file else []
        prefix = re.split(r"[*?\[]", key, maxsplit=1)[0]
        wanted = glob_pattern(key)
        with self._guarded("list", prefix):
            found = [each for each in self._bucket.list(prefix, None) if not isinstance(each, str)]
        files = [self._file(each) for each in found if wanted.fullmatch(each.name)]
        return sorted(files, key=lambda file: file.url)

    def is_folder(self, url: str) -> bool:
        """Whether objects lie below."""
        with self._guarded("list", url):
            below = self._bucket.list(f"{self._key(url).rstrip('/')}/", None, page=1)
            return next(below, None) is not None

    def stat(self, url: str) -> DataFile | None:
        """An object as it is now; None where there is none."""
        with self._guarded("look at", url):
            blob = self._bucket.get(self._key(url))
        return self._file(blob) if blob else None

    def reader(self, file: DataFile) -> RangeReader:
        """A reader of the object's generation."""
        return GcsReader(file, self)

    def media_url(self, file: DataFile) -> str:
        """Where the bytes of an object are asked for."""
        url: str = self._bucket._media(self._key(file.url))
        return url

    def _key(self, url: str) -> str:
        return url.partition("://")[2].partition("/")[2]

    def _file(self, blob: Any) -> DataFile:
        crc = f"crc32c:{blob.crc32c:08x}" if blob.crc32c is not None else ""
        url = f"gs://{self._name}/{blob.name}"
        return DataFile(url, blob.identity.size, str(blob.identity.token), crc)

    def _guarded(self, action: str, url: str) -> Any:
        from provender.store.faults import guarded

        return _MissingBucket(guarded(action, url), self._name)


class _MissingBucket:
    """A block in which a missing bucket is told as such."""

    def __init__(self, inner: Any, bucket: str) -> None:
        self._inner, self._bucket = inner, bucket

    def __enter__(self) -> None:
        self._inner.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if isinstance(error, FileNotFoundError):
            raise StoreError(
                f"There is no bucket {self._bucket}, or this account may not see it.",
                where=f"gs://{self._bucket}",
                hint="Check the name: gcloud storage buckets list.",
            ) from error
        return self._inner.__exit__(kind, error, trace)


class GcsReader(RangeReader):
    """Reads one generation by range requests."""

    def __init__(self, file: DataFile, place: Gcs) -> None:
        super().__init__(file)
        self._place = place
        self._pid = os.getpid()

    def begin(self, start: int, length: int) -> Pending:
        fs = self._place.fs
        return submit(self._fetch(fs, start, length), fs.loop, self.file)

    async def _fetch(self, fs: Any, start: int, length: int) -> bytes:
        await fs._set_session()
        url = self._place.media_url(self.file)

        def request(headers: Any) -> Any:
            params = {"alt": "media"}
            if self.file.token:
                params["generation"] = self.file.token
            return fs.session.request(
                "GET",
                fs._format_path(url, ()),
                params=fs._get_params(params),
                headers=fs._get_headers(dict(headers)),
                timeout=fs.requests_timeout,
            )

        retry = Retry(fs.retry.attempts, fs.retry.first, fs.retry.ceiling)
        return await ranged(request, self.file, start, length, retry)


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob pattern over ``/``-separated names: ``*`` stays in a part, ``**`` crosses parts."""
    out, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at):
            out.append("(?:.*/)?")
            at += 3
            continue
        if pattern.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := pattern.find("]", at + 2)) > 0:
            out.append(fnmatch.translate(pattern[at : end + 1])[4:-3])
            at = end
        else:
            out.append(re.escape(char))
        at += 1
    return re.compile("".join(out), re.DOTALL)
