"""Digests of examples, and which of them two sides share: arithmetic on arrays of numbers.

An example is a row of unsigned 64-bit numbers::

    key (2, may be none) | content (2) | place (1) | one a feature (may be none)

Rows are matched by key, or where there is none by content. Rows that are too many to hold at once
are divided among files by their first number, so that what matches lies in one file; then one file
of each side after the other is compared. All digests are xxh3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
import xxhash

from provender.statistics.columns import PADDING, read_spans
from provender.statistics.schema import Schema
from provender.statistics.values import mixed

BUDGET = 48 << 20
"""Bytes of rows of one side that are compared at a time."""

_digest = xxhash.xxh3_128_digest


class Digester:
    """Makes rows of records.

    Args:
        schema: says which keys of an example belong to which feature.
        features: the features that count, by name.
        key: the feature that names an example, or None.
    """

    def __init__(self, schema: Schema, features: Sequence[str], key: str | None) -> None:
        self._schema = schema
        self._place = {name: i for i, name in enumerate(features)}
        self._key = key
        self._salts: dict[str, np.ndarray] = {}
        self.width = 3 + (2 + len(features) if key is not None else 0)

    def rows(self, payloads: Sequence[bytes], first: int) -> np.ndarray:
        """The rows of consecutive records.

        Args:
            payloads: the records.
            first: place of the first one.

        Returns:
            uint64, shape (records, `width`).
        """
        data = b"".join((*payloads, bytes(PADDING)))
        sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
        ends = np.cumsum(sizes)
        content = np.zeros((len(payloads), 2), np.uint64)
        key = np.zeros((len(payloads), 2), np.uint64)
        fields = np.zeros((len(payloads), len(self._place)), np.uint64)
        for group in read_spans(np.frombuffer(data, np.uint8), ends - sizes, ends):
            for name, (_, lo, hi) in group.lists.items():
                feature, _ = self._schema.place(name)
                if feature not in self._place:
                    continue
                parts = [_digest(data[a:b]) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
                found = np.frombuffer(b"".join(parts), ">u8").astype(np.uint64).reshape(-1, 2)
                # Salted by name, so that the order of features does not matter, but their names do.
                found = mixed(found ^ self._salt(name))
                content[group.rows] += found
                if self._key is not None:
                    fields[group.rows, self._place[feature]] += found[:, 0]
                    if feature == self._key:
                        key[group.rows] += found
        place = np.arange(first, first + len(payloads), dtype=np.uint64)[:, None]
        if self._key is None:
            return np.concatenate([content, place], axis=1)
        return np.concatenate([key, content, place, fields], axis=1)

    def _salt(self, name: str) -> np.ndarray:
        found = self._salts.get(name)
        if found is None:
            found = np.frombuffer(_digest(name.encode()), ">u8").astype(np.uint64)
            self._salts[name] = found
        return found


class Shelf:
    """Rows of one side, divided into parts that fit in memory.

    Args:
        folder: an empty folder for files; written to only where there are several parts.
        width: numbers a row.
        parts: number of parts, a power of two.
    """

    def __init__(self, folder: Path, width: int, parts: int) -> None:
        self._folder, self._width, self.parts = folder, width, parts
        self._shift = np.uint64(64 - (parts.bit_length() - 1)) if parts > 1 else None
        self._rows: list[np.ndarray] = []
        self._files: list[BinaryIO] = []

    def __enter__(self) -> Shelf:
        if self._shift is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files = [self._path(i).open("wb") for i in range(self.parts)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files:
            file.close()

    def add(self, rows: np.ndarray) -> None:
        """Takes in rows, uint64 of shape (n, width)."""
        if self._shift is None:
            self._rows.append(rows)
            return
        place = (rows[:, 0] >> self._shift).astype(np.int64)
        order = np.argsort(place, kind="stable")
        edges = np.searchsorted(place[order], np.arange(self.parts + 1))
        for i, (low, high) in enumerate(pairwise(edges.tolist())):
            if low < high:
                self._files[i].write(rows[order[low:high]].tobytes())

    def part(self, number: int) -> np.ndarray:
        """The rows of one part, in the order they were taken in."""
        if self._shift is None:
            rows, self._rows = self._rows, []
            return np.concatenate(rows) if rows else np.zeros((0, self._width), np.uint64)
        self._files[number].close()
        path = self._path(number)
        rows_here = np.fromfile(path, np.uint64).reshape(-1, self._width)
        path.unlink()
        return rows_here

    def _path(self, number: int) -> Path:
        return self._folder / f"rows-{number:04d}"


def parts_for(examples: int, width: int) -> int:
    """Parts that so many rows are to be divided into: a power of two, at most 512."""
    wanted = max(1, -(-examples * width * 8 // BUDGET))
    return min(512, 1 << (wanted - 1).bit_length())


@dataclass
class Tally:
    """What was found so far.

    Attributes:
        added, removed: places of some of those examples, the lowest ones.
        changed: pairs of places, likewise.
        counts: numbers of ``added``, ``removed``, ``changed`` and ``same`` examples.
        repeated: examples beyond the first of their key, of either side.
        fields: changed examples in which a feature differs, by its position.
    """

    most: int
    features: int
    added: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    changed: list[tuple[int, int]] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("added", "removed", "changed", "same"), 0)
    )
    repeated: tuple[int, int] = (0, 0)
    fields: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.fields = np.zeros(self.features, np.int64)

    def compare(self, before: np.ndarray, after: np.ndarray, keyed: bool) -> None:
        """Compares rows of both sides; what matches must be among them.

        Args:
            before, after: uint64, rows in the order of their places.
            keyed: whether rows begin with a key.
        """
        identity = 4 if keyed else 2
        place = identity
        if keyed:
            found = tuple(_repeated(rows[:, :2]) for rows in (before, after))
            self.repeated = (self.repeated[0] + found[0], self.repeated[1] + found[1])
        left, right = surplus(before[:, :identity], after[:, :identity])
        self.counts["same"] += len(before) - int(left.sum())
        before, after = before[left], after[right]
        if keyed and len(before) and len(after):
            ours, theirs = pairs(before[:, :2], after[:, :2])
            self._take_changed(before[ours], after[theirs], place)
            before, after = np.delete(before, ours, 0), np.delete(after, theirs, 0)
        self.counts["removed"] += len(before)
        self.counts["added"] += len(after)
        self.removed = _lowest(self.removed, before[:, place], self.most)
        self.added = _lowest(self.added, after[:, place], self.most)

    def _take_changed(self, before: np.ndarray, after: np.ndarray, place: int) -> None:
        self.counts["changed"] += len(before)
        self.fields += (before[:, place + 1 :] != after[:, place + 1 :]).sum(axis=0)
        order = np.argsort(before[:, place])[: self.most]
        new = zip(before[order, place].tolist(), after[order, place].tolist(), strict=True)
        self.changed = sorted([*self.changed, *new])[: self.most]


def _lowest(known: list[int], more: np.ndarray, most: int) -> list[int]:
    if len(more) > most:
        more = np.partition(more, most)[:most] if most else more[:0]
    return sorted([*known, *more.tolist()])[:most]


def _grouped(before: np.ndarray, after: np.ndarray) -> Iterator[np.ndarray]:
    """For both sides: number of a row's group of equal rows, and its rank among its side's in it."""
    every = np.concatenate([before, after])
    order = np.lexsort(every.T[::-1])
    ordered = every[order]
    starts = np.ones(len(every), bool)
    if len(every):
        starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    group = np.empty(len(every), np.int64)
    group[order] = np.cumsum(starts) - 1
    for side in (group[: len(before)], group[len(before) :]):
        by_group = np.argsort(side, kind="stable")
        firsts = np.ones(len(side), bool)
        if len(side):
            firsts[1:] = side[by_group][1:] != side[by_group][:-1]
        begin = np.maximum.accumulate(np.where(firsts, np.arange(len(side)), 0))
        rank = np.empty(len(side), np.int64)
        rank[by_group] = np.arange(len(side)) - begin
        yield side
        yield rank


def surplus(before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of each side have no equal partner on the other; repeated rows are counted.

    Args:
        before: uint64, shape (n, k).
        after: uint64, shape (m, k).

    Returns:
        Two bool arrays of n and m; of equal rows the later ones are left over.
    """
    group_a, rank_a, group_b, rank_b = _grouped(before, after)
    groups = int(max(group_a.max(initial=-1), group_b.max(initial=-1))) + 1
    in_a, in_b = (np.bincount(each, minlength=groups) for each in (group_a, group_b))
    return rank_a >= in_b[group_a], rank_b >= in_a[group_b]


def pairs(before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of rows that are partners: the first of a value with the first, and so on."""
    left, right = surplus(before, after)
    ours, theirs = np.flatnonzero(~left), np.flatnonzero(~right)
    group_a, rank_a, group_b, rank_b = _grouped(before[ours], after[theirs])
    return ours[np.lexsort((rank_a, group_a))], theirs[np.lexsort((rank_b, group_b))]


def _repeated(keys: np.ndarray) -> int:
    """Rows beyond the first of their key."""
    if len(keys) < 2:
        return 0
    ordered = keys[np.lexsort(keys.T[::-1])]
    return int((ordered[1:] == ordered[:-1]).all(axis=1).sum())
