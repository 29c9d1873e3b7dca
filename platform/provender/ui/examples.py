"""Examples of a version, as many as a page shows and never more bytes than it may cost.

Records are found by the version's offset index, so a page anywhere in a split is one small read.
Without an index only what lies in the first bytes of each shard can be shown.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provender.catalog import ShardRecord, VersionRecord
from provender.errors import DamageError, StoreError, UnknownReference
from provender.store import Store
from provender.training.contents import index_name
from provender.training.features import Decoder, decoder
from provender.training.wire import Values, parse_example

PAGE_BYTES = 4 << 20
"""Bytes of records that one page reads."""
IMAGE_BYTES = 8 << 20
"""An image of more bytes is not shown."""
_KEPT_BYTES = 32 << 20
_LABEL_BYTES = 1 << 20
_IMAGES = 6
_FORMATS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}
# TFRecord: u64 length, u32 crc of it, payload, u32 crc; see provender.records.tfrecord, which loads
# numpy.
HEADER_BYTES, FOOTER_BYTES, OVERHEAD = 12, 4, 16
# Offset index: 8 bytes magic, u64 count, u64 offsets; see provender.records.offsets.
_INDEX_HEADER, _OFFSET = 16, 8


@dataclass(frozen=True)
class Field:
    """One value of an example.

    Attributes:
        name: of the feature; nested names are joined by ``/``.
        value: JSON-ready; None where images stand for it.
        images: how many images it holds that a browser can show.
        more: how many further images it holds.
    """

    name: str
    value: Any
    images: int = 0
    more: int = 0


@dataclass(frozen=True)
class Example:
    """One example of a split.

    Attributes:
        number: its position in the split, from 0.
        size: bytes of the record.
        fields: its values; None where the record was too large to read.
    """

    number: int
    size: int
    fields: tuple[Field, ...] | None


@dataclass(frozen=True)
class ExamplePage:
    """Some examples of a split, in file order.

    Attributes:
        total: number of examples of the split.
        note: why there are fewer than asked for; empty where there are not.
    """

    split: str
    first: int
    total: int
    examples: tuple[Example, ...]
    note: str = ""


class ExampleReader:
    """Reads examples, and remembers what it read last, for the images of a page come one by one.

    Safe to share between threads.

    Args:
        store: where versions lie.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def page(
        self,
        version: VersionRecord,
        shards: Sequence[ShardRecord],
        split: str,
        first: int,
        count: int,
    ) -> ExamplePage:
        """Examples ``first`` to ``first + count`` of a split.

        Args:
            version: the version.
            shards: its shards, as the catalog has them.
            split: name of the split.
            first: position in the split, from 0.
            count: how many at most.

        Raises:
            UnknownReference: there is no such split.
            DamageError: a file is missing or damaged.
            StoreError: the store cannot be read, or not in this file format.
        """
        mine = _of_split(version, shards, split)
        total = sum(shard.examples for shard in mine)
        decode, images = self._decoder(version)
        found: list[Example] = []
        left = PAGE_BYTES
        for number, size, payload in self._records(version, mine, first, count):
            if payload is None or size > left:
                found.append(Example(number, size, None))
                continue
            left -= size
            self._keep(version.id, split, number, payload)
            found.append(Example(number, size, _fields(parse_example(payload), decode, images)))
        cut = any(each.fields is None for each in found)
        wanted = min(count, max(0, total - first))
        note = "Large records are not read for this page." if cut else ""
        if len(found) < wanted:
            note = "The version has no offset index, so only the beginning of a shard can be shown."
        return ExamplePage(split, first, total, tuple(found), note)

    def image(
        self,
        version: VersionRecord,
        shards: Sequence[ShardRecord],
        split: str,
        number: int,
        feature: str,
        item: int,
    ) -> tuple[bytes, str]:
        """One image of one example: its bytes and its media type.

        Raises:
            UnknownReference: there is no such image, or no browser shows its kind.
            DamageError: a file is missing or damaged.
        """
        with self._lock:
            payload = self._kept.get((version.id, split, number))
        if payload is None:
            mine = _of_split(version, shards, split)
            record = next(iter(self._records(version, mine, number, 1, IMAGE_BYTES)), None)
            payload = record[2] if record else None
        values = parse_example(payload).get(feature, []) if payload else []
        data = values[item] if 0 <= item < len(values) else None
        kind = _media_type(data)
        if not isinstance(data, bytes) or kind is None or len(data) > IMAGE_BYTES:
            message = f"Example {number} of {split!r} has no such image."
            raise UnknownReference(message, where=version.name)
        return data, kind

    def _keep(self, version_id: str, split: str, number: int, payload: bytes) -> None:
        with self._lock:
            self._kept_bytes -= len(self._kept.pop((version_id, split, number), b""))
            self._kept[version_id, split, number] = payload
            self._kept_bytes += len(payload)
            while self._kept_bytes > _KEPT_BYTES:
                _, dropped = self._kept.popitem(last=False)
                self._kept_bytes -= len(dropped)

    def _decoder(self, version: VersionRecord) -> tuple[Decoder, frozenset[str]]:
        labels: dict[str, list[str]] = {}
        for entry in self._store.list(version.path):
            if entry.name.endswith(".labels.txt"):
                text = self._store.read_range(entry.rel, 0, _LABEL_BYTES).decode("utf-8", "replace")
                labels[entry.name.removesuffix(".labels.txt")] = [
                    name.strip() for name in text.split("\n") if name
                ]
        return decoder(version.features, labels), frozenset(_image_names(version.features))

    def _records(
        self,
        version: VersionRecord,
        shards: Sequence[ShardRecord],
        first: int,
        count: int,
        budget: int = PAGE_BYTES,
    ) -> Iterator[tuple[int, int, bytes | None]]:
        """Number, size and payload of each record; no payload for one beyond the budget."""
        before = 0
        for shard in shards:
            start, stop = max(first - before, 0), min(first + count - before, shard.examples)
            if start < stop:
                try:
                    for at, size, payload in self._of_shard(version, shard, start, stop, budget):
                        yield before + at, size, payload
                except FileNotFoundError as error:
                    raise DamageError(
                        f"{shard.name} of {version.name} is missing.",
                        where=self._store.path(f"{version.path}/{shard.name}"),
                        hint=f"`provender build {version.name}` puts it back.",
                    ) from error
            before += shard.examples

    def _of_shard(
        self, version: VersionRecord, shard: ShardRecord, start: int, stop: int, budget: int
    ) -> Iterator[tuple[int, int, bytes | None]]:
        rel = f"{version.path}/{shard.name}"
        offsets = self._offsets(f"{version.path}/{index_name(shard.name)}", start, stop)
        if offsets is None:
            data = self._store.read_range(rel, 0, budget)
            for number, (size, payload) in enumerate(_framed(data, shard)):
                if number >= stop:
                    return
                if number >= start:
                    yield number, size, payload
            return
        sizes = [b - a for a, b in itertools.pairwise(offsets)]
        fits = 0
        while fits < len(sizes) and offsets[fits + 1] - offsets[0] <= budget:
            fits += 1
        data = self._store.read_range(rel, offsets[0], offsets[fits] - offsets[0]) if fits else b""
        for i, size in enumerate(sizes):
            at = offsets[i] - offsets[0]
            record = data[at : at + size]
            read = _payload(record, shard, start + i, offsets[i]) if i < fits else None
            yield start + i, size, read

    def _offsets(self, index: str, start: int, stop: int) -> list[int] | None:
        """The byte offsets of records ``start`` to ``stop`` (included); None without an index."""
        at = _INDEX_HEADER + _OFFSET * start
        wanted = stop - start + 1
        try:
            data = self._store.read_range(index, at, _OFFSET * wanted)
        except FileNotFoundError:
            return None
        if len(data) != _OFFSET * wanted:
            return None
        offsets = list(struct.unpack(f"<{wanted}Q", data))
        return offsets if offsets == sorted(offsets) else None


def _of_split(
    version: VersionRecord, shards: Sequence[ShardRecord], split: str
) -> list[ShardRecord]:
    names = [each.name for each in version.splits]
    if split not in names:
        raise UnknownReference(
            f"{version.name} has no split {split!r}.",
            where=version.name,
            hint=f"It has: {', '.join(names) or 'none'}.",
        )
    kind = str((version.info.get("dataset_info") or {}).get("fileFormat") or "tfrecord")
    if kind != "tfrecord":
        raise StoreError(
            f"{version.name} is kept as {kind} files, which cannot be looked at here.",
            where=version.uri,
            hint="Read it with tfds.builder_from_directory.",
        )
    return [shard for shard in shards if shard.split == split]


def _framed(data: bytes, shard: ShardRecord) -> Iterator[tuple[int, bytes]]:
    """Size and payload of each whole record in the bytes."""
    record, at = 0, 0
    while at + HEADER_BYTES <= len(data):
        payload = _payload(data[at:], shard, record, at, whole=False)
        if payload is None:
            return
        size = len(payload) + OVERHEAD
        yield size, payload
        record, at = record + 1, at + size


def _payload(
    data: bytes, shard: ShardRecord, record: int, offset: int, *, whole: bool = True
) -> bytes | None:
    """The payload of the record that the bytes begin with; None where it is cut and may be."""
    from provender.records.tfrecord import check_body, parse_header

    place: dict[str, Any] = {"name": shard.name, "record": record, "offset": offset}
    length = parse_header(data[:HEADER_BYTES], **place)
    body = data[HEADER_BYTES : length + OVERHEAD]
    if not whole and len(body) < length + FOOTER_BYTES:
        return None
    return check_body(body, length, **place)


def _fields(
    example: Mapping[str, Values], decode: Decoder, images: frozenset[str]
) -> tuple[Field, ...]:
    fields = [_field(name, value, example, images) for name, value in _flat(decode(example), "")]
    named = {each.name for each in fields}
    rest = [_field(name, None, example, images) for name in sorted(images - named)]
    return (*fields, *(each for each in rest if each.images))


def _field(name: str, value: Any, example: Mapping[str, Values], images: frozenset[str]) -> Field:
    stored = example.get(name, []) if name in images else []
    kinds = [_media_type(each) for each in stored[:_IMAGES]]
    if kinds and all(kinds):
        return Field(name, value, len(kinds), len(stored) - len(kinds))
    return Field(name, value)


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Nested dicts as ``a/b`` names; the account of an image (bytes, size) is one value."""
    for name, each in value.items():
        if isinstance(each, dict) and each and "bytes" not in each:
            yield from _flat(each, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", each


def _image_names(features: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Names of the image features in features.json."""
    if "image" in features:
        yield "/".join(path)
    inner = (features.get("featuresDict") or {}).get("features") or {}
    for name, each in inner.items():
        yield from _image_names(each, (*path, name))
    if isinstance(features.get("sequence"), Mapping):
        yield from _image_names(features["sequence"].get("feature") or {}, path)


def _media_type(data: Any) -> str | None:
    if not isinstance(data, bytes):
        return None
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _FORMATS.items() if data.startswith(start)), None)
