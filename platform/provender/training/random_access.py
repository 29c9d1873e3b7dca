"""Examples of a version by number, as `tfds.data_source` gives them, from the plain TFRecord files.

TFDS needs a second copy of the data in the ArrayRecord format for this. The offset index that
every version carries makes the TFRecord files themselves addressable. Nothing here imports
TensorFlow. The object is a sequence, so samplers of torch, grain and the like take it as it is.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from provender.training.contents import contents_of, index_name
from provender.training.feed.plan import pieces_of
from provender.training.heading import shard_files
from provender.training.rows import Example, decoder_of
from provender.training.shard_cache import CacheFull, HeldShard, ShardCache, ShardKey, warn_once
from provender.training.splits import SplitLike, resolve_split

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord
    from provender.store import Store
    from provender.training.feed.ranges import RangedShard, RecordRanges
    from provender.training.mapped import MappedShard

    Reader = MappedShard | RangedShard


class DataSource(Sequence[Example]):
    """The examples of a split.

    Args:
        store: where the version lies; shards of a remote one come through the local shard cache,
            or are read in the store where that has no room.
        version: the version.
        split: a split expression, or a part of one.
        columns: top-level features wanted; None means all.
        catalog: says what the shards are; without it the version's manifest does.
        home: of the project, which holds the shard cache.

    Raises:
        UnknownReference: an unknown split or column; the message says what there is.
    """

    def __init__(
        self,
        store: Store,
        version: VersionRecord,
        split: SplitLike,
        columns: Sequence[str] | None = None,
        catalog: Catalog | None = None,
        home: Path | None = None,
    ) -> None:
        files = shard_files(version)
        lengths = {name: [count for _, count in each] for name, each in files.items()}
        self.name = version.name
        self.split = split
        self._pieces = pieces_of(resolve_split(split, lengths, where=version.name), files)
        self._ends = list(itertools.accumulate(len(each) for each in self._pieces))
        # What leads from an example's number to its record's in the file.
        self._shifts = [p.stop - end for p, end in zip(self._pieces, self._ends, strict=True)]
        self._size = self._ends[-1] if self._ends else 0
        self._opened: list[Reader | None] = [None] * len(self._pieces)
        self._store = store
        self._folder = version.path
        self._facts = contents_of(store, version, catalog)
        self._home = home
        self._readers: dict[str, Reader] = {}
        self._held: list[HeldShard] = []
        self._ranges: RecordRanges | None = None
        self._features, self._columns = version.features or {}, columns
        self._decode = decoder_of(self._features, columns, version.name)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        """An example as a nested dict of NumPy arrays, numbers and bytes; or a list of them.

        Raises:
            IndexError: there is no such example.
            DamageError: its record is damaged; the message says which and where.
        """
        if index.__class__ is not int:
            if isinstance(index, slice):
                return self.__getitems__(range(*index.indices(len(self))))
            index = operator.index(index)
        number = index if index >= 0 else index + self._size
        if not 0 <= number < self._size:
            message = f"example {index} of {self._size:,}"
            raise IndexError(message)
        at = bisect_right(self._ends, number)
        shard = self._opened[at] or self._open(at)
        return self._decode(shard.read(number + self._shifts[at]))

    def __getitems__(self, indices: Sequence[int]) -> list[Example]:
        """Several examples, in the order asked for; torch's samplers call it."""
        return [self[index] for index in indices]

    def __iter__(self) -> Iterator[Example]:
        for piece in self._pieces:
            records = self._reader(piece.name).iter(piece.start, piece.stop)
            yield from map(self._decode, records)

    def _open(self, at: int) -> Reader:
        reader = self._opened[at] = self._reader(self._pieces[at].name)
        return reader

    def _reader(self, name: str) -> Reader:
        if name not in self._readers:
            self._readers[name] = self._opened_shard(name)
        return self._readers[name]

    def _opened_shard(self, name: str) -> Reader:
        from provender.training.mapped import MappedShard

        try:
            shard, index = (self._local(each) for each in (name, index_name(name)))
        except CacheFull as error:
            from provender.training.feed.ranges import RangedShard, RecordRanges

            warn_once(error)
            if self._ranges is None:
                self._ranges = RecordRanges(self._store, self._folder, self._facts)
            return RangedShard(self._ranges, name)
        return MappedShard(shard, index)

    def _local(self, name: str) -> str:
        rel = f"{self._folder}/{name}"
        local = self._store.local(rel)
        if local is not None:
            return str(local)
        facts = self._facts[name]
        key = ShardKey(self._store.path(rel), facts.size, facts.sha256, facts.crc32c, facts.token)
        held = ShardCache.current(self._home).hold_from(self._store, rel, key)
        self._held.append(held)
        return str(held.path)

    def close(self) -> None:
        """Closes the files; reading again opens them again."""
        for reader in self._readers.values():
            reader.close()
        for held in self._held:
            held.close()
        self._opened = [None] * len(self._pieces)
        self._readers.clear()
        self._held.clear()

    def __enter__(self) -> DataSource:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_held"):
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes of a loader open the files themselves.
        closed = [None] * len(self._pieces)
        kept: dict[str, Any] = {
            "_opened": closed,
            "_readers": {},
            "_held": [],
            "_ranges": None,
            "_decode": None,
        }
        return {**self.__dict__, **kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._decode = decoder_of(self._features, self._columns, self.name)

    def __repr__(self) -> str:
        return f"DataSource({self.name!r}, {str(self.split)!r}, {len(self):,} examples)"


def open_source(
    store: Store,
    version: VersionRecord,
    split: SplitLike | None,
    columns: Sequence[str] | None,
    catalog: Catalog | None,
    home: Path | None,
) -> DataSource | dict[str, DataSource]:
    """A `DataSource`, or one for each split where none is named."""
    if split is not None:
        return DataSource(store, version, split, columns, catalog, home)
    return {
        each.name: DataSource(store, version, each.name, columns, catalog, home)
        for each in version.splits
    }
