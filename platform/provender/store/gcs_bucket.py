"""One bucket through Google Cloud Storage's JSON API.

https://cloud.google.com/storage/docs/json_api/v1/objects describes the calls. Names are quoted
whole, so any object name works.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import quote

from provender.errors import StoreError
from provender.store import files
from provender.store.gcs_download import Downloads, MediaRange
from provender.store.gcs_filesystem import Filesystem
from provender.store.gcs_upload import Upload
from provender.store.values import Identity, Progress

_FIELDS = "name,size,generation,crc32c,metadata"
_COMMIT = "provender-create"
_SESSIONS = 3


class TransferDamaged(Exception):
    """The bytes at the other end are not those that were sent."""


@dataclass(frozen=True, slots=True)
class Blob:
    """An object as the service describes it."""

    name: str
    identity: Identity
    crc32c: int | None
    metadata: dict[str, str]

    @staticmethod
    def parse(doc: dict[str, Any]) -> Blob:
        """Reads an object resource; composite and emulated objects may lack a checksum."""
        crc = doc.get("crc32c")
        return Blob(
            name=doc["name"],
            identity=Identity(int(doc.get("size", 0)), str(doc["generation"])),
            crc32c=int.from_bytes(base64.b64decode(crc), "big") if crc else None,
            metadata=doc.get("metadata") or {},
        )


class Bucket:
    """The calls on one bucket; every one is safe to repeat.

    Args:
        fs: the connection.
        name: the bucket.
    """

    def __init__(self, fs: Filesystem, name: str) -> None:
        self._fs = fs
        self._name = name

    def get(self, key: str) -> Blob | None:
        """The object's description, or None."""
        try:
            doc = self._call("GET", "b/{}/o/{}", self._name, key, fields=_FIELDS)
        except FileNotFoundError:
            return None
        return Blob.parse(doc)

    def read(self, key: str) -> bytes:
        """A whole object by one request, so that a writer cannot come between."""
        _, headers, body = self._fs.request(
            "GET", self._media(key), headers={"Accept-Encoding": "identity"}, alt="media"
        )
        sums = headers.getall("X-Goog-Hash", [])  # one header for each kind of checksum
        promised = re.search(r"crc32c=([A-Za-z0-9+/=]+)", ",".join(sums))
        if promised and promised[1] != _base64(files.crc32c(body)):
            message = f"the {len(body):,} bytes received are not those the service has ({key})"
            raise TransferDamaged(message)
        return body

    def read_range(self, key: str, generation: str, start: int, length: int) -> bytes:
        """Bytes of one generation; FileNotFoundError once it has been replaced."""
        if length <= 0:
            return b""
        answer = self._fs.request(
            "GET",
            self._media(key),
            headers={"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"},
            alt="media",
            generation=generation,
        )
        return answer.body

    def open_range(
        self, downloads: Downloads, key: str, generation: str, start: int, length: int, where: str
    ) -> MediaRange:
        """`read_range` for long ranges: read as they arrive, and gone on with where they break."""
        return MediaRange(downloads, self._media(key), generation, start, length, where)

    def list(
        self, prefix: str, delimiter: str | None, page: int | None = None
    ) -> Iterator[Blob | str]:
        """Objects whose names begin with `prefix`; with a delimiter also the folders, as text.

        Args:
            prefix: beginning of the names; "" for all.
            delimiter: ends a folder's name; None to list everything below.
            page: how many entries one request asks for, the service's 1000 by default.
        """
        answer: dict[str, Any] = {}
        folders: set[str] = set()
        while True:
            answer = self._call(
                "GET",
                "b/{}/o",
                self._name,
                prefix=prefix or None,
                delimiter=delimiter,
                maxResults=page,
                pageToken=answer.get("nextPageToken"),
                fields=f"nextPageToken,prefixes,items({_FIELDS})",
            )
            # A folder whose files fill several pages may be named on each of them.
            new = [name for name in answer.get("prefixes") or () if name not in folders]
            folders.update(new)
            yield from new
            yield from (Blob.parse(doc) for doc in answer.get("items") or ())
            if not answer.get("nextPageToken"):
                return

    def upload(self, key: str, data: bytes) -> Blob:
        """Stores an object in one request, replacing what was there."""
        return self._upload(key, data, {}, {})

    def create(self, key: str, data: bytes) -> Blob:
        """Stores an object that must not exist.

        The object carries a fresh mark. If the service refuses because the object is there, the
        mark tells whether it is this very call's, stored by a request whose answer was lost.

        Raises:
            FileExistsError: somebody else's object is there.
        """
        mark = uuid.uuid4().hex
        try:
            return self._upload(key, data, {_COMMIT: mark}, {"ifGenerationMatch": "0"})
        except FileExistsError:
            found = self.get(key)
            if found is None or found.metadata.get(_COMMIT) != mark:
                raise
            return found

    def _upload(
        self, key: str, data: bytes, metadata: dict[str, str], params: dict[str, str]
    ) -> Blob:
        crc = files.crc32c(data)
        head: dict[str, Any] = {"name": key, "crc32c": _base64(crc)}
        if metadata:
            head["metadata"] = metadata
        boundary = uuid.uuid4().hex
        body = b"".join(
            [
                f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode(),
                json.dumps(head).encode(),
                f"\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n".encode(),
                data,
                f"\r\n--{boundary}--".encode(),
            ]
        )
        doc = self._call(
            "POST",
            self._url("upload/storage/v1", f"b/{quote(self._name)}/o"),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
            data=body,
            uploadType="multipart",
            **params,
        )
        return _checked(Blob.parse(doc), len(data), crc)

    def upload_file(
        self, key: str, file: BinaryIO, size: int, progress: Progress | None = None
    ) -> Blob:
        """Stores a long file piece by piece; the object appears with the last piece.

        A session that the service has forgotten, or that ended in other bytes, is begun again.
        """
        for attempt in range(_SESSIONS):
            try:
                begun = self._fs.request(
                    "POST",
                    self._url("upload/storage/v1", f"b/{quote(self._name)}/o"),
                    json={"name": key},
                    uploadType="resumable",
                    name=key,
                )
                upload = Upload(self._fs, begun.headers["Location"], file, size)
                return _checked(Blob.parse(upload.run(progress)), size, upload.crc32c)
            except (FileNotFoundError, TransferDamaged):
                if attempt == _SESSIONS - 1:
                    raise
        raise AssertionError  # the last attempt returned or raised

    def copy(self, src: str, dst: str) -> Blob:
        """Copies on the server, in as many steps as the service wants.

        Raises:
            FileNotFoundError: there is no object `src`.
        """
        token = None
        while True:
            doc = self._call(
                "POST",
                "b/{}/o/{}/rewriteTo/b/{}/o/{}",
                self._name,
                src,
                self._name,
                dst,
                rewriteToken=token,
            )
            if doc["done"]:
                return Blob.parse(doc["resource"])
            token = doc["rewriteToken"]

    def delete(self, key: str) -> bool:
        """Removes an object; False when there was none."""
        try:
            self._fs.request("DELETE", "b/{}/o/{}", self._name, key)
        except FileNotFoundError:
            return False
        return True

    def _call(self, method: str, path: str, *args: str, **kwargs: Any) -> dict[str, Any]:
        return json.loads(self._fs.request(method, path, *args, **kwargs).body)

    def _media(self, key: str) -> str:
        return self._url("download/storage/v1", f"b/{quote(self._name)}/o/{quote(key, safe='')}")

    def _url(self, api: str, path: str) -> str:
        return f"{self._fs._location}/{api}/{path}"


def _checked(blob: Blob, size: int, crc: int) -> Blob:
    if blob.identity.size != size or blob.crc32c not in (None, crc):
        message = f"{size:,} bytes were sent, but the service stored others ({blob.name})"
        raise TransferDamaged(message)
    return blob


def _base64(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(4, "big")).decode()


def bucket_missing(where: str) -> StoreError:
    """The error for writing to a bucket that is not there."""
    bucket = where.removeprefix("gs://").partition("/")[0]
    message = f"there is no bucket {bucket}, or this account may not see it"
    hint = f"create it: gcloud storage buckets create gs://{bucket}"
    return StoreError(message, where=where, hint=hint)
