"""Comparing the examples of two versions in bounded memory.

Every example of the shards that differ is read once. Of each, digests are kept (24 bytes; with a
key 40 and 8 more a feature); they are compared a part at a time, so that memory does not grow with
the number of examples (see `digests`). Shards of equal content on both sides are not read.
"""

from __future__ import annotations

import difflib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import DamageError, UnknownReference
from provender.questions.diff.values import ExampleDiff, SplitExamples
from provender.training.features import Decoder, decoder
from provender.training.heading import shard_files
from provender.training.wire import parse_example

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord
    from provender.questions.diff.digests import Digester, Tally
    from provender.store import Store

Progress = Callable[[int, int], None]

_BATCH = 4096
_BATCH_BYTES = 8 << 20
_SHARD = 1 << 40
"""The place of an example is the number of its shard times this, and its number in the shard."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard to read: its file name, its number in the split, its examples."""

    name: str
    number: int
    examples: int


class Side:
    """One of the two versions."""

    def __init__(self, catalog: Catalog, store: Store, version: VersionRecord) -> None:
        self.catalog, self.store, self.version = catalog, store, version

    @cached_property
    def features(self) -> dict[str, Any]:
        """features.json."""
        if self.version.features:
            return dict(self.version.features)
        found: dict[str, Any] = json.loads(self.store.read(f"{self.version.path}/features.json"))
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features that hold values."""
        from provender.statistics import Schema

        return tuple(Schema(self.features).leaves)

    @cached_property
    def shards(self) -> dict[str, list[Shard]]:
        """The shards of each split."""
        return {
            split: [Shard(name, i, count) for i, (name, count) in enumerate(files)]
            for split, files in shard_files(self.version).items()
        }

    @cached_property
    def contents(self) -> dict[str, str]:
        """File name -> sha256, for the shards that the catalog knows."""
        return {each.name: each.sha256 for each in self.catalog.shards(self.version.id)}

    @cached_property
    def decode(self) -> Decoder:
        """Makes values of a parsed example."""
        labels = {}
        for entry in self.store.list(self.version.path):
            if entry.name.endswith(".labels.txt"):
                lines = self.store.read(entry.rel).decode("utf-8").split("\n")
                labels[entry.name.removesuffix(".labels.txt")] = [n.strip() for n in lines if n]
        return decoder(self.features, labels)

    def records(self, shard: Shard) -> Iterator[bytes]:
        """The records of a shard, their checksums checked.

        Raises:
            DamageError: the shard is missing or damaged.
        """
        from provender.records import iter_records

        rel = f"{self.version.path}/{shard.name}"
        try:
            with self.store.open_file(rel) as file:
                for _, payload in iter_records(file):
                    yield payload
        except FileNotFoundError as error:
            raise DamageError(
                f"{shard.name} of {self.version.name} is missing.",
                where=self.store.path(rel),
                hint=f"`provender build {self.version.name}` puts it back.",
            ) from error

    def example(self, split: str, place: int) -> dict[str, Any]:
        """One example, decoded."""
        return self.decode(parse_example(self._record(self.shards[split], place)))

    def _record(self, shards: Sequence[Shard], place: int) -> bytes:
        from provender.records import iter_records
        from provender.training.contents import index_name

        shard, number = shards[place // _SHARD], place % _SHARD
        rel = f"{self.version.path}/{shard.name}"
        try:
            index = f"{self.version.path}/{index_name(shard.name)}"
            span = self.store.read_range(index, 16 + 8 * number, 16)
        except FileNotFoundError:
            return next(p for i, p in enumerate(self.records(shard)) if i == number)
        start, end = (int.from_bytes(each, "little") for each in (span[:8], span[8:]))
        with self.store.open_file(rel, buffer_bytes=max(1 << 12, end - start)) as file:
            file.seek(start)
            return next(payload for _, payload in iter_records(file))


class Sides:
    """Two versions and how their examples are matched.

    Args:
        catalog: where they are recorded.
        store: where they lie.
        a, b: the versions.
        key: the feature that names an example, or None.

    Raises:
        UnknownReference: one of them has no such feature.
    """

    def __init__(
        self, catalog: Catalog, store: Store, a: VersionRecord, b: VersionRecord, key: str | None
    ) -> None:
        self.a, self.b = Side(catalog, store, a), Side(catalog, store, b)
        self.key = key
        for version in (a, b):
            if version.removed is not None:
                raise UnknownReference(
                    f"The files of {version.name} were removed on {version.removed:%Y-%m-%d}.",
                    where=version.uri,
                    hint="Its examples cannot be compared any more; leave --examples out.",
                )
        for side in (self.a, self.b) if key is not None else ():
            if key not in side.names:
                near = difflib.get_close_matches(str(key), side.names, 1)
                raise UnknownReference(
                    f"{side.version.name} has no feature {key!r}.",
                    where="--key",
                    hint=f"Did you mean {near[0]!r}?"
                    if near
                    else f"It has: {', '.join(side.names)}.",
                )

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The features that both have."""
        return tuple(name for name in self.a.names if name in self.b.names)

    def digester(self, side: Side) -> Digester:
        """Makes rows of a side's records."""
        from provender.questions.diff.digests import Digester
        from provender.statistics import Schema

        return Digester(Schema(side.features), self.compared, self.key)


def compare(
    sides: Sides,
    *,
    samples: int,
    splits: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> ExampleDiff:
    """Compares the examples of two versions, split by split.

    Args:
        sides: the versions.
        samples: examples shown of each kind and split.
        splits: only these.
        progress: told the examples read, and those to read in all.
    """
    names = [*sides.a.shards, *(each for each in sides.b.shards if each not in sides.a.shards)]
    todo = {name: _differing(sides, name) for name in names if splits is None or name in splits}
    tell = _Count(
        sum(s.examples for both in todo.values() for side in both for s in side), progress
    )
    found = tuple(_split(sides, name, *both, samples, tell) for name, both in todo.items())
    return ExampleDiff(sides.key, sides.compared, found)


class _Count:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def add(self, count: int) -> None:
        self._done += count
        if self._progress:
            self._progress(self._done, self._total)


def _differing(sides: Sides, split: str) -> tuple[list[Shard], list[Shard]]:
    """The shards of a split whose content the other side does not have."""
    both = [side.shards.get(split, []) for side in (sides.a, sides.b)]
    contents = [
        Counter(side.contents.get(each.name, each.name) for each in shards)
        for side, shards in zip((sides.a, sides.b), both, strict=True)
    ]
    # A file that the catalog does not know goes by its name, which is no sha256.
    shared = contents[0] & contents[1]
    left = []
    for side, shards in zip((sides.a, sides.b), both, strict=True):
        spare = Counter({digest: n for digest, n in shared.items() if len(digest) == 64})
        rest = []
        for each in shards:
            digest = side.contents.get(each.name, each.name)
            if spare[digest] > 0:
                spare[digest] -= 1
            else:
                rest.append(each)
        left.append(rest)
    return left[0], left[1]


def _split(
    sides: Sides,
    split: str,
    ours: Sequence[Shard],
    theirs: Sequence[Shard],
    samples: int,
    tell: _Count,
) -> SplitExamples:
    from provender.questions.diff.digests import Tally

    tally = Tally(samples, len(sides.compared) if sides.key is not None else 0)
    every = sum(each.examples for each in sides.a.shards.get(split, ()))
    unread = every - sum(each.examples for each in ours)
    if ours and theirs:
        _fill(sides, tally, ours, theirs, tell)
    else:
        # Nothing that is left could match: it need not be read.
        for name, shards in (("removed", ours), ("added", theirs)):
            tally.counts[name] = sum(each.examples for each in shards)
            setattr(tally, name, list(islice(_places(shards), samples)))
    return SplitExamples(
        split=split,
        added=tally.counts["added"],
        removed=tally.counts["removed"],
        changed=tally.counts["changed"],
        same=tally.counts["same"] + unread,
        repeated=tally.repeated,
        fields={
            name: int(count)
            for name, count in zip(sides.compared, tally.fields, strict=False)
            if count
        },
        added_samples=tuple(sides.b.example(split, place) for place in tally.added),
        removed_samples=tuple(sides.a.example(split, place) for place in tally.removed),
        changed_samples=tuple(_changed(sides, split, *pair) for pair in tally.changed),
    )


def _places(shards: Sequence[Shard]) -> Iterator[int]:
    return (s.number * _SHARD + i for s in shards for i in range(s.examples))


def _fill(
    sides: Sides, tally: Tally, ours: Sequence[Shard], theirs: Sequence[Shard], tell: _Count
) -> None:
    """Reads both sides, and compares them part by part."""
    from provender.questions.diff.digests import Shelf, parts_for

    digesters = [sides.digester(side) for side in (sides.a, sides.b)]
    width = digesters[0].width
    most = max(sum(each.examples for each in shards) for shards in (ours, theirs))
    parts = parts_for(most, width)
    with tempfile.TemporaryDirectory(prefix="provender-diff-") as place, ExitStack() as stack:
        shelves = [
            stack.enter_context(Shelf(Path(place) / name, width, parts)) for name in ("a", "b")
        ]
        for side, shards, digester, shelf in zip(
            (sides.a, sides.b), (ours, theirs), digesters, shelves, strict=True
        ):
            for shard in shards:
                first = shard.number * _SHARD
                for batch in _batches(side.records(shard)):
                    shelf.add(digester.rows(batch, first))
                    first += len(batch)
                    tell.add(len(batch))
        for number in range(parts):
            before, after = (shelf.part(number) for shelf in shelves)
            tally.compare(before, after, sides.key is not None)


def _batches(payloads: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for payload in payloads:
        batch.append(payload)
        size += len(payload)
        if len(batch) == _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _changed(sides: Sides, split: str, before: int, after: int) -> dict[str, Any]:
    """A changed example: its key, and the values of the features that differ."""
    one, other = (
        dict(_flat(side.example(split, place), ""))
        for side, place in ((sides.a, before), (sides.b, after))
    )
    fields = {
        name: [one.get(name), other.get(name)]
        for name in [*one, *(each for each in other if each not in one)]
        if one.get(name) != other.get(name) and _is_compared(name, sides.compared)
    }
    return {"key": one.get(str(sides.key)), "fields": fields}


def _is_compared(name: str, compared: Sequence[str]) -> bool:
    return any(
        name == each or name.startswith(f"{each}/") or each.startswith(f"{name}/")
        for each in compared
    )


def _flat(value: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        if isinstance(each, Mapping) and each and not _is_summary(each):
            yield from _flat(each, f"{above}{name}/")
        else:
            yield f"{above}{name}", each


def _is_summary(value: Mapping[str, Any]) -> bool:
    """Whether it stands for an image or other bytes, see `provender.training.images.summary`."""
    return "bytes" in value and isinstance(value["bytes"], int)
