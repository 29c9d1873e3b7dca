"""Split expressions over sources: ``train[10%:20%]+test[:500]`` as ranges of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from provender.data.sources.base import Source
from provender.data.sources.combined import ConcatSource, PiecesSource, row_range
from provender.fingerprint.caller import users_level
from provender.training.splits import (
    SplitLike,
    SplitSlice,
    resolve_split,
    spelled,
    unknown_split,
)


def each_split(split: Any, load: Callable[[Any], Any]) -> Any:
    """What is loaded of a split, or the list of that for a list of splits."""
    if isinstance(split, list | tuple):
        return [load(spelled(each)) for each in split]
    return load(split if split is None else spelled(split))


def cut_short(text: str, examples: int) -> None:
    """Warns of a slice that leaves a split of files; it ends where the split does."""
    warnings.warn(
        f"{text} leaves the split, which has {examples:,} rows: it ends there.",
        stacklevel=users_level(),
    )


def chosen_source(
    sources: Mapping[str, Source],
    split: SplitLike,
    where: str,
    beyond: Callable[[str, int], object] | None = None,
) -> Source:
    """The rows that a split expression means.

    Counts that are not known without reading are found by reading; a split without brackets needs
    none.

    Args:
        sources: split name -> source.
        split: an expression, or a part made by `provender.even_splits`.
        where: what is loaded, for messages.
        beyond: as for `resolve_split`.

    Raises:
        UnknownReference: there is no such split; the message says which there are.
        SplitError: the expression cannot be read, or leaves the split's bounds.
    """
    if isinstance(split, str):
        terms = [term.strip() for term in split.split("+")]
        if all("[" not in term for term in terms):
            parts = []
            for term in terms:
                names = list(sources) if term == "all" and "all" not in sources else [term]
                for name in names:
                    if name not in sources:
                        raise unknown_split(name, sources, where)
                    parts.append(sources[name])
            return parts[0] if len(parts) == 1 else ConcatSource(parts)
    slices = resolve_split(split, _Counts(sources), where=where, beyond=beyond)
    parts = [_part(sources[each.split], each) for each in slices]
    return parts[0] if len(parts) == 1 else ConcatSource(parts)


def _part(source: Source, part: SplitSlice) -> Source:
    if source.total_rows is None:
        source = Counted(source)
    return row_range(source, part.start, part.stop)


class _Counts(Mapping[str, list[int]]):
    """Rows of each shard by split; looked for only when a split is asked for."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources

    def __getitem__(self, name: str) -> list[int]:
        return counts_of(self._sources[name])

    def __iter__(self) -> Any:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, name: object) -> bool:
        return name in self._sources


def counts_of(source: Source) -> list[int]:
    """How many rows each shard has; read through where that is not known otherwise."""
    found = []
    for shard in range(source.num_shards):
        count = source.shard_rows(shard)
        if count is None:
            count = _counted(source, shard)
        found.append(count)
    return found


_remembered: dict[tuple[str, int], int] = {}


def _counted(source: Source, shard: int) -> int:
    key = (source.identity, shard)
    if key not in _remembered:
        _remembered[key] = source.count_rows(shard)
    return _remembered[key]


class Counted(PiecesSource):
    """A source whose rows were counted."""

    def __init__(self, source: Source) -> None:
        super().__init__(
            source, [(shard, 0, count) for shard, count in enumerate(counts_of(source))]
        )

    def shard_rows(self, shard: int) -> int | None:
        _, start, stop = self._pieces[shard]
        return None if stop is None else stop - start
