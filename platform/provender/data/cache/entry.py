"""One complete result, read where it lies."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.data.cache.layout import Segment
from provender.data.cache.manifest import Manifest
from provender.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa


class Entry:
    """A complete entry. While it is referred to, no process evicts it.

    A table read from it stays valid even if the entry is removed, since its files are mapped; but
    keep the entry as long as the files themselves must stay, e.g. for other processes.

    Args:
        folder: where it lies.
        manifest: what it consists of.
        unpin: ends its use.
    """

    def __init__(self, folder: str, manifest: Manifest, unpin: Callable[[], None]) -> None:
        self.manifest = manifest
        self._folder = folder
        self._finish = weakref.finalize(self, unpin)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the result."""
        return self.manifest.fingerprint

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return Path(self._folder)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its pieces, in order."""
        return self.manifest.segments

    @property
    def files(self) -> list[Path]:
        """The segments' files, in order."""
        return [self.folder / each.file for each in self.segments]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.manifest.rows

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.manifest.size

    @property
    def features(self) -> Mapping[str, Any] | None:
        """The features as they were given to `Work.commit`, as a JSON-ready document."""
        return self.manifest.features

    features_json = features

    @property
    def facts(self) -> Mapping[str, Any]:
        """What else was given to `Work.commit`."""
        return self.manifest.facts

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, metadata included."""
        return self.manifest.arrow_schema()

    def table(self) -> pa.Table:
        """All rows, memory-mapped: nothing is read before it is used.

        Raises:
            StoreError: its files were removed meanwhile.
        """
        import pyarrow as pa

        batches: list[pa.RecordBatch] = []
        for each in self.segments:
            batches += mapped_batches(os.path.join(self._folder, each.file))
        return pa.Table.from_batches(batches, self.schema)

    def release(self) -> None:
        """Ends its use now; the garbage collector does so otherwise."""
        self._finish()

    def __reduce__(self) -> tuple[Any, ...]:
        root = str(Path(self._folder).parents[2])
        return (_reopened, (root, self.fingerprint, self._folder))

    def __repr__(self) -> str:
        return f"Entry({self.manifest.recipe.title}, {self.fingerprint}, {self.rows:,} rows)"


def mapped_batches(path: str) -> list[pa.RecordBatch]:
    """The record batches of an Arrow stream file, memory-mapped.

    Raises:
        StoreError: it cannot be opened.
    """
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.memory_map(path)) as stream:
            return list(stream)
    except (OSError, pa.ArrowInvalid) as err:
        raise StoreError(
            f"A file of the transform cache cannot be read: {err}.",
            where=path,
            hint="Load the dataset again: what is missing is computed again.",
        ) from err


def _reopened(root: str, fingerprint: str, folder: str) -> Entry:
    from provender.data.cache.folder import TransformCache

    found = TransformCache.at(root).reopen(folder, fingerprint)
    if found is None:
        raise StoreError(
            "The result was removed from the transform cache while it was sent to this process.",
            where=folder,
            hint="Load the dataset again: what is missing is computed again.",
        )
    return found
