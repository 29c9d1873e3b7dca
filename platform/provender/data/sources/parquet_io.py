"""Parquet files over ranges: footers, and a file object that reads ahead in each column."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.sources.access import DataFile, RangeReader
from provender.data.sources.access.files import Pending
from provender.errors import DamageError, ProvenderError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_TAIL = 64 << 10
_SMALL_TAIL = 8 << 10
_SIDE_BY_SIDE = 32
_MAGIC = b"PAR1"
_FIRST = 128 << 10
_LARGEST = 4 << 20
_GAP = 32 << 10
_REMEMBERED = 4096

_footers: OrderedDict[tuple[str, str, int], pq.FileMetaData] = OrderedDict()
_lock = threading.Lock()


def _in_child() -> None:
    # A thread that does not exist in the child may have held the lock.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)


def footer(file: DataFile, reader: RangeReader) -> pq.FileMetaData:
    """The footer of a file; read once in a process.

    Raises:
        DamageError: it is no whole Parquet file.
    """
    with _lock:
        if _key(file) in _footers:
            _footers.move_to_end(_key(file))
            return _footers[_key(file)]
    found = _read_footer(file, reader)
    if file.token:
        _keep(file, found)
    return found


def _key(file: DataFile) -> tuple[str, str, int]:
    return (file.url, file.token, file.size)


def _keep(file: DataFile, found: pq.FileMetaData) -> None:
    with _lock:
        _footers[_key(file)] = found
        while len(_footers) > _REMEMBERED:
            _footers.popitem(last=False)


def fetch_footers(files: Sequence[DataFile], open_file: Callable[[DataFile], RangeReader]) -> None:
    """Reads the footers of many remote files side by side, so that they are known afterwards.

    Files that cannot be read are left for whoever asks for them.
    """
    with _lock:
        wanted = [file for file in files if _key(file) not in _footers and file.token]
    for low in range(0, len(wanted), _SIDE_BY_SIDE):
        opened: list[tuple[DataFile, RangeReader, Pending]] = []
        for file in wanted[low : low + _SIDE_BY_SIDE]:
            with contextlib.suppress(ProvenderError):
                reader = open_file(file)
                length = min(reader.size, _SMALL_TAIL)
                opened.append((file, reader, reader.begin(reader.size - length, length)))
        for file, reader, pending in opened:
            with contextlib.suppress(ProvenderError), reader:
                _keep(file, _parsed(file, reader, pending.result()))


def _read_footer(file: DataFile, reader: RangeReader) -> pq.FileMetaData:
    length = min(reader.size, _TAIL)
    return _parsed(file, reader, reader.read(reader.size - length, length))


def _parsed(file: DataFile, reader: RangeReader, tail: bytes) -> pq.FileMetaData:
    """The footer from a file's last bytes; more are read if those are not all of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = reader.size
    if len(tail) < 12 or tail[-4:] != _MAGIC:
        raise _no_parquet(file, f"its {size:,} bytes do not end as one does")
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > size:
        raise _no_parquet(file, "its footer is longer than the file")
    if length > len(tail):
        tail = reader.read(size - length, length - len(tail)) + tail
    try:
        # A footer alone, behind the magic that begins every file.
        return pq.read_metadata(pa.BufferReader(_MAGIC + tail[-length:]))
    except (pa.ArrowInvalid, OSError) as error:
        raise _no_parquet(file, str(error)) from error


def _no_parquet(file: DataFile, why: str) -> DamageError:
    return DamageError(
        f"The file is no whole Parquet file: {why}.",
        where=file.name,
        hint="Was it still being written, or cut off? Write it again.",
        facts={"file": file.name},
    )


def column_numbers(metadata: pq.FileMetaData, names: Sequence[str] | None) -> list[int] | None:
    """Numbers of the leaf columns that belong to top-level columns; None for all."""
    if names is None:
        return None
    wanted = set(names)
    schema = metadata.schema
    return [i for i in range(len(schema)) if schema.column(i).path.partition(".")[0] in wanted]


def spans_of(
    metadata: pq.FileMetaData, group: int, columns: Sequence[int] | None
) -> list[tuple[int, int]]:
    """Where the columns of a row group lie: ``[start, stop)``, near ones joined."""
    info = metadata.row_group(group)
    spans = []
    for number in range(info.num_columns) if columns is None else columns:
        column = info.column(number)
        start = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset:
            start = min(start, column.dictionary_page_offset)
        spans.append((start, start + column.total_compressed_size))
    return sorted(spans)


class _Window:
    """One column's bytes of one row group, fetched in blocks that begin small and double."""

    def __init__(self, reader: RangeReader, start: int, stop: int, first: int) -> None:
        self._reader = reader
        self.start, self.stop = start, stop
        self._at = start  # where `_data` begins
        self._data = b""
        self._asked = start  # up to where has been requested
        self._size = first
        self._pending: Pending | None = None
        self._length = 0

    def prime(self) -> None:
        """Requests the next block, unless one is under way."""
        if self._pending is None and self._asked < self.stop:
            self._length = min(self._size, self.stop - self._asked)
            self._pending = self._reader.begin(self._asked, self._length)
            self._asked += self._length
            self._size = min(self._size * 2, _LARGEST)

    def read(self, start: int, length: int) -> bytes:
        """Bytes of the column; forward reads are what it is made for."""
        if start < self._at:
            return self._reader.read(start, length)
        while start + length > self._at + len(self._data):
            more = start + length - self._asked
            if self._pending is None and more > self._size:
                self._size = more
            self.prime()
            if self._pending is None:
                break
            kept = self._data[start - self._at :] if start < self._at + len(self._data) else b""
            fetched = self._pending.result()
            self._pending = None
            begin = self._asked - self._length
            self._at = start if kept else begin
            self._data = kept + fetched
        if self._asked < self.stop and start + length > self._asked - self._length:
            self.prime()
        offset = start - self._at
        return self._data[offset : offset + length]

    def close(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None


class ColumnsFile(io.RawIOBase):
    """The columns of one row group as a file that pyarrow can read.

    Args:
        reader: the file.
        spans: where the columns lie.
    """

    def __init__(self, reader: RangeReader, spans: Sequence[tuple[int, int]]) -> None:
        self._reader = reader
        self._windows = [_Window(reader, start, stop, _FIRST) for start, stop in spans]
        self._position = 0
        # pyarrow turns what a Python file raises into its own errors; this is the original.
        self.error: ProvenderError | None = None

    def prime(self) -> None:
        """Requests the first block of every column."""
        for window in self._windows:
            window.prime()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        """Length of the whole file in bytes."""
        return self._reader.size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._reader.size}
        self._position = base[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = self._reader.size - self._position
        length = left if size < 0 else min(size, left)
        try:
            data = self._get(self._position, length) if length > 0 else b""
        except ProvenderError as error:
            self.error = error
            raise
        self._position += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _get(self, start: int, length: int) -> bytes:
        for window in self._windows:
            if window.start <= start < window.stop:
                inside = min(length, window.stop - start)
                data = window.read(start, inside)
                if inside < length:
                    data += self._reader.read(start + inside, length - inside)
                return data
        return self._reader.read(start, length)

    def close(self) -> None:
        for window in self._windows:
            window.close()
        super().close()
