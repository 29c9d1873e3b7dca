"""Folders that TFDS wrote: shards beside features.json and dataset_info.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from provender.data.sources.access import DataFile, open_reader, place_of
from provender.errors import DamageError

if TYPE_CHECKING:
    from provender.data.features import Features
    from provender.data.sources.base import Source
    from provender.data.sources.options import ReadOptions

_SHARD = re.compile(r"(?P<dataset>.+)-(?P<split>[^-]+)\.tfrecord-\d{5}-of-\d{5}")


def sources_of(
    folder: str,
    storage_options: Mapping[str, Any],
    features: Features | None,
    options: ReadOptions,
) -> dict[str, Source] | None:
    """The splits of such a folder, or None where it is none.

    Raises:
        DamageError: features.json cannot be read.
    """
    base = folder.rstrip("/")
    place = place_of(base, storage_options)
    marks = [place.stat(f"{base}/{name}") for name in ("features.json", "dataset_info.json")]
    if None in marks:
        return None
    document = _json(marks[0])
    info = _json(marks[1])
    found = place.find(f"{base}/*")
    labels = {
        file.stem.removesuffix(".labels.txt"): _lines(file)
        for file in found
        if file.stem.endswith(".labels.txt")
    }
    shards: dict[str, list[DataFile]] = {}
    for file in found:
        match = _SHARD.fullmatch(file.stem)
        if match:
            shards.setdefault(match["split"], []).append(file)
    if not shards:
        return None
    from provender.data.sources.tfrecord import TFRecordSource

    order = [each["name"] for each in info.get("splits", [])]
    names = [*(name for name in order if name in shards), *sorted(set(shards) - set(order))]
    return {
        name: TFRecordSource(
            shards[name], features=features, features_json=document, labels=labels, options=options
        )
        for name in names
    }


def _read(file: DataFile | None) -> bytes:
    assert file is not None
    with open_reader(file) as reader:
        return reader.read(0, reader.size)


def _json(file: DataFile | None) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(_read(file))
    except ValueError as error:
        raise DamageError(
            f"The file is not JSON: {error}", where=file.name if file else ""
        ) from error
    return document


def _lines(file: DataFile) -> list[str]:
    return [line.strip() for line in _read(file).decode("utf-8").split("\n") if line]
