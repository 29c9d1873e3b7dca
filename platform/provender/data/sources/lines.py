"""Text files cut at line ends: what JSON lines, CSV and plain text have in common.

A place in a file is the number of the byte at which a line begins (in the decoded text, where the
file is compressed or in another encoding) and the number of rows before it.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from provender.data.sources.access import ByteStream, DataFile
from provender.data.sources.base import (
    Chunk,
    DerivedSource,
    Position,
    Source,
    check_columns,
    check_shards,
    close,
)
from provender.data.sources.compression import check_compression, decompressed, recoded
from provender.data.sources.identity import identity_of
from provender.data.sources.line_bytes import (
    Block,
    Part,
    after_line,
    codec,
    from_byte,
    without_mark,
)
from provender.data.sources.options import ReadOptions
from provender.errors import InputError, ProvenderError
from provender.store.paths import split_scheme

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.features import Features

SAMPLE_BYTES = 256 << 10
"""How much is read to find the columns and their types, where nobody says them."""

_COUNTED = 256 << 20
_PIECE = 16 << 20
_LEAST_PIECE = 1 << 10
_PIECES = 4


class LineSource(DerivedSource):
    """Files of lines, each file a shard, or a range of bytes of it.

    Args:
        files: the files, in order.
        features: the columns and their types; by default they are found from the first rows.
        encoding: of the text.
        encoding_errors: what to do with bytes that are none: ``strict`` or a name Python knows.
        compression: ``infer`` from the names, or gzip, bz2, xz, zstd, or None.
        block: bytes that are parsed at once.
        sample: bytes that are looked at to find the columns.
        options: how files are read.
        columns: names of the columns wanted; by default all.
    """

    kind = "lines"
    can_reshard = True

    def __init__(
        self,
        files: Sequence[DataFile],
        *,
        features: Features | None = None,
        encoding: str = "utf-8",
        encoding_errors: str | None = None,
        compression: str | None = "infer",
        block: int = 1 << 20,
        sample: int = SAMPLE_BYTES,
        options: ReadOptions | None = None,
    ) -> None:
        if block < 1:
            raise InputError(f"A block cannot have {block} bytes.", where="chunksize")
        self._parts = [Part(file) for file in files]
        self._given = features
        self._found: Features | None = None
        self._encoding = codec(encoding)
        self._errors = encoding_errors or "strict"
        self._compression = compression
        self._block = block
        self._sample = sample
        self._options = options or ReadOptions()
        self._names: tuple[str, ...] | None = None
        for file in files:
            check_compression(compression, file.stem)

    # ------------------------------------------------------------------ what it is

    @property
    def all_features(self) -> Features | None:
        """The columns of the files, before any are chosen."""
        if self._given is not None:
            return self._given
        if self._found is None:
            self._found = self._infer()
        return self._found

    @property
    def features(self) -> Features | None:
        features = self.all_features
        if features is None or self._names is None:
            return features
        return type(features)({name: features[name] for name in self._names})

    def _identify(self) -> str:
        contents: dict[str, str] = {}
        for part in self._parts:
            if part.file.url not in contents:
                contents[part.file.url] = self._options.content(part.file)
        parts = [(contents[part.file.url], part.start, part.stop) for part in self._parts]
        kinds = [check_compression(self._compression, part.file.stem) for part in self._parts]
        given = self._given.to_dict() if self._given is not None else None
        return identity_of(
            f"{self.kind} 1", parts, kinds, given, self._encoding, self._errors, self._sample,
            self._names, self._parameters(),
        )  # fmt: skip

    @abc.abstractmethod
    def _parameters(self) -> Any:
        """What else decides which rows come out."""

    @property
    def num_shards(self) -> int:
        return len(self._parts)

    def shard_name(self, shard: int) -> str:
        return self._parts[shard].file.name

    @property
    def skipped(self) -> Mapping[str, int]:
        return dict(self._options.skipped.counts)

    @property
    def files(self) -> list[DataFile]:
        """The files, each once, in order."""
        return list({part.file.url: part.file for part in self._parts}.values())

    # ------------------------------------------------------------------ what is made of it

    def select_shards(self, shards: Sequence[int]) -> Source:
        # What the columns are was found from the first shard of all, and stays.
        found = self.all_features
        chosen = [self._parts[each] for each in check_shards(shards, self.num_shards)]
        new: Source = self._derived(_parts=chosen, _found=found)
        return new

    def columns(self, names: Sequence[str]) -> Source:
        features = self.all_features
        if features is not None:
            check_columns(names, list(features if self._names is None else self._names))
        new: Source = self._derived(_names=tuple(names))
        return new

    def reshard(self, num_shards: int | None = None) -> Source:
        """Cuts files into ranges of bytes; a line belongs to the range in which it begins.

        Compressed files and those in other encodings stay whole.
        """
        if not self.can_reshard or (num_shards is not None and num_shards <= self.num_shards):
            return self
        sizes = [self._size(part) if self._seekable(part.file) else 0 for part in self._parts]
        whole = sum(sizes) or 1
        cut: list[Part] = []
        for part, size in zip(self._parts, sizes, strict=True):
            if num_shards is None:
                pieces = max(_PIECES, -(-size // _PIECE))
            else:
                pieces = -(-num_shards * size // whole)
            pieces = max(1, min(pieces, size // _LEAST_PIECE))
            bounds = [part.start + size * piece // pieces for piece in range(pieces)]
            stops: list[int | None] = [*bounds[1:], part.stop]
            cut += [Part(part.file, low, high) for low, high in zip(bounds, stops, strict=True)]
        new: Source = self._derived(_parts=cut, _found=self.all_features)
        return new

    def _size(self, part: Part) -> int:
        stop = part.file.size if part.stop is None else part.stop
        return max(stop - part.start, 0)

    def _seekable(self, file: DataFile) -> bool:
        return self._encoding == "utf-8" and not check_compression(self._compression, file.stem)

    # ------------------------------------------------------------------ reading

    def count_rows(self, shard: int) -> int:
        part = self._parts[shard]
        if self._options.on_error == "skip":  # what is skipped is no row
            return super().count_rows(shard)
        total = 0
        blocks = self.blocks(part, part.start, part.start == 0)
        try:
            for block in blocks:
                count = self._count(block)
                if count is None:
                    return super().count_rows(shard)
                total += count
        finally:
            close(blocks)
        return total

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self.num_shards)
        part = self._parts[shard]
        byte, at = part.start, 0
        aligned = part.start == 0
        if position is not None:
            byte, at, aligned = int(position["byte"]), int(position["row"]), True
            row = at
        try:
            yield from self._rows(part, byte, at, row, aligned)
        except Exception as error:
            if not self._options.forgives(error, "shards"):
                raise

    def _rows(self, part: Part, byte: int, at: int, row: int, aligned: bool) -> Iterator[Chunk]:
        schema = self._prepare(part)
        blocks = self.blocks(part, byte, aligned)
        try:
            for block in blocks:
                count = self._count(block) if at < row else None
                if count is not None and at + count <= row:
                    at += count
                    continue
                for chunk in self._chunks(part, block, at, schema):
                    at = chunk.row + chunk.count
                    if at > row or (chunk.count == 0 and at >= row):
                        yield self._shaped(chunk.drop(row - chunk.row), part)
        finally:
            close(blocks)

    def _chunks(self, part: Part, block: Block, at: int, schema: Any) -> Iterator[Chunk]:
        try:
            table = self._parse(part, block, at, schema)
        except Exception as error:
            if self._options.on_error != "skip" or not isinstance(error, InputError):
                raise
            yield from self._rescued(part, block, at, schema)
            return
        yield Chunk(at, table.num_rows, {"byte": block.end, "row": at + table.num_rows}, table)

    def _rescued(self, part: Part, block: Block, at: int, schema: Any) -> Iterator[Chunk]:
        """The rows of a block of which some cannot be read, line by line."""
        byte = block.byte
        for line in self._records(block.data):
            one = Block(byte, line)
            byte = one.end
            try:
                table = self._parse(part, one, at, schema)
            except Exception as error:
                if not self._options.forgives(error, "records"):
                    raise
                yield Chunk(at, 0, {"byte": byte, "row": at}, self._empty(schema))
                continue
            if table.num_rows:
                yield Chunk(at, table.num_rows, {"byte": byte, "row": at + table.num_rows}, table)
                at += table.num_rows

    def _shaped(self, chunk: Chunk, part: Part) -> Chunk:
        del part
        return chunk if self._names is None else chunk.columns(self._names)

    def _empty(self, schema: Any) -> pa.Table:
        del schema
        import pyarrow as pa

        features = self.all_features
        return features.arrow_schema.empty_table() if features is not None else pa.table({})

    def blocks(
        self, part: Part, byte: int = 0, aligned: bool = True, ahead: int | None = None
    ) -> Iterator[Block]:
        """The lines of a shard from a place on, many at once.

        Args:
            part: the shard.
            byte: where to begin.
            aligned: whether a line begins there; otherwise the next one is looked for.
            ahead: most bytes that are requested before they are wanted, by default as the options
                say; 0 where only a look is meant.
        """
        ahead = self._options.ahead if ahead is None else ahead
        if self._seekable(part.file):
            return self._plain_blocks(part, byte, aligned, ahead)
        return self._decoded_blocks(part, byte, ahead)

    def _plain_blocks(self, part: Part, byte: int, aligned: bool, ahead: int) -> Iterator[Block]:
        with self._options.open(part.file) as reader:
            stop = reader.size if part.stop is None else part.stop
            # One byte earlier: if it ends a line, a line begins here.
            start = byte if aligned else byte - 1
            if byte >= stop:
                return
            wanted = ByteStream(reader, start, stop, ahead=ahead, block=self._block)
            # The last line may reach into the next range.
            more = ByteStream(reader, stop, ahead=0, block=self._block)
            try:
                source: Iterator[bytes] = chain(wanted, more)
                if not aligned:
                    source, start = after_line(source, start)
                for block in self.whole_lines(source, start):
                    if block.byte >= stop:
                        return
                    # The line that holds the byte before `stop` is the last one.
                    end = block.data.find(b"\n", max(stop - 1 - block.byte, 0))
                    if end >= 0 and block.end > stop:
                        yield Block(block.byte, block.data[: end + 1])
                        return
                    yield block
            finally:
                wanted.close()
                more.close()

    def _decoded_blocks(self, part: Part, byte: int, ahead: int) -> Iterator[Block]:
        kind = check_compression(self._compression, part.file.stem)
        with self._options.open(part.file) as reader:
            if kind:
                blocks = decompressed(reader, kind, part.file.name, ahead)
            else:
                blocks = iter(ByteStream(reader, ahead=ahead, block=self._block))
            if self._encoding != "utf-8":
                blocks = recoded(blocks, self._encoding, self._errors, part.file.name)
            try:
                yield from self.whole_lines(from_byte(blocks, byte), byte)
            finally:
                close(blocks)

    def whole_lines(self, blocks: Iterator[bytes], byte: int) -> Iterator[Block]:
        """Joins and cuts blocks so that each one ends where a record does."""
        held: list[bytes] = []
        length = 0
        for data in blocks:
            cut = self._last_end(data) if not held or self._local_ends else -1
            if cut < 0 and held and not self._local_ends:
                held, data = [], b"".join([*held, data])
                length, cut = 0, self._last_end(data)
            if cut < 0:
                held.append(data)
                length += len(data)
                continue
            held.append(data[: cut + 1])
            whole = b"".join(held) if len(held) > 1 else held[0]
            yield without_mark(Block(byte, whole))
            byte += len(whole)
            rest = data[cut + 1 :]
            held, length = ([rest], len(rest)) if rest else ([], 0)
        if length:
            yield without_mark(Block(byte, b"".join(held)))

    def _records(self, data: bytes) -> Iterator[bytes]:
        """The records of a block, each with its line end."""
        start = 0
        while start < len(data):
            end = data.find(b"\n", start)
            stop = len(data) if end < 0 else end + 1
            yield data[start:stop]
            start = stop

    _local_ends = True
    """Whether a record's end can be seen without what came before it."""

    def _last_end(self, data: bytes) -> int:
        """Index of the last byte of the last whole record, or -1."""
        return data.rfind(b"\n")

    # ------------------------------------------------------------------ what messages tell

    def utf8(self, part: Part, block: Block) -> str:
        """The text of a block.

        Raises:
            InputError: it is not UTF-8; names file, line and byte.
        """
        try:
            return block.data.decode("utf-8", self._errors)
        except UnicodeDecodeError as error:
            at = block.byte + error.start
            raise InputError(
                f"Byte {at:,} is not UTF-8 ({error.reason}).",
                where=self.place(part, at),
                hint='Give its encoding="...", or encoding_errors="replace".',
                facts={"file": part.file.name, "byte": at},
            ) from error

    def place(self, part: Part, byte: int) -> str:
        """A file, and the line and byte in it; the line only where counting up to it is cheap."""
        found = f"{part.file.name}, byte {byte:,}"
        if byte > (_COUNTED if split_scheme(part.file.url)[0] == "file" else _COUNTED >> 4):
            return found
        line = 1
        blocks = LineSource.blocks(self, Part(part.file), 0, True, 0)
        try:
            for block in blocks:
                line += block.data.count(b"\n", 0, max(byte - block.byte, 0))
                if block.end >= byte:
                    break
        except ProvenderError:
            return found
        finally:
            close(blocks)
        return f"{part.file.name}, line {line:,} (byte {byte:,})"

    # ------------------------------------------------------------------ what formats tell

    def _prepare(self, part: Part) -> Any:
        """What parsing a shard needs to know beforehand."""
        del part
        return None

    @abc.abstractmethod
    def _infer(self) -> Features | None:
        """The columns and types, from the first rows."""

    @abc.abstractmethod
    def _parse(self, part: Part, block: Block, at: int, schema: Any) -> pa.Table:
        """The rows of some whole lines.

        Raises:
            InputError: they are not what the format says; names file and byte.
        """

    @abc.abstractmethod
    def _count(self, block: Block) -> int | None:
        """How many rows a block has, without parsing it; None where that cannot be told."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.files)} files, num_shards={self.num_shards})"
