"""Statistics on their way from the encoding workers to the published version.

Each run, and each shard of a ShardBasedBuilder, is accompanied by the statistics of its records.
They are merged where the pieces come together and kept among the store's objects; the register
stage writes the figures into the version. Pieces that have none (they were made by older code, or
lost) are read again: statistics are never a reason to encode an example twice.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import DamageError, ProvenderError

if TYPE_CHECKING:
    import numpy as np

    from provender.catalog import Catalog, VersionRecord
    from provender.records.runfile import Run, Summarize
    from provender.records.runs import PartResult
    from provender.statistics import Collection, Schema
    from provender.store import Store

_log = logging.getLogger(__name__)

FILE = ".provender/stats.json"
"""Name, in a version's folder, of its statistics."""

_NAME = "statistics.json"
_BATCH = 4096
_BATCH_BYTES = 8 << 20


def schema_of(features: Any) -> Schema:
    """The schema of TFDS features.

    Args:
        features: a ``tfds.features.FeaturesDict`` or another top-level feature.
    """
    from provender.statistics import Schema

    return Schema(features.to_json(), dict(_labels(features, ())))


def _labels(feature: Any, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names of all classes, by feature."""
    if hasattr(feature, "items"):
        for name, inner in feature.items():
            yield from _labels(inner, (*path, name))
    elif hasattr(feature, "feature"):
        yield from _labels(feature.feature, path)
    elif getattr(feature, "_int2str", None):
        yield "/".join(path), tuple(map(str, feature._int2str))


def summarizer(schema: Schema) -> Summarize:
    """Makes the statistics of a run while its records are in memory."""

    def summarize(
        buffer: np.ndarray, starts: np.ndarray, sizes: np.ndarray, high: np.ndarray, low: np.ndarray
    ) -> bytes | None:
        from provender.statistics import Collection, record_ids

        try:
            found = Collection(schema)
            found.add(buffer, starts, sizes, record_ids(high, low))
            return found.to_bytes()
        except Exception as error:  # noqa: BLE001 - figures are no reason to lose a build
            told("some examples", error)
            return None

    return summarize


def of_runs(
    folder: Path, results: Sequence[PartResult], schema: Callable[[], Schema]
) -> bytes | None:
    """The statistics of a split whose runs lie in a folder; None where they cannot be had.

    Args:
        folder: the runs.
        results: what the parts wrote.
        schema: gives the features, for runs that have no statistics.
    """
    from provender.statistics import Collection, merged

    try:
        whole = merged(_of_run(folder, run, schema) for result in results for run in result.runs)
        return (whole or Collection(schema())).to_bytes()
    except Exception as error:  # noqa: BLE001 - figures are no reason to lose a build
        told("a split", error)
        return None


def _of_run(folder: Path, run: Run, schema: Callable[[], Schema]) -> Collection:
    from provender.statistics import Collection

    if ".stats" in run.files:
        try:
            return Collection.from_bytes((folder / f"{run.name}.stats").read_bytes())
        except (OSError, ValueError, KeyError):
            _log.info("The statistics of %s are made anew.", run.name)
    return _reread_run(folder, run, schema())


def _reread_run(folder: Path, run: Run, schema: Schema) -> Collection:
    import numpy as np

    from provender.records import runfile
    from provender.records.tfrecord import HEADER_BYTES
    from provender.statistics import Collection, record_ids

    rows = np.fromfile(folder / f"{run.name}.idx", "<u8").reshape(-1, runfile.INDEX_COLUMNS)
    found = Collection(schema)
    if len(rows):
        data = np.memmap(folder / f"{run.name}.rec", np.uint8, "r")
        starts = rows[:, runfile.OFFSET].astype(np.int64) + HEADER_BYTES
        sizes = rows[:, runfile.SIZE].astype(np.int64)
        ids = record_ids(rows[:, runfile.HIGH], rows[:, runfile.LOW])
        found.add(data, starts, sizes, ids)
    return found


class Watching:
    """Collects the statistics of records that pass by, e.g. of a shard that is being written.

    Attributes:
        collection: what was collected; None once that broke.
        error: why it broke.

    Args:
        schema: the features.
        shard: number of the shard in its split; with the place in it, it makes the records' ids.
    """

    def __init__(self, schema: Schema, shard: int) -> None:
        from provender.statistics import Collection

        self.collection: Collection | None = Collection(schema)
        self.error: Exception | None = None
        self._shard = shard
        self._batch: list[bytes] = []
        self._bytes = 0
        self._place = 0

    def through(self, payloads: Iterable[bytes]) -> Iterator[bytes]:
        """Yields the payloads as they come."""
        for payload in payloads:
            self._batch.append(payload)
            self._bytes += len(payload)
            if len(self._batch) >= _BATCH or self._bytes >= _BATCH_BYTES:
                self._take()
            yield payload
        self._take()

    def _take(self) -> None:
        import numpy as np

        from provender.statistics import record_ids

        if not self._batch or self.collection is None:
            return
        sizes = np.fromiter(map(len, self._batch), np.int64, len(self._batch))
        place = np.arange(self._place, self._place + len(sizes), dtype=np.uint64)
        ids = record_ids(np.full(len(sizes), self._shard + 1, np.uint64), place)
        buffer = np.frombuffer(b"".join(self._batch), np.uint8)
        try:
            self.collection.add(buffer, np.cumsum(sizes) - sizes, sizes, ids)
        except Exception as error:  # noqa: BLE001 - figures are no reason to lose a build
            self.collection, self.error = None, error
        self._place += len(sizes)
        self._batch, self._bytes = [], 0


def keep(store: Store, data: bytes | None) -> str | None:
    """Keeps collected statistics among the store's objects; gives their path."""
    if data is None:
        return None
    digest = hashlib.sha256(data).hexdigest()
    rel = f"objects/{digest[:2]}/{digest}/{_NAME}"
    store.write(rel, data)
    return rel


def of_split(
    store: Store,
    kept: Sequence[str | None],
    shards: Sequence[str],
    schema: Callable[[], Schema],
) -> dict[str, Any]:
    """The figures of a split, from what was kept, else from its shards.

    Args:
        store: holds both.
        kept: what `keep` gave for each piece, None for a piece without statistics.
        shards: paths of the split's shards, in order.
        schema: gives the features, for reading shards.

    Raises:
        DamageError: a shard that has to be read is damaged or missing.
    """
    from provender.statistics import merged

    found = [_kept(store, rel) for rel in kept]
    if found and all(each is not None for each in found):
        whole = merged(each for each in found if each is not None)
    else:
        whole = merged(of_shard(store, rel, i, schema()) for i, rel in enumerate(shards))
    if whole is None:
        from provender.statistics import Collection

        whole = Collection(schema())
    return whole.summary()


def _kept(store: Store, rel: str | None) -> Collection | None:
    from provender.statistics import Collection

    if rel is None:
        return None
    try:
        data = store.read(rel)
        if hashlib.sha256(data).hexdigest() != rel.split("/")[2]:
            return None
        return Collection.from_bytes(data)
    except (FileNotFoundError, ValueError, KeyError):
        return None


def of_shard(store: Store, rel: str, shard: int, schema: Schema) -> Collection:
    """The statistics of a shard, by reading it.

    Raises:
        DamageError: it is damaged or missing.
    """
    from provender.records import iter_records

    watching = Watching(schema, shard)
    try:
        with store.open_file(rel) as file:
            for _ in watching.through(payload for _, payload in iter_records(file)):
                if watching.error is not None:
                    break
    except FileNotFoundError as error:
        raise DamageError(
            "A shard is missing.", where=store.path(rel), hint="`provender build` puts it back."
        ) from error
    if watching.collection is None:
        raise DamageError(
            f"A record is not a tf.train.Example: {watching.error}.",
            where=store.path(rel),
            hint="`provender verify` says what is wrong with the version.",
        ) from watching.error
    return watching.collection


def document(splits: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The file of a version's statistics."""
    doc = {"format": 1, "splits": {name: dict(each) for name, each in splits.items()}}
    return (json.dumps(doc, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def read_document(data: bytes) -> dict[str, dict[str, Any]]:
    """Split name -> figures, from what `document` wrote; empty where it is something else."""
    try:
        doc = json.loads(data)
        return {str(name): dict(each) for name, each in doc["splits"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def told(what: str, error: Exception) -> None:
    """Says that statistics are missing; a build goes on without them."""
    text = (
        error.message if isinstance(error, ProvenderError) else f"{type(error).__name__}: {error}"
    )
    _log.warning("There are no statistics of %s: %s", what, text)


def compute(
    store: Store,
    catalog: Catalog,
    version: VersionRecord,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Makes the statistics of a version that has none, by reading its shards, and keeps them.

    Args:
        store: where the version lies.
        catalog: where they are kept.
        version: the version.
        progress: called with shards done and shards in all.

    Returns:
        Split name -> figures.

    Raises:
        DamageError: a shard is damaged or missing.
        StoreError: the version is kept in a file format that cannot be read here.
    """
    from provender.statistics import Collection, Schema, merged
    from provender.training.heading import shard_files

    schema = Schema(version.features, _names_of(store, version))
    files = shard_files(version)
    total, done = sum(map(len, files.values())), 0
    found: dict[str, dict[str, Any]] = {}
    for split, shards in files.items():
        parts = []
        for i, (name, _) in enumerate(shards):
            parts.append(of_shard(store, f"{version.path}/{name}", i, schema))
            done += 1
            if progress:
                progress(done, total)
        found[split] = (merged(parts) or Collection(schema)).summary()
    catalog.set_statistics(version.id, found)
    return found


def _names_of(store: Store, version: VersionRecord) -> dict[str, tuple[str, ...]]:
    """The names of all classes, by feature, from the version's own files."""
    found = {}
    for entry in store.list(version.path):
        if entry.name.endswith(".labels.txt"):
            # TFDS joins the names of nested features by "-", and puts "." for "/" in a name.
            feature = entry.name.removesuffix(".labels.txt").replace("-", "/")
            lines = store.read(entry.rel).decode("utf-8").split("\n")
            found[feature] = tuple(line.strip() for line in lines if line)
    return found
