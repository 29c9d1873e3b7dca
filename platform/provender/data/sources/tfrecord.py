"""TFRecord files of ``tf.train.Example`` that belong to no published version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.sources.access import DataFile, RangeReader
from provender.data.sources.base import (
    Chunk,
    DerivedSource,
    Position,
    Source,
    check_columns,
    check_shards,
)
from provender.data.sources.frames import checked, frames, next_record
from provender.data.sources.identity import identity_of
from provender.data.sources.options import ReadOptions
from provender.errors import DamageError, InputError

if TYPE_CHECKING:
    from provender.data.features import Features

SAMPLE = 100


class TFRecordSource(DerivedSource):
    """TFRecord files, each a shard.

    A place is the ordinal of a record and the byte at which it begins.

    Args:
        files: the files, in order.
        features: the columns and their types; by default they are found from the first records:
            a list of one value in all of them is a scalar, otherwise a list.
        features_json: a TFDS ``features.json`` that describes the records, instead.
        labels: stem of a ``*.labels.txt`` file -> its names, to go with it.
        options: how files are read.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        *,
        features: Features | None = None,
        features_json: Mapping[str, Any] | None = None,
        labels: Mapping[str, Sequence[str]] | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._files = list(files)
        self._given = features
        self._document = dict(features_json) if features_json is not None else None
        self._labels = dict(labels or {})
        self._options = options or ReadOptions()
        self._names: tuple[str, ...] | None = None
        self._reader: Any = None

    # ------------------------------------------------------------------ records to rows

    def _examples(self) -> Any:
        """What makes tables of records."""
        if self._reader is None:
            if self._document is not None:
                from provender.data.examples import ExampleReader

                reader: Any = ExampleReader(self._document, self._labels)
                if self._given is not None:
                    reader = _Cast(reader, self._given)
            else:
                from provender.data.sources.plain_examples import PlainReader

                reader = PlainReader(self._given or self._infer())
            self._reader = reader if self._names is None else reader.columns(list(self._names))
        return self._reader

    def _infer(self) -> Features:
        from provender.data.sources.plain_examples import features_of

        payloads: list[bytes] = []
        for file in self._files:
            with self._options.open(file) as reader:
                for part in frames(reader, file.name, ahead=0):
                    # Counted when it is read for its rows, not when it is only looked at.
                    forgive = self._options.on_error == "skip"
                    starts, lengths = checked(part, file.name, lambda _, forgive=forgive: forgive)
                    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
                        payloads.append(part.data[start : start + length])
                        if len(payloads) == SAMPLE:
                            return features_of(payloads, file.name)
                    if payloads:
                        break
            if payloads:
                break
        return features_of(payloads, self._files[0].name if self._files else "")

    def _forgive(self, error: DamageError) -> bool:
        return self._options.forgives(error, "records")

    # ------------------------------------------------------------------ what it is

    @property
    def features(self) -> Features | None:
        found: Features = self._examples().features
        return found

    def _identify(self) -> str:
        contents = [self._options.content(file) for file in self._files]
        given = self._given.to_dict() if self._given is not None else None
        document = json.dumps(self._document, sort_keys=True)
        return identity_of("tfrecord 1", contents, given, document, self._labels, self._names)

    @property
    def num_shards(self) -> int:
        return len(self._files)

    def shard_name(self, shard: int) -> str:
        return self._files[shard].name

    @property
    def skipped(self) -> Mapping[str, int]:
        return dict(self._options.skipped.counts)

    def select_shards(self, shards: Sequence[int]) -> Source:
        reader = self._examples()
        chosen = [self._files[each] for each in check_shards(shards, self.num_shards)]
        return self._derived(_files=chosen, _reader=reader)

    def columns(self, names: Sequence[str]) -> Source:
        reader = self._examples()
        check_columns(names, list(reader.features))
        return self._derived(_names=tuple(names), _reader=reader.columns(list(names)))

    # ------------------------------------------------------------------ reading

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self.num_shards)
        try:
            yield from self._read(self._files[shard], position, row)
        except Exception as error:
            if not self._options.forgives(error, "shards"):
                raise

    def _read(self, file: DataFile, position: Position | None, row: int) -> Iterator[Chunk]:
        byte, record, at = 0, 0, 0
        if position is not None:
            byte, record, at = (int(position[key]) for key in ("byte", "record", "row"))
            row = at
        with self._options.open(file) as reader:
            while True:
                try:
                    for chunk in self._chunks(reader, file, byte, record, at):
                        byte, record = int(chunk.next["byte"]), int(chunk.next["record"])
                        at = chunk.row + chunk.count
                        if at > row or (not chunk.count and at >= row):
                            yield chunk.drop(row - chunk.row)
                    return
                except DamageError as error:
                    # A wrong header: the frames behind it have to be found again.
                    if "offset" not in error.facts or not self._forgive(error):
                        raise
                    following = next_record(reader, int(error.facts["offset"]))
                    if following is None:
                        return
                    byte, record = following, int(error.facts["record"]) + 1
                    yield self._empty(at, byte, record)

    def _empty(self, at: int, byte: int, record: int) -> Chunk:
        table = self._examples().features.arrow_schema.empty_table()
        return Chunk(at, 0, {"byte": byte, "record": record, "row": at}, table)

    def _chunks(
        self, reader: RangeReader, file: DataFile, byte: int, record: int, at: int
    ) -> Iterator[Chunk]:
        examples = self._examples()
        for part in frames(reader, file.name, byte, record, ahead=self._options.ahead):
            starts, lengths = checked(part, file.name, self._forgive)
            try:
                table = examples.table_from_buffer(part.data, starts, lengths)
            except (DamageError, InputError) as error:
                error.where = error.where or f"{file.name}, records from {part.record}"
                raise
            place = {"byte": part.end, "record": part.record + len(part), "row": at + len(starts)}
            yield Chunk(at, len(starts), place, table)
            at += len(starts)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_reader": None}

    def __repr__(self) -> str:
        return f"TFRecordSource(num_shards={self.num_shards})"


class _Cast:
    """An example reader whose tables are cast to features that were given."""

    def __init__(self, reader: Any, features: Features) -> None:
        self._reader = reader
        self.features = features

    def columns(self, names: list[str]) -> _Cast:
        chosen = type(self.features)({name: self.features[name] for name in names})
        return _Cast(self._reader.columns(names), chosen)

    def table_from_buffer(self, data: bytes, starts: Any, lengths: Any) -> Any:
        from provender.data.features import cast_table

        return cast_table(self._reader.table_from_buffer(data, starts, lengths), self.features)
