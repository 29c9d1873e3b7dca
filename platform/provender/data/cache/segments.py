"""Writing segments: a temporary file, its digest taken on the way, then the name that proves it."""

# Paths are plain strings here: a segment is written in every step of every transform.
# ruff: noqa: PTH105

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from provender.data.cache.files import disk_errors, remove, write_error
from provender.data.cache.layout import Segment
from provender.errors import ProvenderError

if TYPE_CHECKING:
    import pyarrow as pa

CUT_SECONDS = 10.0
"""A segment is committed once it has been written to for so long, so that slow work is not lost."""

TEMP = ".tmp-"
_FLUSH_BYTES = 16 << 20
_BUFFER_BYTES = 1 << 20


class SegmentWriter:
    """Commits segments into one entry's folder. Any process may have one.

    Args:
        folder: the entry's folder, which exists.
        align: segments are cut at multiples of this.
        cut_seconds: see `CUT_SECONDS`.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, align: int = 1, cut_seconds: float = CUT_SECONDS
    ) -> None:
        self.folder = os.fspath(folder)
        self.align = align
        self.cut_seconds = cut_seconds

    def handle(self) -> str:
        """What another process needs for `attach`, as JSON."""
        return json.dumps(
            {"folder": self.folder, "align": self.align, "cut_seconds": self.cut_seconds}
        )

    @classmethod
    def attach(cls, handle: str) -> SegmentWriter:
        """A writer into the entry of another process's `Work`."""
        doc = json.loads(handle)
        return cls(doc["folder"], align=doc["align"], cut_seconds=doc["cut_seconds"])

    @contextlib.contextmanager
    def segment(self, start: int, stop: int | None = None) -> Iterator[SegmentOutput]:
        """Writes the rows made from the input rows [start, stop).

        On a clean exit all that was written is committed. On an error, all up to the last
        `SegmentOutput.mark` is, so that a transform that failed at row n goes on before row n.

        Args:
            start: first input row.
            stop: the input row after the last; None where only the last mark tells.

        Raises:
            DiskFull: no space was left; nothing of the open segment stays.
            StoreError: the folder cannot be written.
        """
        out = SegmentOutput(self, start)
        try:
            yield out
        except BaseException:
            out._end_early()
            raise
        out._end(stop)


class SegmentOutput:
    """An open segment.

    Attributes:
        segments: what was committed so far.
    """

    def __init__(self, writer: SegmentWriter, start: int) -> None:
        self._writer = writer
        self._start = start
        self._marked = start
        self._ready: list[pa.Table] = []
        self._pending: list[pa.Table] = []
        self._ready_bytes = 0
        self._file: _File | None = None
        self._schema: pa.Schema | None = None
        self._opened = time.monotonic()
        self.segments: list[Segment] = []

    @property
    def rows(self) -> int:
        """Rows committed and written so far."""
        waiting = sum(each.num_rows for each in (*self._ready, *self._pending))
        written = self._file.rows if self._file else 0
        return sum(each.rows for each in self.segments) + written + waiting

    def write(self, table: pa.Table) -> None:
        """Appends rows. All tables of a segment have one schema; the first one's metadata is kept.

        Raises:
            ProvenderError: the table has other columns or types than the one before.
        """
        if self._schema is None:
            self._schema = table.schema
        self._pending.append(_like(table, self._schema, self._writer.folder))

    def mark(self, position: int) -> None:
        """Says that everything made from the input rows before ``position`` has been written.

        Commits what is there when that took long. Call it after each batch.

        Args:
            position: an input row, a multiple of ``align`` or the end.
        """
        self._marked = position
        self._ready += self._pending
        self._ready_bytes += sum(each.nbytes for each in self._pending)
        self._pending.clear()
        if self._ready_bytes >= _FLUSH_BYTES:
            self._flush()
        late = time.monotonic() - self._opened >= self._writer.cut_seconds
        if late and position > self._start and position % self._writer.align == 0:
            self._commit(position)

    def _end(self, stop: int | None) -> None:
        rest = self._pending
        self._ready += rest
        self._pending = []
        if stop is None:
            written = sum(each.num_rows for each in rest)
            stop = self._marked + written
        try:
            if stop > self._start:
                self._commit(stop)
        finally:
            self._discard()

    def _end_early(self) -> None:
        """Keeps what was marked; an error while doing so must not hide the one that led here."""
        self._pending.clear()
        try:
            position = self._marked
            if position > self._start and position % self._writer.align == 0 and self._anything:
                self._commit(position)
        except (ProvenderError, OSError, ValueError):
            pass
        finally:
            self._discard()

    @property
    def _anything(self) -> bool:
        return bool(self._ready or self._file)

    def _flush(self) -> None:
        """Moves the marked rows into the file, as one record batch where they fit into one."""
        import pyarrow as pa

        if not self._ready:
            return
        if self._file is None:
            self._file = _File(self._writer.folder, self._ready[0].schema)
        self._file.write(pa.concat_tables(self._ready).combine_chunks())
        self._ready.clear()
        self._ready_bytes = 0

    def _commit(self, stop: int) -> None:
        self._flush()
        if self._file is None:
            message = f"Nothing was written for the input rows {self._start} to {stop}."
            raise ProvenderError(message, hint="Write a table without rows where there are none.")
        file, self._file = self._file, None
        self.segments.append(file.commit(self._start, stop))
        self._start = stop
        self._opened = time.monotonic()

    def _discard(self) -> None:
        self._ready.clear()
        self._pending.clear()
        if self._file is not None:
            self._file.discard()
            self._file = None


def _like(table: pa.Table, schema: pa.Schema, folder: str) -> pa.Table:
    if table.schema.equals(schema):
        return table.replace_schema_metadata(schema.metadata)
    raise ProvenderError(
        f"Rows of one segment differ in their schema: {table.schema.to_string(show_schema_metadata=False)} "
        f"after {schema.to_string(show_schema_metadata=False)}.",
        where=folder,
        hint="Cast them to one schema before they are written.",
    )


class _File:
    """An Arrow stream in a temporary file that is locked as long as its writer lives."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        import pyarrow as pa

        self.schema = schema
        self.rows = 0
        self._folder = folder
        self._temp = os.path.join(folder, f"{TEMP}{os.getpid()}-{secrets.token_hex(8)}")
        with disk_errors(self._temp):
            self._sink = _Sink(self._temp)
        try:
            self._stream = pa.ipc.new_stream(pa.PythonFile(self._sink, mode="w"), schema)
        except BaseException:
            self._sink.release()
            remove(self._temp)
            raise

    def write(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        with self._guarded():
            self._stream.write_table(table)

    def commit(self, start: int, stop: int) -> Segment:
        with self._guarded():
            self._stream.close()
            size, digest = self._sink.finish()
            segment = Segment(start, stop, self.rows, size, digest)
            os.replace(self._temp, os.path.join(self._folder, segment.file))
            self._sink.release()
        return segment

    def discard(self) -> None:
        self._sink.release()
        remove(self._temp)
        # Closing the stream writes its end marker, into nothing by now.
        with contextlib.suppress(Exception):
            self._stream.close()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as err:
            self.discard()
            raise write_error(err, self._temp, self._sink.size) from err
        except BaseException:
            self.discard()
            raise


class _Sink:
    """A file object for Arrow that digests what passes through."""

    def __init__(self, path: str) -> None:
        import xxhash

        self._file = open(path, "xb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - closed in `release`
        with contextlib.suppress(OSError):  # without locks, age alone tells a dead writer's file
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._digest = xxhash.xxh3_128()
        self.size = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        self._digest.update(data)
        length = memoryview(data).nbytes
        self.size += length
        self._file.write(data)
        return length

    def flush(self) -> None:
        """Arrow asks for it after each batch; only the end counts here."""

    def close(self) -> None:
        """Arrow's; see `release`."""

    def finish(self) -> tuple[int, str]:
        """All bytes handed to the system; size and digest."""
        self._file.flush()
        return self.size, self._digest.hexdigest()

    def release(self) -> None:
        """Closes the file, which ends its lock, whether or not its last bytes can be written."""
        with contextlib.suppress(OSError):
            self._file.close()
