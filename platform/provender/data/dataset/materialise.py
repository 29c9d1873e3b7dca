"""All rows of a source as an Arrow table in the transform cache."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.engine import Written, compute, read_piece, settled
from provender.data.dataset.info import DatasetInfo
from provender.data.dataset.progress import Progress
from provender.data.dataset.shaping import Shaper, common
from provender.data.dataset.shards import Shards, agree, reading, table_of
from provender.data.dataset.storing import found, in_memory, obtain
from provender.data.dataset.tables import compact
from provender.errors import ProvenderError

if TYPE_CHECKING:
    from provender.data.cache import Segment, Work
    from provender.data.features import Features
    from provender.data.sources import Source

_CUT_ROWS = 65_536


def materialised(
    source: Source,
    features: Features | None,
    info: DatasetInfo,
    *,
    keep_in_memory: bool,
    reuse: bool | None,
    threads: int,
    name: str,
    lineage: tuple[str, ...],
    folder: str | None = None,
) -> tuple[pa.Table, Features, str, tuple[Any, ...], tuple[str, ...]]:
    """The rows, their features and fingerprint, what must be kept, and the lineage.

    Args:
        source: where rows come from.
        features: types that the columns are cast to, or None.
        info: about the dataset, for lineage.
        keep_in_memory: nothing is left in the cache.
        reuse: as for `storing.obtain`.
        threads: shards that are read at the same time: by threads where the source knows how
            many rows each has, else by worker processes.
        name: for the progress bar and for people.
        lineage: fingerprints of the published versions that are read.
        folder: as for `storing.obtain`.
    """
    from provender.data.cache import Recipe, is_caching_enabled
    from provender.data.features import Features
    from provender.fingerprint import Hasher

    identity = source.identity
    unhashable = source.unhashable
    fingerprint = identity
    if features is not None and features != source.features:
        fingerprint = Hasher.hash(("provender source as 1", identity, features.to_dict()))
    recipe = Recipe(
        transform="load",
        name=name or type(source).__name__,
        dataset=info.dataset_name or "",
        config=info.config_name or "",
        parents=lineage,
        parameters={"input": identity, "source": repr(source)},
    )
    read = _Reading(source, features, name or "Load", threads)
    not_kept = unhashable
    entry = None
    if keep_in_memory and not_kept is None:
        if reuse is not False and is_caching_enabled():
            entry = found(fingerprint, folder)
        not_kept = "it was to be kept in memory"
    if entry is None:
        entry = obtain(
            fingerprint, recipe, read.compute, reuse=reuse, not_kept=not_kept, folder=folder
        )
    assert entry is not None
    table = entry.table()
    known = Features.from_dict(entry.features or {})
    if keep_in_memory:
        return in_memory(table), known, fingerprint, (), (entry.fingerprint,)
    return compact(table), known, fingerprint, (entry,), (entry.fingerprint,)


@dataclass(frozen=True)
class _Reading:
    """Reads a source into a result, going on where an earlier run stopped."""

    source: Source
    features: Features | None
    text: str
    threads: int = 1

    def compute(self, work: Work) -> None:
        """Reads what is missing, and completes the result.

        Rows are counted over all shards in order. Where the rows of a shard are not known before
        it is read, a run that stopped within it begins that shard again, but stores only what is
        missing. Worker processes read such shards into pieces of their own; then ranges are
        counted in shards.
        """
        from provender.data.features import Features
        from provender.data.sources.uncounted import UncountedSource

        source, given = self.source, self.features
        total = source.total_rows
        # What an uncounted source passes over is told by the source in this very process.
        by_shard = total is None and not isinstance(source, UncountedSource)
        by_shard = by_shard and self.threads > 1 and source.num_shards > 1
        agree(work, by_shard)
        if by_shard:
            known = source.features if given is None else None
            hints = given if given is not None else source.features or Features()
            shards = Shards(source, hints, given, known)
            compute(reading(shards, self.threads, self.text), work)
            return
        together = self.threads > 1 and total is not None and source.num_shards > 1
        if not together:
            _keep_beginning(work)
        known = None
        if work.segments:
            schemas = [read_piece(work, each).schema for each in work.segments]
            known = common([Features.from_arrow_schema(each) for each in schemas])
        elif given is None:
            known = source.features
        hints = given if given is not None else source.features or Features()
        done = sum(each.stop - each.start for each in work.segments)
        with Progress(self.text, total, done) as bar:
            if together and (known is not None or given is not None):
                self._together(work, lambda: Shaper(hints, given, known, fill=True), bar)
            else:
                _keep_beginning(work)
                done = work.segments[-1].stop if work.segments else 0
                self._in_order(work, Shaper(hints, given, known, fill=True), done, bar)
        features = settled(work, given)
        pieces = work.found()
        if not pieces:
            features = given or source.features or features
        stop = pieces[-1].stop if pieces else 0
        if total is not None and stop != total and not source.skipped:
            raise ProvenderError(
                f"The source gave {stop:,} rows; it says that it has {total:,}.",
                where=repr(source),
            )
        work.commit(features, schema=features.arrow_schema)

    def _in_order(self, work: Work, shaper: Shaper, done: int, bar: Progress) -> None:
        """Reads all shards one after another, from row `done` on."""
        at = 0
        cut = done + _CUT_ROWS
        with Written(work, done) as written:
            for shard in range(self.source.num_shards):
                rows = self.source.shard_rows(shard)
                if rows is not None and at + rows <= done:
                    at += rows
                    continue
                skip = done - at if rows is not None and at < done else 0
                at += skip
                with closing(self.source.read(shard, row=skip)) as chunks:
                    for chunk in chunks:
                        first = at
                        at += chunk.count
                        part = chunk.drop(done - first)
                        if not part.count:
                            continue
                        table = table_of(part, shaper, max(first, done))
                        written.write(table, at)
                        bar.advance(table.num_rows)
                        if at >= cut:
                            written.close()
                            cut = at + _CUT_ROWS

    def _together(self, work: Work, shaper: Callable[[], Shaper], bar: Progress) -> None:
        """Reads several shards at the same time; decoding leaves Python's lock to others."""
        from provender.data.cache.layout import gaps

        source = self.source
        counts = [source.shard_rows(shard) or 0 for shard in range(source.num_shards)]
        missing = gaps(sum(counts), work.segments)
        parts: list[tuple[int, int, int, int]] = []
        begin = 0
        for shard, count in enumerate(counts):
            for start, stop in missing:
                low, high = max(start, begin), min(stop, begin + count)
                if low < high:
                    parts.append((shard, begin, low, high))
            begin += count

        def read(part: tuple[int, int, int, int]) -> None:
            shard, begin, low, high = part
            own, at = shaper(), low
            cut = at + _CUT_ROWS
            with (
                closing(source.read(shard, row=low - begin)) as chunks,
                Written(work, low) as written,
            ):
                for chunk in chunks:
                    count = min(chunk.count, high - at)
                    if count <= 0:
                        break
                    table = table_of(chunk, own, at).slice(0, count)
                    at += count
                    written.write(table, at)
                    bar.advance(count)
                    if at >= cut:
                        written.close()
                        cut = at + _CUT_ROWS

        with ThreadPoolExecutor(self.threads) as pool:
            for done in [pool.submit(read, part) for part in parts]:
                done.result()


def _keep_beginning(work: Work) -> None:
    """Gives up finished pieces behind the first gap: their place is not known for sure."""
    done = 0
    gone: list[Segment] = []
    for piece in work.segments:
        if piece.start == done and not gone:
            done = piece.stop
        else:
            gone.append(piece)
    work.drop(gone)
