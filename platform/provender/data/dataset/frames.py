"""Messages between a process and its workers: a JSON document and, where needed, bytes."""

from __future__ import annotations

import json
import os
import struct
import threading
from typing import Any

_HEAD = struct.Struct(">IQ")


class Pipe:
    """One direction of a conversation.

    Args:
        fd: of a pipe.
        mode: ``rb`` or ``wb``.
    """

    def __init__(self, fd: int, mode: str) -> None:
        self._file = os.fdopen(fd, mode)
        self._lock = threading.Lock()

    def send(self, doc: Any, data: Any = b"") -> None:
        """Sends a message.

        Raises:
            OSError: nobody reads any more.
        """
        text = json.dumps(doc, default=str).encode()
        view = memoryview(data)
        with self._lock:
            self._file.write(_HEAD.pack(len(text), view.nbytes))
            self._file.write(text)
            if view.nbytes:
                self._file.write(view)
            self._file.flush()

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """The next message, or None where the other side is gone."""
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        length, size = _HEAD.unpack(head)
        text, data = self._file.read(length), self._file.read(size)
        if len(text) < length or len(data) < size:
            return None
        doc: dict[str, Any] = json.loads(text)
        return doc, data

    def close(self) -> None:
        """Closes it."""
        try:
            self._file.close()
        except OSError:
            pass
