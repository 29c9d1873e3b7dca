"""The first examples of a version, without TensorFlow and without reading more than they take."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from provender.catalog import VersionRecord
from provender.errors import DamageError, StoreError, UnknownReference
from provender.store import Store
from provender.training.contents import INDEX_FOLDER, INDEX_SUFFIX
from provender.training.features import Decoder, decoder
from provender.training.wire import parse_example

_HEAD_BYTES = 16
_OFFSET_BYTES = 8
_READ_AHEAD = 1 << 18


def head(
    store: Store, version: VersionRecord, split: str | None = None, count: int = 5
) -> list[dict[str, Any]]:
    """The first examples of a split, in file order.

    Args:
        store: where the version lies.
        version: the version.
        split: split name; by default the version's first.
        count: how many; fewer where the split is smaller.

    Returns:
        One dict an example, JSON-ready: texts as str, labels by name where the names are known,
        numbers and nested lists, images and other bytes as ``{"bytes": length}`` with the image's
        ``{"png": "8x8"}`` where it tells its size.

    Raises:
        UnknownReference: there is no such split.
        DamageError: a file is missing or damaged.
        StoreError: the version is kept in a file format that cannot be read here.
    """
    shards = _shards(version, split)
    decode = _decoder(store, version)
    found: list[dict[str, Any]] = []
    for name, examples in shards:
        left = min(count - len(found), examples)
        if left > 0:
            payloads = _payloads(store, version, name, left)
            found += [decode(parse_example(each)) for each in payloads]
    return found


def _shards(version: VersionRecord, split: str | None) -> list[tuple[str, int]]:
    """File name and number of examples of each shard of a split, in file order."""
    files = shard_files(version)
    name = split or next(iter([each.name for each in version.splits] or files), None)
    if name not in files:
        raise UnknownReference(
            f"{version.name} has no split {name!r}.",
            where=version.name,
            hint=f"It has: {', '.join(files) or 'none'}.",
            facts={"splits": list(files)},
        )
    return files[name]


def shard_files(version: VersionRecord) -> dict[str, list[tuple[str, int]]]:
    """The shards of a version, as its ``dataset_info.json`` says.

    Returns:
        Split name -> file name and number of examples of each shard, in file order.

    Raises:
        StoreError: the version is kept in a file format that cannot be read here.
    """
    info = version.info["dataset_info"]
    suffix = str(info.get("fileFormat") or "tfrecord")
    if suffix != "tfrecord":
        raise StoreError(
            f"{version.name} is kept as {suffix} files, which cannot be looked at here.",
            where=version.uri,
            hint="Read it with tfds.builder_from_directory.",
        )
    found = {}
    for each in info.get("splits", []):
        name = str(each["name"])
        lengths = [int(length) for length in each.get("shardLengths", [])]
        template = each.get("filepathTemplate") or "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
        found[name] = [
            (_file_name(template, version.dataset, name, suffix, i, len(lengths)), examples)
            for i, examples in enumerate(lengths)
        ]
    return found


def _file_name(template: str, dataset: str, split: str, suffix: str, i: int, k: int) -> str:
    """Fills a TFDS file name template (`tfds.core.ShardedFileTemplate`)."""
    values = {
        "DATASET": dataset,
        "SPLIT": split,
        "FILEFORMAT": suffix,
        "SHARD_INDEX": f"{i:05d}",
        "NUM_SHARDS": f"{k:05d}",
        "SHARD_X_OF_Y": f"{i:05d}-of-{k:05d}",
    }
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


def _payloads(store: Store, version: VersionRecord, name: str, count: int) -> Iterator[bytes]:
    """The first records of a shard, checked; only their bytes are read where an index tells."""
    from provender.records import iter_records

    rel = f"{version.path}/{name}"
    try:
        end = _end_of(store, f"{version.path}/{INDEX_FOLDER}/{name}{INDEX_SUFFIX}", count)
        if end is None:
            with store.open_file(rel, buffer_bytes=_READ_AHEAD) as file:
                yield from (payload for _, payload in islice(iter_records(file), count))
            return
        stream = io.BytesIO(store.read_range(rel, 0, end))
    except FileNotFoundError as error:
        raise DamageError(
            f"{name} of {version.name} is missing.",
            where=store.path(rel),
            hint=f"`provender build {version.name}` puts it back.",
        ) from error
    # What the message of a damaged record names.
    stream.name = store.path(rel)  # type: ignore[attr-defined]
    yield from (payload for _, payload in iter_records(stream))


def _end_of(store: Store, index: str, count: int) -> int | None:
    """Where, in bytes, the first records of a shard end; None without a usable index."""
    from provender.records.offsets import MAGIC

    try:
        data = store.read_range(index, 0, _HEAD_BYTES + _OFFSET_BYTES * (count + 1))
    except FileNotFoundError:
        return None
    if not data.startswith(MAGIC) or len(data) != _HEAD_BYTES + _OFFSET_BYTES * (count + 1):
        return None
    return int.from_bytes(data[-_OFFSET_BYTES:], "little")


def _decoder(store: Store, version: VersionRecord) -> Decoder:
    """What makes values of a parsed example, from the version's own metadata files."""
    labels: dict[str, list[str]] = {}
    for entry in store.list(version.path):
        if entry.name.endswith(".labels.txt"):
            names = store.read(entry.rel).decode("utf-8").split("\n")
            labels[entry.name.removesuffix(".labels.txt")] = [n.strip() for n in names if n]
    return decoder(_features(store, version), labels)


def _features(store: Store, version: VersionRecord) -> Mapping[str, Any]:
    if version.features:
        return version.features
    document: dict[str, Any] = json.loads(store.read(f"{version.path}/features.json"))
    return document
