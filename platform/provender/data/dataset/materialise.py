"""All rows of a source as an Arrow table in the transform cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.engine import Written
from provender.data.dataset.info import DatasetInfo
from provender.data.dataset.progress import Progress
from provender.data.dataset.shaping import Shaper, common
from provender.data.dataset.storing import found, in_memory, obtain
from provender.data.dataset.tables import compact
from provender.errors import ProvenderError

if TYPE_CHECKING:
    from provender.data.cache import Work
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
    name: str,
    lineage: tuple[str, ...],
) -> tuple[pa.Table, Features, str, tuple[Any, ...], tuple[str, ...]]:
    """The rows, their features and fingerprint, what must be kept, and the lineage.

    Args:
        source: where rows come from.
        features: types that the columns are cast to, or None.
        info: about the dataset, for lineage.
        keep_in_memory: nothing is left in the cache.
        reuse: as for `storing.obtain`.
        name: for the progress bar and for people.
        lineage: fingerprints of the published versions that are read.
    """
    from provender.data.cache import Recipe, is_caching_enabled
    from provender.data.features import Features
    from provender.fingerprint import Hasher

    identity = source.identity
    unhashable: str | None = getattr(source, "unhashable", None)
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
    reading = _Reading(source, features, name or "Load")
    not_kept = unhashable
    entry = None
    if keep_in_memory and not_kept is None:
        if reuse is not False and is_caching_enabled():
            entry = found(fingerprint)
        not_kept = "it was to be kept in memory"
    if entry is None:
        entry = obtain(fingerprint, recipe, reading.compute, reuse=reuse, not_kept=not_kept)
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

    def compute(self, work: Work) -> None:
        """Reads what is missing.

        Rows are counted over all shards in order. Where the rows of a shard are not known before
        it is read, a run that stopped within it begins that shard again, but stores only what is
        missing.
        """
        from provender.data.features import Features

        source = self.source
        known = None
        done = 0
        usable = []
        for piece in work.segments:
            if piece.start != done:
                break
            usable.append(piece)
            done = piece.stop
        work.drop([each for each in work.segments if each not in usable])
        if usable:
            schemas = [work.read(each).schema for each in usable]
            known = common([Features.from_arrow_schema(each) for each in schemas])
        hints = self.features if self.features is not None else source.features
        given = self.features
        shaper = Shaper(hints if hints is not None else Features(), given, known)
        if known is None and given is None and source.features is not None:
            shaper.features = source.features
        total = source.total_rows
        with Progress(self.text, total, done) as bar:
            for table in self._tables(shaper, done, work, bar):
                del table
        features = self._settle(work, shaper)
        if total is not None and work.found() and work.found()[-1].stop != total:
            message = (
                f"The source gave {work.found()[-1].stop:,} rows; it says that it has {total:,}."
            )
            raise ProvenderError(message, where=repr(source))
        work.commit(features, schema=features.arrow_schema)

    def _tables(
        self, shaper: Shaper, done: int, work: Work, bar: Progress
    ) -> Iterator[pa.Table]:
        at = 0
        cut = done + _CUT_ROWS
        written = Written(work, done)
        with written:
            for shard in range(self.source.num_shards):
                rows = self.source.shard_rows(shard)
                if rows is not None and at + rows <= done:
                    at += rows
                    continue
                skip = done - at if rows is not None and at < done else 0
                at += skip
                chunks = self.source.read(shard, row=skip)
                try:
                    for chunk in chunks:
                        first = at
                        at += chunk.count
                        if at <= done:
                            continue
                        part = chunk.drop(done - first)
                        if not part.count:
                            continue
                        table = self._table(part, shaper, max(first, done))
                        written.write(table, at)
                        bar.advance(table.num_rows)
                        if at >= cut:
                            written.close()
                            cut = at + _CUT_ROWS
                        yield table
                finally:
                    close = getattr(chunks, "close", None)
                    if close is not None:
                        close()

    def _table(self, chunk: Any, shaper: Shaper, first: int) -> pa.Table:
        if chunk.table is not None:
            columns: Any = dict(
                zip(chunk.table.column_names, chunk.table.itercolumns(), strict=True)
            )
        else:
            columns = _gathered(chunk.rows, shaper)
        return shaper.table(columns, first)

    def _settle(self, work: Work, shaper: Shaper) -> Features:
        from provender.data.features import Features, cast_table

        pieces = work.found()
        if not pieces:
            return shaper.features if shaper.features is not None else Features()
        schemas = [work.read(each).schema for each in pieces]
        features = self.features
        if features is None:
            features = common([Features.from_arrow_schema(each) for each in schemas])
        for piece, schema in zip(pieces, schemas, strict=True):
            if not schema.equals(features.arrow_schema):
                table = cast_table(work.read(piece), features)
                work.drop([piece])
                with work.segment(piece.start, piece.stop) as out:
                    out.write(table)
        return features


def _gathered(rows: Any, shaper: Shaper) -> dict[str, list[Any]]:
    """Rows as columns; a row may lack keys, but not have ones that came nowhere before."""
    names: dict[str, None] = {}
    if shaper.features is not None:
        names.update(dict.fromkeys(shaper.features))
    for row in rows:
        names.update(dict.fromkeys(row))
    return {name: [row.get(name) for row in rows] for name in names}
