"""Resumable uploads to Google Cloud Storage: long files piece by piece, going on after a cut.

https://cloud.google.com/storage/docs/performing-resumable-uploads describes the protocol.
"""

from __future__ import annotations

import json
import time
from typing import Any, BinaryIO

from provender.store.gcs_filesystem import Filesystem, is_transient
from provender.store.values import Progress

PIECE = 16 << 20
"""Bytes sent by one request, a multiple of 256 KiB; shorter files go in a single request."""

_UNFINISHED = 308


class UploadStuck(Exception):
    """The service refuses every piece although the network is there."""


class Upload:
    """One upload session.

    Args:
        fs: the connection.
        session: the session's URL, from the request that began it.
        file: what to send; seekable.
        size: its length, more than 0.
    """

    def __init__(self, fs: Filesystem, session: str, file: BinaryIO, size: int) -> None:
        self._fs = fs
        self._session = session
        self._file = file
        self._size = size
        self._hashed = 0
        self.crc32c = 0

    def run(self, progress: Progress | None = None) -> dict[str, Any]:
        """Sends everything and returns the object's description by the service.

        After a cut the service is asked how much it has: it may be less or more than what was
        answered before. Afterwards `crc32c` is that of the whole file.

        Raises:
            FileNotFoundError: the service does not know the session any more.
            UploadStuck: the service takes nothing, again and again.
        """
        stored, idle = 0, 0
        while True:
            answer = self._send(stored, idle)
            if isinstance(answer, dict):
                return answer
            idle = 0 if answer > stored else idle + 1
            if idle == self._fs.retry.attempts:
                message = f"the service takes no more than {answer:,} of {self._size:,} bytes"
                raise UploadStuck(message)
            stored = answer
            if progress and stored < self._size:
                progress(stored, self._size)

    def _send(self, start: int, failures: int) -> dict[str, Any] | int:
        self._file.seek(start)
        piece = self._file.read(min(PIECE, self._size - start))
        self._hash(start, piece)
        try:
            # Never repeated blindly: the service may have taken a part of the piece.
            span = f"bytes {start}-{start + len(piece) - 1}/{self._size}"
            return self._post(span, piece, attempts=1)
        except Exception as exc:
            if not is_transient(exc):
                raise
        time.sleep(self._fs.retry.wait(failures))
        return self._post(f"bytes */{self._size}", b"", attempts=None)

    def _hash(self, start: int, piece: bytes) -> None:
        import google_crc32c

        fresh = piece[self._hashed - start :]
        self.crc32c = google_crc32c.extend(self.crc32c, fresh)
        self._hashed += len(fresh)

    def _post(self, span: str, piece: bytes, attempts: int | None) -> dict[str, Any] | int:
        # POST works like the documented PUT, which aiohttp would repeat by itself after a cut.
        answer = self._fs.request(
            "POST", self._session, headers={"Content-Range": span}, data=piece, attempts=attempts
        )
        if answer.status != _UNFINISHED:
            return json.loads(answer.body)
        stored = answer.headers.get("Range")
        return int(stored.rpartition("-")[2]) + 1 if stored else 0
