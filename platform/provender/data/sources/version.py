"""A split of a published version: its shards read by ranges, entered through their offset indexes."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provender.data.sources.access import DataFile, RangeReader, place_of
from provender.data.sources.access.files import gone
from provender.data.sources.base import (
    Chunk,
    DerivedSource,
    Position,
    Source,
    check_columns,
    check_shards,
)
from provender.data.sources.combined import Piece, PiecesSource, check_ordinals, shares
from provender.data.sources.frames import checked, frames, next_record
from provender.data.sources.identity import identity_of
from provender.data.sources.offsets import Offsets
from provender.data.sources.options import ReadOptions
from provender.data.sources.scattered import read_records
from provender.errors import DamageError, ProvenderError, StoreError, UnknownReference

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from provender.catalog import Catalog, VersionRecord
    from provender.data.features import Features
    from provender.store import Store

_PIECE_ROWS = 65_536
_PIECES = 4


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard of a version as it was published.

    Attributes:
        name: file name.
        url: its address.
        index: address of its offset index.
        size: bytes; -1 where not recorded.
        examples: records.
        crc32c: 8 hex digits, or None.
        sha256: 64 hex digits, or None.
    """

    name: str
    url: str
    index: str
    size: int
    examples: int
    crc32c: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class VersionData:
    """What is needed to read a split of a version, without catalog or store.

    Attributes:
        name: ``dataset:version``, for messages.
        fingerprint: the version's.
        split: the split's name.
        features_json: how records are read.
        labels: stem of a ``*.labels.txt`` file -> its names.
        shards: the shards, in order.
    """

    name: str
    fingerprint: str
    split: str
    features_json: Mapping[str, Any]
    labels: Mapping[str, Sequence[str]]
    shards: tuple[Shard, ...]


class VersionSource(DerivedSource):
    """A split of a published version.

    Args:
        data: the split.
        options: how files are read.
    """

    _forgotten = ("_known_identity", "_starts")

    def __init__(self, data: VersionData, options: ReadOptions | None = None) -> None:
        self._data = data
        self._options = options or ReadOptions(cache=False)
        self._names: tuple[str, ...] | None = None
        self._reader: Any = None

    @classmethod
    def open(
        cls,
        store: Store,
        version: VersionRecord,
        split: str,
        *,
        catalog: Catalog | None = None,
        options: ReadOptions | None = None,
    ) -> VersionSource:
        """The source for a split.

        Args:
            store: where the version lies.
            version: the version.
            split: name of the split.
            catalog: says what the shards are; without it the version's manifest does.
            options: how files are read.

        Raises:
            UnknownReference: there is no such split.
            StoreError: the version is kept in another file format.
            DamageError: its manifest or metadata are missing or damaged.
        """
        return cls(version_data(store, version, split, catalog), options)

    # ------------------------------------------------------------------ what it is

    def _examples(self) -> Any:
        if self._reader is None:
            from provender.data.examples import ExampleReader

            reader = ExampleReader(dict(self._data.features_json), dict(self._data.labels))
            self._reader = reader if self._names is None else reader.columns(list(self._names))
        return self._reader

    @property
    def features(self) -> Features:
        found: Features = self._examples().features
        return found

    def _identify(self) -> str:
        contents = [
            shard.sha256 or f"{self._data.fingerprint}/{shard.name}" for shard in self._data.shards
        ]
        document = json.dumps(self._data.features_json, sort_keys=True)
        labels = {stem: list(names) for stem, names in self._data.labels.items()}
        return identity_of("version 1", contents, document, labels, self._names)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the version."""
        return self._data.fingerprint

    @property
    def num_shards(self) -> int:
        return len(self._data.shards)

    def shard_rows(self, shard: int) -> int:
        return self._data.shards[shard].examples

    def shard_name(self, shard: int) -> str:
        return self._data.shards[shard].name

    @property
    def skipped(self) -> Mapping[str, int]:
        return dict(self._options.skipped.counts)

    # ------------------------------------------------------------------ what is made of it

    def select_shards(self, shards: Sequence[int]) -> Source:
        from dataclasses import replace

        chosen = [self._data.shards[each] for each in check_shards(shards, self.num_shards)]
        return self._derived(_data=replace(self._data, shards=tuple(chosen)))

    def columns(self, names: Sequence[str]) -> Source:
        reader = self._examples()
        check_columns(names, list(reader.features))
        return self._derived(_names=tuple(names), _reader=reader.columns(list(names)))

    def reshard(self, num_shards: int | None = None) -> Source:
        """Cuts shards into ranges of rows, which the offset index finds."""
        counts = [shard.examples for shard in self._data.shards]
        if num_shards is None:
            parts = [min(max(_PIECES, -(-count // _PIECE_ROWS)), max(count, 1)) for count in counts]
        elif num_shards <= self.num_shards:
            return self
        else:
            parts = [
                min(share, max(count, 1))
                for share, count in zip(shares(counts, num_shards), counts, strict=True)
            ]
        pieces: list[Piece] = []
        for shard, (count, number) in enumerate(zip(counts, parts, strict=True)):
            bounds = [count * part // number for part in range(number + 1)]
            pieces += [(shard, low, high) for low, high in itertools.pairwise(bounds)]
        return PiecesSource(self, pieces)

    # ------------------------------------------------------------------ reading in order

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self.num_shards)
        info = self._data.shards[shard]
        byte, record, at = 0, 0, 0
        try:
            with self._open(info) as reader:
                if position is not None:
                    byte, record, at = (int(position[key]) for key in ("byte", "record", "row"))
                    row = at
                elif row >= info.examples:
                    return
                elif row:
                    place = Offsets(info.index, info.examples, info.sha256).at(row)
                    if place is not None:
                        byte, record, at = place, row, row
                yield from self._records(reader, info, byte, record, at, row)
        except ProvenderError as error:
            if not self._options.forgives(error, "shards"):
                raise

    def _records(
        self, reader: RangeReader, info: Shard, byte: int, record: int, at: int, row: int
    ) -> Iterator[Chunk]:
        while True:
            try:
                for chunk in self._chunks(reader, info, byte, record, at):
                    byte, record = int(chunk.next["byte"]), int(chunk.next["record"])
                    at = chunk.row + chunk.count
                    if at > row or (not chunk.count and at >= row):
                        yield chunk.drop(row - chunk.row)
                if record < info.examples:
                    raise _short(info, record, byte)
                return
            except DamageError as error:
                if "offset" not in error.facts or not self._options.forgives(error, "records"):
                    raise
                behind = self._behind(reader, info, error)
                if behind is None:
                    lost = info.examples - int(error.facts["record"]) - 1
                    if lost > 0:
                        self._options.skipped.add("records", lost)
                    return
                byte, record = behind
                yield self._nothing(at, byte, record)

    def _behind(
        self, reader: RangeReader, info: Shard, error: DamageError
    ) -> tuple[int, int] | None:
        """Byte and ordinal of the record after one whose header is damaged."""
        record = int(error.facts["record"]) + 1
        if record >= info.examples:
            return None
        byte = Offsets(info.index, info.examples, info.sha256).at(record)
        if byte is None:
            byte = next_record(reader, int(error.facts["offset"]))
        return None if byte is None or byte >= reader.size else (byte, record)

    def _nothing(self, at: int, byte: int, record: int) -> Chunk:
        table = self.features.arrow_schema.empty_table()
        return Chunk(at, 0, {"byte": byte, "record": record, "row": at}, table)

    def _chunks(
        self, reader: RangeReader, info: Shard, byte: int, record: int, at: int
    ) -> Iterator[Chunk]:
        examples = self._examples()

        def forgive(error: DamageError) -> bool:
            return self._options.forgives(error, "records")

        for part in frames(reader, info.url, byte, record, ahead=self._options.ahead):
            starts, lengths = checked(part, info.url, forgive)
            try:
                table = examples.table_from_buffer(part.data, starts, lengths)
            except DamageError as error:
                error.where = error.where or f"{info.name}, records from {part.record}"
                raise
            place = {"byte": part.end, "record": part.record + len(part), "row": at + len(starts)}
            yield Chunk(at, len(starts), place, table)
            at += len(starts)

    def _open(self, info: Shard) -> RangeReader:
        """A reader of a shard, pinned to the bytes that were published.

        Raises:
            DamageError: other bytes stand in its place; names the first damaged record if there
                is one.
            StoreError: it is missing.
        """
        file = self._file(info)
        reader = self._options.open(file)
        if info.crc32c and file.content.startswith("crc32c:") and file.content[7:] != info.crc32c:
            try:
                self._other_bytes(reader, info)
            except BaseException:
                reader.close()
                raise
        return reader

    def _file(self, info: Shard) -> DataFile:
        found = place_of(info.url).stat(info.url)
        if found is None:
            error = gone(info.url)
            error.message = f"A shard of {self._data.name} is missing: {info.name}."
            error.args = (error.message,)
            error.hint = (
                f"`provender build {self._data.name}` puts it back; "
                'on_error="skip" goes on without it.'
            )
            raise error
        return found

    def _other_bytes(self, reader: RangeReader, info: Shard) -> None:
        """Reads a shard whose checksum is wrong to see whether records are damaged.

        Damaged records are told one by one when they are read; bytes that are all right by their
        own checksums are another file.
        """
        try:
            for part in frames(reader, info.url):
                if len(part.damaged()):
                    return
        except DamageError:
            return
        raise DamageError(
            f"{info.name} is not the file that was published with {self._data.name}.",
            where=info.url,
            hint=f"`provender verify {self._data.name}` tells more.",
            facts={"file": info.url, "crc32c": info.crc32c},
        )

    # ------------------------------------------------------------------ random access

    @property
    def random_access(self) -> bool:
        return True

    def rows_at(self, ordinals: np.ndarray) -> pa.Table:
        import numpy as np

        starts_at = self.__dict__.get("_starts")
        if starts_at is None:
            counts = [shard.examples for shard in self._data.shards]
            starts_at = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            self.__dict__["_starts"] = starts_at
        wanted = check_ordinals(ordinals, int(starts_at[-1]))
        which = np.searchsorted(starts_at, wanted, "right") - 1
        rows = wanted - starts_at[which]
        jobs = []
        for shard in np.unique(which).tolist():
            info = self._data.shards[shard]
            places = np.flatnonzero(which == shard)
            jobs.append((lambda info=info: self._open(info), info, rows[places], places))
        data, starts, lengths = read_records(jobs, len(wanted))
        table: pa.Table = self._examples().table_from_buffer(data, starts, lengths)
        return table

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_reader": None}

    def __repr__(self) -> str:
        return (
            f"VersionSource({self._data.name}, {self._data.split!r}, num_shards={self.num_shards})"
        )


def _short(info: Shard, record: int, byte: int) -> DamageError:
    return DamageError(
        f"The file ends after record {record - 1} of {info.examples}: "
        f"record {record} at byte {byte:,} of {info.name} is missing.",
        where=info.url,
        hint="rebuild the file: `provender build` of its dataset",
        facts={"file": info.url, "record": record, "offset": byte},
    )


def split_names(version: VersionRecord) -> list[str]:
    """The names of a version's splits, in order."""
    return [each.name for each in version.splits]


def version_data(
    store: Store, version: VersionRecord, split: str, catalog: Catalog | None = None
) -> VersionData:
    """What there is to know for reading a split; see `VersionSource.open`."""
    import difflib

    from provender.training.contents import contents_of, index_name

    info = version.info["dataset_info"]
    suffix = str(info.get("fileFormat") or "tfrecord")
    if suffix != "tfrecord":
        raise StoreError(
            f"{version.name} is kept as {suffix} files, which cannot be streamed.",
            where=version.uri,
            hint="Read it with tfds.builder_from_directory.",
        )
    names = split_names(version)
    if split not in names:
        near = difflib.get_close_matches(split, names, 1)
        raise UnknownReference(
            f"{version.name} has no split {split!r}.",
            where=version.name,
            hint=f"Did you mean {near[0]!r}?" if near else f"It has: {', '.join(names) or 'none'}.",
            facts={"splits": names},
        )
    files = contents_of(store, version, catalog)
    shards = [each for each in files.values() if each.split == split and each.examples is not None]
    shards.sort(key=lambda each: each.name)
    return VersionData(
        name=version.name,
        fingerprint=version.fingerprint,
        split=split,
        features_json=_features(store, version),
        labels=_labels(store, version, files),
        shards=tuple(
            Shard(
                name=each.name,
                url=store.path(version.path, each.name),
                index=store.path(version.path, index_name(each.name)),
                size=each.size,
                examples=int(each.examples or 0),
                crc32c=each.crc32c,
                sha256=each.sha256,
            )
            for each in shards
        ),
    )


def _features(store: Store, version: VersionRecord) -> Mapping[str, Any]:
    if version.features:
        return version.features
    document: dict[str, Any] = json.loads(_metadata(store, version, "features.json"))
    return document


def _labels(store: Store, version: VersionRecord, files: Mapping[str, Any]) -> dict[str, list[str]]:
    labels = {}
    for name in files:
        if name.endswith(".labels.txt") and "/" not in name:
            lines = _metadata(store, version, name).decode("utf-8").split("\n")
            labels[name.removesuffix(".labels.txt")] = [line.strip() for line in lines if line]
    return labels


def _metadata(store: Store, version: VersionRecord, name: str) -> bytes:
    rel = f"{version.path}/{name}"
    wanted = version.info.get("files", {}).get(name, {}).get("sha256")
    try:
        data = store.read(rel)
    except FileNotFoundError:
        data = None
    if data is None or (wanted and hashlib.sha256(data).hexdigest() != wanted):
        raise DamageError(
            f"{name} of {version.name} {'is missing' if data is None else 'is damaged'}.",
            where=store.path(rel),
            hint=f"`provender build {version.name}` puts it back.",
        )
    return data
