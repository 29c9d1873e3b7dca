"""Tar archives whose files belong together by their names, as WebDataset has it.

``a/0001.jpg`` and ``a/0001.json`` are one row with the columns ``jpg`` and ``json``, beside
``__key__`` (``a/0001``) and ``__url__``. A row's files stand behind one another. Archives that are
not compressed can be entered at any row.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from provender.builders.download.archive import safe_member_name
from provender.data.sources.access import ByteStream, DataFile, RangeReader
from provender.data.sources.base import (
    Chunk,
    DerivedSource,
    Position,
    Source,
    check_columns,
    check_shards,
)
from provender.data.sources.compression import SUFFIXES, compression_of, decompressed
from provender.data.sources.generator import growing
from provender.data.sources.identity import identity_of
from provender.data.sources.options import ReadOptions
from provender.errors import ArchiveError, DamageError, InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.features import Features

KEY, URL = "__key__", "__url__"
SAMPLE = 5
_NAME = re.compile(r"((?:.*/|)[^./][^./]*)[.]([^/]*)")
_BUFFER = 256 * tarfile.BLOCKSIZE
_IMAGES = frozenset(
    "bmp gif ico jpg jpeg jpe png ppm pgm pbm pnm tif tiff webp heic avif jp2 tga".split()
)
_AUDIO = frozenset(
    "aiff au avr caf flac htk mat mpc ogg opus pvf raw rf64 sd2 sds svx voc w64 wav mp3".split()
)
_VIDEO = frozenset("mkv mp4 avi mpeg mov webm".split())
_TEXT = frozenset("txt text transcript".split())
_NUMBERS = frozenset("cls cls2 class count index inx id".split())


class TarSource(DerivedSource):
    """Tar archives, each a shard.

    Text, numbers (``cls``, ``id`` ...) and JSON are decoded; images, audio and video become what
    their features say; every other file is bytes. ``npy``, ``pkl`` and the like stay bytes:
    nothing is unpickled.

    Args:
        files: the archives, in order.
        features: the columns; by default those of the first five rows.
        options: how files are read.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        *,
        features: Features | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._files = list(files)
        self._given = features
        self._found: Features | None = None
        self._options = options or ReadOptions()
        self._names: tuple[str, ...] | None = None

    # ------------------------------------------------------------------ what it is

    @property
    def _all(self) -> Features | None:
        if self._given is not None:
            return self._given
        if self._found is None:
            self._found = self._infer()
        return self._found

    @property
    def features(self) -> Features | None:
        features = self._all
        if features is None or self._names is None:
            return features
        return type(features)({name: features[name] for name in self._names})

    def _infer(self) -> Features | None:
        from provender.data.features import Audio, Image, Video, infer_features

        for file in self._files:
            rows = [row for row, _ in islice(self._rows(file, 0), SAMPLE)]
            if not rows:
                continue
            if any(row.keys() != rows[0].keys() for row in rows):
                raise InputError(
                    "The first rows have different files, so there are no columns.",
                    where=file.name,
                    hint="Name the files of a row alike: 0001.jpg, 0001.json, 0002.jpg ...",
                    facts={"columns": [sorted(row) for row in rows]},
                )
            found = infer_features(rows)
            for name in found:
                kind = name.rpartition(".")[2].lower()
                for suffixes, feature in ((_IMAGES, Image), (_AUDIO, Audio), (_VIDEO, Video)):
                    if kind in suffixes:
                        found[name] = feature()
            return found
        return None

    def _identify(self) -> str:
        contents = [self._options.content(file) for file in self._files]
        names = [file.stem for file in self._files]  # they are in the column __url__
        given = self._given.to_dict() if self._given is not None else None
        return identity_of("tar 1", contents, names, given, self._names)

    @property
    def num_shards(self) -> int:
        return len(self._files)

    def shard_name(self, shard: int) -> str:
        return self._files[shard].name

    @property
    def skipped(self) -> Mapping[str, int]:
        return dict(self._options.skipped.counts)

    def select_shards(self, shards: Sequence[int]) -> Source:
        found = self._all
        chosen = [self._files[each] for each in check_shards(shards, self.num_shards)]
        return self._derived(_files=chosen, _found=found)

    def columns(self, names: Sequence[str]) -> Source:
        features = self.features
        if features is not None:
            check_columns(names, list(features))
        return self._derived(_names=tuple(names))

    # ------------------------------------------------------------------ reading

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self.num_shards)
        file = self._files[shard]
        byte, at = 0, 0
        if position is not None:
            byte, at = int(position["byte"]), int(position["row"])
            row = at
        try:
            for start, rows in growing(self._rows(file, byte), at):
                following = start + len(rows)
                if following <= row:
                    continue
                keep = rows[max(row - start, 0) :]
                table = self._table([each for each, _ in keep], following - len(keep))
                place = {"byte": rows[-1][1], "row": following}
                yield Chunk(following - len(keep), len(keep), place, table)
        except Exception as error:
            if not self._options.forgives(error, "shards"):
                raise

    def _table(self, rows: list[dict[str, Any]], first: int) -> pa.Table:
        from provender.data.features import table_from_rows

        features = self.features
        assert features is not None
        media = [
            name
            for name, kind in features.items()
            if type(kind).__name__ in ("Image", "Audio", "Video")
        ]
        shaped = []
        for row in rows:
            values = {name: row.get(name) for name in features}
            for name in media:
                if values[name] is not None:
                    values[name] = {"path": f"{row[KEY]}.{name}", "bytes": values[name]}
            shaped.append(values)
        return table_from_rows(shaped, features, first_row=first)

    def _rows(self, file: DataFile, byte: int) -> Iterator[tuple[dict[str, Any], int]]:
        """The rows of an archive from a place on, each with the place behind it."""
        row: dict[str, Any] = {}
        for start, name, data in self._members(file, byte):
            found = _NAME.fullmatch(name)
            if found is None:
                continue
            key, field = found[1], found[2]
            if row and row[KEY] != key:
                yield _ordered(row), start
                row = {}
            if field in row:
                raise InputError(
                    f"The row {key!r} has two files {field!r}.",
                    where=file.name,
                    hint="The files of a row need different suffixes.",
                )
            if not row:
                row = {KEY: key, URL: file.name}
            row[field] = _decoded(field, data, f"{file.name}, {name}")
        if row:
            yield _ordered(row), file.size if not compression_of(file.stem) else -1

    def _members(self, file: DataFile, byte: int) -> Iterator[tuple[int, str, bytes]]:
        """Where each file's header begins, its name and content."""
        if byte < 0:
            return
        kind = _packed(file.stem)
        with self._options.open(file) as reader:
            if kind is None:
                stream = ByteStream(reader, byte, ahead=self._options.ahead)
                yield from _read_tar(_File(iter(stream), byte), file, 0)
                stream.close()
            else:
                blocks = decompressed(reader, kind, file.name)
                yield from _read_tar(_File(blocks, 0), file, byte)

    def __repr__(self) -> str:
        return f"TarSource(num_shards={self.num_shards})"


class _File(io.RawIOBase):
    """Blocks as a file that is read once through and knows where it is."""

    def __init__(self, blocks: Iterator[bytes], position: int) -> None:
        self._blocks = blocks
        self._left = memoryview(b"")
        self._at = position

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        wanted = size if size >= 0 else 1 << 62
        while wanted > 0:
            if not self._left:
                self._left = memoryview(next(self._blocks, b""))
                if not self._left:
                    break
            part, self._left = self._left[:wanted], self._left[wanted:]
            parts.append(bytes(part))
            wanted -= len(part)
            self._at += len(part)
        return b"".join(parts)


def _read_tar(stream: _File, file: DataFile, from_byte: int) -> Iterator[tuple[int, str, bytes]]:
    """The regular files of a tar: where their headers begin, their names, their content.

    Links and devices are refused, as are names that lead outside.
    """
    base = stream.tell()
    where: Any = file.name
    plain: Any = _Plain(stream)
    try:
        with tarfile.open(fileobj=plain, mode="r|", bufsize=_BUFFER) as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]
                start = base + member.offset
                if member.isdir() or start < from_byte:
                    continue
                if not member.isreg():
                    raise ArchiveError(
                        f"Its member {member.name!r} is no regular file.",
                        where=file.name,
                        hint="Pack the files themselves, without links.",
                    )
                content = tar.extractfile(member)
                data = content.read() if content is not None else b""
                if len(data) != member.size:
                    raise tarfile.ReadError("it ends inside a file")
                yield start, safe_member_name(member.name, where), data
    except tarfile.ReadError as error:
        if stream.tell() == base and "empty" in str(error):
            return
        raise DamageError(
            f"The archive is damaged near byte {stream.tell():,}: {error}.",
            where=file.name,
            hint='Fetch it again, or pass on_error="skip" to go on behind it.',
            facts={"file": file.name, "byte": stream.tell()},
        ) from error


class _Plain:
    """Only ``read``: tarfile's stream mode wants nothing else."""

    def __init__(self, stream: _File) -> None:
        self.read = stream.read


def _packed(stem: str) -> str | None:
    """How an archive is compressed, by its name."""
    lower = stem.lower()
    if lower.endswith(".tgz"):
        return "gzip"
    if lower.endswith((".tbz", ".tbz2")):
        return "bz2"
    return "xz" if lower.endswith(".txz") else compression_of(stem)


def _ordered(row: dict[str, Any]) -> dict[str, Any]:
    """The row's own columns first."""
    row[KEY], row[URL] = row.pop(KEY), row.pop(URL)
    return row


def _decoded(field: str, data: bytes, where: str) -> Any:
    kind = field.rpartition(".")[2].lower()
    packing = SUFFIXES.get(f".{kind}")
    if packing:
        reader: RangeReader = _Memory(DataFile(where, len(data)), data)
        data = b"".join(decompressed(reader, packing, where))
        kind = field.rpartition(".")[0].rpartition(".")[2].lower()
    try:
        if kind in _TEXT:
            return data.decode("utf-8")
        if kind in _NUMBERS:
            return int(data)
        if kind in ("json", "jsn"):
            return json.loads(data)
    except ValueError as error:
        raise InputError(
            f"The file is not what its suffix says: {error}.",
            where=where,
            hint='Mend it, or pass on_error="skip" to leave out the archive.',
        ) from error
    return data


class _Memory(RangeReader):
    is_remote = False

    def __init__(self, file: DataFile, data: bytes) -> None:
        super().__init__(file)
        self._data = data

    def begin(self, start: int, length: int) -> Any:
        raise NotImplementedError

    def read(self, start: int, length: int) -> bytes:
        return self._data[start : start + length]
