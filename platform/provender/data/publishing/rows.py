"""The rows of a version under construction: an Arrow file a shard, in a folder of its own.

The folder is named after what it holds, so a publication that was interrupted finds the files it
had written. It goes when the version stands.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from provender.errors import BuilderError
from provender.records.shards import shard_bounds
from provender.stages.shards import key

if TYPE_CHECKING:
    from provender.data.dataset import Dataset

_ROWS_AT_ONCE = 2_000
_STALE_SECONDS = 7 * 24 * 3600


def file_of(folder: str | Path, split: str, shard: int) -> Path:
    """Where the rows of a shard lie."""
    return Path(folder) / f"{split}-{shard:05d}.arrow"


def write_rows(
    folder: Path, splits: Mapping[str, Dataset], shards: Mapping[str, int], wanted: Collection[str]
) -> None:
    """Writes the rows of shards, a run of rows at a time, unless they are there.

    Args:
        folder: where to.
        splits: split -> rows.
        shards: split -> number of shards.
        wanted: stage keys of the shards that are needed.

    Raises:
        DiskFull, StoreError: the folder cannot be written.
    """
    from provender.data.cache.files import disk_errors
    from provender.data.dataset.progress import Progress

    cuts = [
        (name, shard, start, stop)
        for name, dataset in splits.items()
        for shard, (start, stop) in enumerate(shard_bounds(len(dataset), shards[name]))
        if key(name, shard) in wanted
    ]
    total = sum(stop - start for *_, start, stop in cuts)
    with disk_errors(str(folder)), Progress("Lay out rows", total) as bar:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        for name, shard, start, stop in cuts:
            path = file_of(folder, name, shard)
            if not path.exists():
                _write(splits[name], start, stop, path)
            bar.advance(stop - start)


def _write(dataset: Dataset, start: int, stop: int, path: Path) -> None:
    from provender.data.dataset.embedding import embedded

    temp = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    schema = dataset.data.schema.remove_metadata()
    try:
        with pa.OSFile(str(temp), "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
            for table in dataset._tables(_ROWS_AT_ONCE, start, stop):
                rows = embedded(table, dataset.features).replace_schema_metadata(None)
                stream.write_table(rows)
        temp.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink()
        raise


def read_rows(folder: str, split: str, shard: int, count: int) -> Iterator[pa.Table]:
    """The rows of a shard, a run at a time, memory-mapped.

    Args:
        folder: where they lie.
        split: its split.
        shard: its number.
        count: rows that it must have.

    Raises:
        BuilderError: the file is not there, or does not have so many rows.
    """
    path = file_of(folder, split, shard)
    if not path.exists():
        raise BuilderError(
            f"The rows of split {split!r}, shard {shard} are not on this machine any more.",
            where=str(path),
            hint="They are kept until the version stands. Publish the dataset again, with the "
            "same name and version: ds.publish(...).",
        )
    seen = 0
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            for batch in stream:
                seen += batch.num_rows
                yield pa.Table.from_batches([batch])
    except pa.ArrowInvalid as error:
        raise _cut_off(path, seen, count) from error
    if seen != count:
        raise _cut_off(path, seen, count)


def _cut_off(path: Path, seen: int, count: int) -> BuilderError:
    return BuilderError(
        f"The rows of a shard are cut off: {seen:,} of {count:,} can be read.",
        where=str(path),
        hint="Remove the file and publish again.",
    )


def remove_rows(folder: Path) -> None:
    """Removes the rows of a version that stands."""
    shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Removes what publications that were given up a week ago left."""
    for each in parent.iterdir():
        with contextlib.suppress(OSError):
            if each.is_dir() and time.time() - each.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(each, ignore_errors=True)
