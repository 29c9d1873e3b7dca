"""A store in a Google Cloud Storage bucket."""

# Paths are plain strings here: pathlib costs more than the system call, and URLs are no Paths.
# ruff: noqa: PTH113

from __future__ import annotations

import os
from typing import Any

from provender.errors import StoreError
from provender.store import paths, relay
from provender.store.base import existing, missing
from provender.store.faults import guarded
from provender.store.remote import Pinned, RemoteStore
from provender.store.values import Entry, Identity, Progress


class GcsStore(RemoteStore):
    """Files under ``gs://bucket/prefix``.

    The identity token is the object's generation. Uploads are whole or absent and checked by
    crc32c; `create` uses ``if-generation-match=0``. Listings are never cached. There is no rename:
    `move` copies on the server and then removes.

    Args:
        rest: ``bucket`` or ``bucket/prefix``.
        scratch: local folder for work in progress.
    """

    def __init__(self, rest: str, scratch: str | None = None) -> None:
        super().__init__(f"gs://{rest}", scratch)
        self._kept: Any = None
        self._bucket_name, _, self._prefix = rest.rstrip("/").partition("/")
        if not self._bucket_name:
            raise StoreError(
                "the store's URL names no bucket",
                where=f"gs://{rest}",
                hint="use gs://bucket or gs://bucket/prefix",
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return (GcsStore, (self.url.removeprefix("gs://"), self._scratch))

    def _make_fs(self) -> Any:
        from provender.store.gcs_filesystem import connect

        return connect(self.url)

    @property
    def _bucket(self) -> Any:
        from provender.store.gcs_bucket import Bucket

        return Bucket(self.fs, self._bucket_name)

    def _key(self, rel: str) -> str:
        return paths.join(self._prefix, paths.check_rel(rel))

    def _get(self, rel: str) -> Any:
        key = self._key(rel)
        with guarded("look at an object", self.path(rel)):
            return self._bucket.get(key)

    def stat(self, rel: str) -> Identity | None:
        found = self._get(rel)
        return found.identity if found else None

    def _pin(self, rel: str) -> Pinned:
        from provender.store.gcs_download import Downloads

        found, where, bucket = self._get(rel), self.path(rel), self._bucket
        if found is None:
            raise missing(where)

        def read(start: int, length: int) -> bytes:
            with guarded("read", where):
                try:
                    return bucket.read_range(found.name, found.identity.token, start, length)
                except FileNotFoundError as exc:
                    message = f"replaced or removed since it was opened: {where}"
                    raise FileNotFoundError(message) from exc

        if not Downloads.serve(self.fs):
            return Pinned(found.identity, read, found.crc32c)
        downloads, name, token = self._downloads(), found.name, found.identity.token

        def stream(start: int, length: int) -> relay.Source:
            return bucket.open_range(downloads, name, token, start, length, where)

        return Pinned(found.identity, read, found.crc32c, stream)

    def _downloads(self) -> Any:
        """The connections for downloads, which are those of one file system."""
        from provender.store.gcs_download import Downloads

        kept = self._kept
        if kept is None or kept.fs is not self.fs:
            kept = self._kept = Downloads(self.fs)
        return kept

    def read(self, rel: str) -> bytes:
        key, where = self._key(rel), self.path(rel)
        with guarded("read", where):
            try:
                return self._bucket.read(key)
            except FileNotFoundError as exc:
                raise missing(where) from exc

    def write(self, rel: str, data: bytes) -> Identity:
        key, where = self._key(rel), self.path(rel)
        with guarded("write", where, len(data)):
            return self._or_no_bucket(where, lambda: self._bucket.upload(key, data))

    def create(self, rel: str, data: bytes) -> Identity:
        key, where = self._key(rel), self.path(rel)
        with guarded("create", where, len(data)):
            try:
                return self._or_no_bucket(where, lambda: self._bucket.create(key, data))
            except FileExistsError as exc:
                raise existing(where) from exc

    def put(
        self, local_path: str | os.PathLike[str], rel: str, progress: Progress | None = None
    ) -> Identity:
        from provender.store.gcs_upload import PIECE

        key, where, source = self._key(rel), self.path(rel), os.fspath(local_path)
        if not os.path.isfile(source):
            raise FileNotFoundError(f"no such local file: {source}")
        with open(source, "rb") as file, guarded("upload", where):
            size = os.fstat(file.fileno()).st_size
            if size <= PIECE:
                data = file.read()
                identity = self._or_no_bucket(where, lambda: self._bucket.upload(key, data))
            else:
                identity = self._or_no_bucket(
                    where, lambda: self._bucket.upload_file(key, file, size, progress)
                )
        if progress:
            progress(size, size)
        return identity

    def _or_no_bucket(self, where: str, act: Any) -> Identity:
        from provender.store.gcs_bucket import bucket_missing

        try:
            return act().identity
        except FileNotFoundError as exc:
            raise bucket_missing(where) from exc

    def copy(self, src: str, dst: str) -> Identity:
        source, target = self._key(src), self._key(dst)
        if source == target:
            return self._require(src)
        with guarded("copy", self.path(dst)):
            try:
                return self._bucket.copy(source, target).identity
            except FileNotFoundError as exc:
                raise missing(self.path(src)) from exc

    def exists(self, rel: str) -> bool:
        if self.stat(rel) is not None:
            return True
        with guarded("list", self.path(rel)):
            try:
                below = self._bucket.list(f"{self._key(rel)}/", None, page=1)
                return next(below, None) is not None
            except FileNotFoundError:
                return False

    def remove(self, rel: str) -> bool:
        key = self._key(rel)
        with guarded("remove", self.path(rel)):
            return self._bucket.delete(key)

    def list(self, rel: str = "", recursive: bool = False) -> list[Entry]:
        folder = paths.join(self._prefix, paths.check_directory(rel))
        prefix = f"{folder}/" if folder else ""
        where = self.path(rel)
        found = []
        with guarded("list", where):
            try:
                for item in self._bucket.list(prefix, None if recursive else "/"):
                    is_dir = isinstance(item, str)
                    name = (item if is_dir else item.name)[len(prefix) :]
                    if not is_dir and (not name or name.endswith("/")):
                        continue  # the placeholder that consoles make for an empty folder
                    below = paths.join(rel, name.rstrip("/"))
                    identity = None if is_dir else item.identity
                    found.append(Entry(below.rpartition("/")[2], below, identity, is_dir))
            except FileNotFoundError as exc:
                from provender.store.gcs_bucket import bucket_missing

                raise bucket_missing(where) from exc
        return sorted(found, key=lambda entry: (entry.rel, entry.is_dir))

    def same_content(self, one: str, other: str) -> bool:
        found = [self._get(rel) for rel in (one, other)]
        for rel, blob in zip((one, other), found, strict=True):
            if blob is None:
                raise missing(self.path(rel))
        if found[0].identity.size != found[1].identity.size:
            return False
        sums = {blob.crc32c for blob in found}
        return len(sums) == 1 if None not in sums else super().same_content(one, other)
