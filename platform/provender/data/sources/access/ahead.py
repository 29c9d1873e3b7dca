"""The bytes of a file in order, the next ones being on their way while these are worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from provender.data.sources.access.files import Pending, RangeReader

FIRST = 64 << 10
LARGEST = 4 << 20
AHEAD = 8 << 20
LOCAL = 1 << 20


class ByteStream:
    """Blocks of bytes from one place of a file to another.

    Remote blocks begin small and double, so that the first rows are there after one small
    request; as long as blocks are taken, requests for the next ones are under way.

    Args:
        reader: the file.
        start: first byte.
        stop: the byte after the last; by default the end of the file.
        ahead: most bytes that are requested and not yet taken; at least one block is.
        block: size of local blocks.
    """

    def __init__(
        self,
        reader: RangeReader,
        start: int = 0,
        stop: int | None = None,
        *,
        ahead: int = AHEAD,
        block: int = LOCAL,
    ) -> None:
        self._reader = reader
        self._next = start
        self._stop = reader.size if stop is None else min(stop, reader.size)
        self._ahead = ahead
        self._block = block
        self._size = FIRST if reader.is_remote else block
        self._waiting: deque[tuple[int, Pending]] = deque()
        self._under_way = 0
        self._taken = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._reader.is_remote:
            return self._plain()
        if not self._waiting and self._next < self._stop:
            self._request()
        if not self._waiting:
            raise StopIteration
        if self._taken:  # somebody goes on reading: it pays to ask for more
            self._fill()
        length, pending = self._waiting.popleft()
        self._under_way -= length
        try:
            data = pending.result()
        except BaseException:
            self.close()
            raise
        self._taken += 1
        return data

    def _plain(self) -> bytes:
        length = min(self._block, self._stop - self._next)
        if length <= 0:
            raise StopIteration
        data = self._reader.read(self._next, length)
        self._next += length
        return data

    def _fill(self) -> None:
        while self._next < self._stop and (
            len(self._waiting) < 2 or self._under_way + self._size <= self._ahead
        ):
            if self._under_way >= self._ahead:
                return
            self._request()

    def _request(self) -> None:
        length = min(self._size, self._stop - self._next)
        self._waiting.append((length, self._reader.begin(self._next, length)))
        self._under_way += length
        self._next += length
        self._size = min(self._size * 2, LARGEST)

    def close(self) -> None:
        """Gives up what is under way."""
        while self._waiting:
            self._waiting.popleft()[1].cancel()
        self._under_way = 0
        self._next = self._stop
