"""One computation in progress."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from provender.data.cache import layout
from provender.data.cache.entry import Entry, mapped_batches
from provender.data.cache.files import disk_errors, remove
from provender.data.cache.history import changes
from provender.data.cache.layout import Range, Segment
from provender.data.cache.locking import is_writer_alive
from provender.data.cache.manifest import DAMAGE, Manifest, Why
from provender.data.cache.proof import damaged
from provender.data.cache.recipe import Recipe
from provender.data.cache.segments import TEMP, SegmentOutput, SegmentWriter
from provender.errors import ProvenderError

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.cache.folder import TransformCache
    from provender.fingerprint import Tree

_log = logging.getLogger("provender.data")
_ABANDONED_SECONDS = 86400


class Work:
    """The exclusive right to compute one result, and the way to do so.

    Made by `TransformCache.writing`.

    Attributes:
        fingerprint: of the result.
        recipe: what it is made from.
        entry: the result, where somebody finished it meanwhile or after `commit`; else None.
        segments: finished pieces found, in order, without overlaps.
        reasons: why it is computed, one JSON document a cause; empty where ``entry`` is there.
        compared: fingerprint of the earlier result that ``reasons`` compare with, or None.
        waited: whether another process or thread was waited for.
        folder: where the pieces lie.
        tree: the named digests behind the fingerprint, or None.
        committed: whether `commit` was done.
        given_up: to be set by who leaves without a result on purpose, by an exception of its own:
            that is then no failure to be recorded.
    """

    def __init__(
        self,
        cache: TransformCache,
        fingerprint: str,
        recipe: Recipe,
        folder: str,
        *,
        entry: Entry | None = None,
        waited: bool = False,
    ) -> None:
        self.fingerprint = fingerprint
        self.recipe = recipe
        self.entry = entry
        self.segments: list[Segment] = []
        self._whole: list[Segment] = []
        self.reasons: tuple[Mapping[str, Any], ...] = ()
        self.compared: str | None = None
        self.waited = waited
        self.tree: Tree | None = None
        self._cache = cache
        self.folder = folder
        self._total: int | None = None
        self._began = time.time()
        self._pid = os.getpid()
        self._writer = SegmentWriter(folder, cut_seconds=cache.cut_seconds)
        self.committed = False
        self.given_up = False

    def missing(self, total: int, align: int = 1) -> list[Range]:
        """The ranges of input rows that are still to be computed, in order.

        Finished pieces that cannot be part of such a result are dropped.

        Args:
            total: number of input rows.
            align: ranges are cut at multiples of this, e.g. the batch size.
        """
        self._total = total
        self._writer.align = align
        fitting = [each for each in self._whole if layout.fits(each, total, align)]
        self.segments = layout.tiling(total, fitting) or layout.chosen(fitting)
        return layout.missing(total, align, self.segments)

    def segment(self, start: int, stop: int | None = None) -> AbstractContextManager[SegmentOutput]:
        """Writes the rows made from [start, stop); see `SegmentWriter.segment`."""
        return self._writer.segment(start, stop)

    def handle(self) -> str:
        """What a worker process needs for `SegmentWriter.attach`; call `missing` before."""
        return self._writer.handle()

    def read(self, segment: Segment) -> pa.Table:
        """The rows of a finished piece, memory-mapped."""
        import pyarrow as pa

        path = os.path.join(self.folder, segment.file)
        if batches := mapped_batches(path):
            return pa.Table.from_batches(batches)
        with pa.memory_map(path) as file:  # without rows there is only a schema
            return pa.ipc.open_stream(file).read_all()

    def drop(self, segments: Iterable[Segment]) -> None:
        """Gives finished pieces up, e.g. because their types turn out not to fit."""
        gone = set(segments)
        for each in gone:
            remove(os.path.join(self.folder, each.file))
        self._whole = [each for each in self._whole if each not in gone]
        self.segments = layout.chosen(self._whole)

    def found(self) -> list[Segment]:
        """The pieces that `commit` would take now, whichever process wrote them, in order."""
        lying = self._lying()
        align = self._writer.align
        fitting = [each for each in lying if layout.fits(each, self._total_of(lying), align)]
        return layout.tiling(self._total_of(lying), fitting) or layout.chosen(fitting)

    def _lying(self) -> list[Segment]:
        """All pieces that are there; those of a worker that outlived its parent may overlap."""
        pieces = [Segment.from_file(name) for name in os.listdir(self.folder)]  # noqa: PTH208
        return [each for each in pieces if each is not None]

    def _total_of(self, lying: Sequence[Segment]) -> int:
        ends = max((each.stop for each in lying), default=0)
        return ends if self._total is None else self._total

    def commit(
        self,
        features: Any = None,
        rows: int | None = None,
        *,
        schema: pa.Schema | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Completes the result. The manifest is written last, so there is a whole entry or none.

        Args:
            features: an object with ``to_dict()``, or a JSON-ready document; kept for readers.
            rows: number of rows, checked against the pieces where given.
            schema: needed only for a result without any piece, i.e. of an empty input.
            facts: anything else to keep, JSON-ready.

        Raises:
            ProvenderError: rows are missing, or the pieces differ in their schema.
            DiskFull: no space was left.
        """
        if self._pid != os.getpid():
            message = "Only the process that began a result can complete it."
            raise ProvenderError(message, where=self.fingerprint)
        pieces = self.found()
        total = self._total_of(pieces)
        self._check_whole(pieces, total, rows)
        document = features.to_dict() if hasattr(features, "to_dict") else features
        manifest = Manifest(
            fingerprint=self.fingerprint,
            recipe=self.recipe,
            segments=tuple(pieces),
            total=total,
            rows=sum(each.rows for each in pieces),
            schema=self._common_schema(pieces, schema).serialize().to_pybytes(),
            features=document,
            facts=facts or {},
            created=time.time(),
            seconds=time.time() - self._began,
            host=os.uname().nodename,
        )
        self.entry = self._cache.complete(self, manifest)
        self.segments = pieces
        self.committed = True
        self._sweep(keep=frozenset(each.file for each in pieces))
        return self.entry

    def record(
        self, state: str, *, manifest: Manifest | None = None, error: BaseException | None = None
    ) -> dict[str, Any]:
        """What the catalog is to know of this work, JSON-ready; see `Outbox.put`."""
        doc: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "recipe": self.recipe.to_json(),
            "state": state,
            "reasons": [dict(each) for each in self.reasons],
            "compared": self.compared,
            "tree": self.tree.to_json() if self.tree else None,
            "started": self._began,
            "finished": time.time(),
        }
        if manifest is not None:
            doc["result"] = {"rows": manifest.rows, "input_rows": manifest.total}
            doc["output"] = {
                "digest": manifest.digest,
                "size": manifest.size,
                "uri": "" if self._cache.volatile else self.folder,
            }
        if isinstance(error, ProvenderError):
            doc["error"] = error.to_json()
        elif error is not None:
            doc["error"] = {"type": type(error).__name__, "message": str(error)}
        return doc

    def _check_whole(self, pieces: Sequence[Segment], total: int, rows: int | None) -> None:
        left = layout.gaps(total, pieces)
        if left:
            spans = ", ".join(f"{start}-{stop}" for start, stop in left[:5])
            message = f"The result is not complete: input rows {spans} were not written."
            raise ProvenderError(message, where=self.folder)
        made = sum(each.rows for each in pieces)
        if rows is not None and rows != made:
            message = f"The pieces hold {made:,} rows, but {rows:,} were made."
            raise ProvenderError(message, where=self.folder)

    def _common_schema(self, pieces: Sequence[Segment], schema: pa.Schema | None) -> pa.Schema:
        import pyarrow as pa

        first: pa.Schema | None = None
        for each in pieces:
            with pa.ipc.open_stream(pa.memory_map(os.path.join(self.folder, each.file))) as stream:
                own = stream.schema
            if first is None:
                first = own
            elif not own.equals(first):
                raise ProvenderError(
                    f"Input rows {each.start}-{each.stop} gave other types than those before: "
                    f"{_shown(own)} after {_shown(first)}.",
                    where=self.folder,
                    hint="Name the features of the result.",
                )
        schema = schema if schema is not None else first
        if schema is None:
            message = "A result without rows needs a schema."
            raise ProvenderError(message, where=self.folder)
        return schema

    def begin(self, reasons: Sequence[Mapping[str, Any]], *, fresh: bool) -> None:
        """Looks for what is there, and works out why something is to be computed.

        Args:
            reasons: those that are known already; none to compare with earlier results.
            fresh: give up what is there.
        """
        with disk_errors(self.folder):
            os.makedirs(self.folder, exist_ok=True)
        if fresh:
            self._cache.clear(self.folder)
        self._sweep()
        self._whole = self._lying()
        bad = damaged(self.folder, self._whole, thorough=True)
        self.drop(bad)
        self.tree = self.recipe.grown()
        self.reasons, self.compared = self._why(reasons, bad)
        if _log.isEnabledFor(logging.INFO):
            done = f", going on from {len(self.segments)} finished pieces" if self.segments else ""
            why = "; ".join(told(self.reasons))
            _log.info("%s is computed (%s)%s: %s", self._title, self.fingerprint[:12], done, why)

    @property
    def _title(self) -> str:
        dataset = self.recipe.dataset
        return f"{self.recipe.title} of {dataset}" if dataset else self.recipe.title

    def _why(
        self, reasons: Sequence[Mapping[str, Any]], bad: Sequence[Segment]
    ) -> tuple[tuple[Mapping[str, Any], ...], str | None]:
        before = Why.read(self.folder)
        found = [*reasons, *(damage_of(each) for each in bad)]
        compared = None
        if not found and before is not None:
            # The reasons of a try that was not finished still hold.
            compared = before.compared
            found = [each for each in before.reasons if each["kind"] != "unfinished"]
            found.append({"kind": "unfinished"})
        elif not found:
            past = self._cache.past(self.recipe)
            found, compared = changes(self.fingerprint, self.tree, past)
        Why(tuple(found), compared, self.tree, self.recipe).write(self.folder)
        remove(os.path.join(self.folder, DAMAGE))
        return tuple(found), compared

    def _sweep(self, keep: frozenset[str] | None = None) -> None:
        """Removes temporary files of the dead and, once complete, pieces that are not part of it."""
        for name in os.listdir(self.folder):  # noqa: PTH208
            path = os.path.join(self.folder, name)
            if name.startswith(TEMP):
                if is_abandoned(path):
                    remove(path)
            elif keep is not None and name.endswith(layout.SUFFIX) and name not in keep:
                remove(path)


def told(reasons: Iterable[Mapping[str, Any]]) -> list[str]:
    """Reasons as sentences, as they are told of stages."""
    from provender.engine.plan import reason_text

    return [reason_text(each) for each in reasons]


def is_abandoned(path: str) -> bool:
    """Whether a temporary file's writer is dead; by age where locks cannot tell."""
    alive = is_writer_alive(path)
    if alive is not None:
        return not alive
    try:
        return time.time() - os.stat(path).st_mtime > _ABANDONED_SECONDS
    except OSError:
        return False


def damage_of(segment: Segment) -> dict[str, Any]:
    """The reason that a damaged piece is, JSON-ready."""
    what = f"the piece of input rows {segment.start}-{segment.stop}"
    return {"kind": "damaged", "what": what, "old": segment.digest, "new": "other bytes"}


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{each.name}: {each.type}" for each in schema)
