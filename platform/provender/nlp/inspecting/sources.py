"""Where records come from: TFRecord files by pattern, and published versions by reference."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import DamageError, SettingsError, UnknownReference

if TYPE_CHECKING:
    from provender.data.sources.access import DataFile
    from provender.data.sources.access.files import RangeReader
    from provender.settings import Settings

_READ_AT_ONCE = 4 << 20


@dataclass(frozen=True)
class Source:
    """Records that follow each other.

    Attributes:
        where: a file's path or address, or the version and its shard.
        path: the file they lie in, on this machine or elsewhere.
        start: the first of them.
        stop: the one after the last; None for the end of the file.
    """

    where: str
    path: Path | DataFile
    start: int = 0
    stop: int | None = None

    def records(self) -> Iterator[bytes]:
        """The records.

        Raises:
            DamageError: the file is damaged.
            StoreError: it cannot be read.
        """
        try:
            yield from islice(self._every(), self.start, self.stop)
        except DamageError as error:
            raise DamageError(
                error.message,
                where=self.where,
                hint="Make it again; or, if it is no TFRecord file, name one that is.",
                facts=error.facts,
            ) from error

    def _every(self) -> Iterator[bytes]:
        from provender.nlp.pretraining.examples import records, unpacked

        if isinstance(self.path, Path):
            yield from records(self.path)
            return
        from provender.data.sources.access import open_reader

        with open_reader(self.path) as reader:
            yield from unpacked(io.BufferedReader(_Stream(reader), _READ_AT_ONCE), self.where)


class _Stream(io.RawIOBase):
    """A file elsewhere, read from its begin on."""

    def __init__(self, reader: RangeReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._reader.size - self._at)
        buffer[:count] = self._reader.read(self._at, count)
        self._at += count
        return count


def sources_of(
    names: Sequence[str], *, split: str | None = None, settings: Settings | None = None
) -> Iterator[Source]:
    """What names stand for, in order.

    Args:
        names: files and globs, on this machine or as addresses; what matches none is a reference to
            a version, see `provender.refs`, if it has a number or an alias, or a split is named.
        split: split expression for versions; all of them by default.
        settings: of the project, for versions.

    Raises:
        SettingsError: a split is named, but no version.
        MissingFiles: a pattern matches no file.
        UnknownReference: there is no such version or split.
    """
    from provender.nlp.paths import matching
    from provender.nlp.pretraining.addresses import is_address
    from provender.nlp.pretraining.files import matched

    versions = [each for each in names if _is_reference(each, bare=split is not None)]
    if split is not None and not versions:
        raise SettingsError(
            "--split is of a version, and none is named.",
            where="--split",
            hint="Name one, as in books:1.0.0.",
        )
    for name in names:
        if name in versions:
            yield from _of_version(name, split or "all", settings)
        elif is_address(name):
            yield from (Source(each.name, each) for each in matching([name]))
        else:
            yield from (Source(each.path, Path(each.path)) for each in matched(name))


def _is_reference(name: str, *, bare: bool) -> bool:
    from provender.refs import DatasetRef

    if (
        "://" in name
        or os.path.exists(name)
        or glob.glob(name)
        or not (bare or set(name) & set(":@"))
    ):
        return False
    try:
        return DatasetRef.parse(name).target is None
    except UnknownReference:
        return False


def _of_version(name: str, split: str, settings: Settings | None) -> Iterator[Source]:
    from provender.nlp.order.versions import version_files
    from provender.settings import load_settings

    for file in version_files(name, split, settings or load_settings()):
        path, _ = file.found()
        yield Source(f"{name} {file.name}", path, file.start, file.stop)
