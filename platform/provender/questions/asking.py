"""`Questions`: what people ask the catalog, each question one call with a typed answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from provender.catalog.answers import (
    AsOf,
    Consumer,
    DatasetSummary,
    Reading,
    SearchHit,
    TagRecord,
    VersionSummary,
)
from provender.catalog.records import (
    AliasChange,
    AliasRecord,
    LineageEdge,
    LineageNode,
    RunRecord,
    ShardRecord,
    SqlResult,
)
from provender.catalog.words import description_of, homepages_of, licence_of
from provender.errors import SettingsError, UnknownReference
from provender.questions import reasons
from provender.questions.answers import (
    Direction,
    Input,
    LineageGraph,
    RunDetails,
    StageRun,
    VersionDetails,
    joined,
)
from provender.questions.arguments import LISTED, counted_off, moment, one_more, statuses
from provender.questions.finding import (
    dataset_of,
    is_id,
    unknown_alias,
    unknown_dataset,
    unknown_job,
    version_id_of,
)
from provender.questions.rows import Rows
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.questions.diff import VersionDiff
    from provender.questions.statistics import FeatureStats
    from provender.settings import Settings


class Questions:
    """The catalog, as people ask it.

    A reference (``ref``) is what the command line takes: ``xsum``, ``xsum:1.0.0``,
    ``wikipedia/en``, ``xsum@golden``, a builder class, or a version's id. A retracted version is
    still answered for. Every list is a `Rows`: a tuple with ``to_frame()``.

    Safe to share between threads. Nothing here changes the catalog.

    Args:
        catalog: the open catalog.
        settings: the project's settings, where an answer needs the store (`diff`).
    """

    def __init__(self, catalog: Catalog, settings: Settings | None = None) -> None:
        self.raw = catalog
        self._settings = settings

    # What exists. ----------------------------------------------------------------------------

    def datasets(
        self, name: str | None = None, *, limit: int | None = None, offset: int = 0
    ) -> Rows[DatasetSummary]:
        """Datasets by name, with the numbers of their versions.

        Args:
            name: only this dataset, all its configs.
            limit: at most so many.
            offset: skip so many.

        Raises:
            UnknownReference: there is no such dataset.
        """
        skipped = counted_off(offset, "offset")
        found = self.raw.dataset_summaries(name, limit=one_more(limit), offset=skipped)
        if name is not None and not found and not self.raw.configs(name):
            raise unknown_dataset(self.raw, name, name)
        return Rows.cut(found, DatasetSummary, limit)

    def versions(
        self,
        name: str | None = None,
        *,
        status: str | Sequence[str] = LISTED,
        tag: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Rows[VersionSummary]:
        """Versions, newest first, that match everything given.

        Args:
            name: ``dataset`` or ``dataset/config``; without a config all of them.
            status: in this status, or one of these: published, trial, retracted, replaced.
            tag: with this tag.
            since: registered at this time or later.
            until: registered before this time.
            limit: at most so many.
            offset: skip so many.

        Raises:
            UnknownReference: there is no such dataset.
            SettingsError: there is no such status.
        """
        dataset, config = (None, None) if name is None else self._named(name)
        found = self.raw.version_summaries(
            dataset,
            config=config,
            include=statuses(status),
            tag=tag,
            since=None if since is None else moment(since),
            until=None if until is None else moment(until),
            limit=one_more(limit),
            offset=counted_off(offset, "offset"),
        )
        return Rows.cut(found, VersionSummary, limit)

    def version(self, ref: str) -> VersionDetails:
        """One version in full.

        Raises:
            UnknownReference: there is no such version; the message says what there is.
        """
        found = None
        if not is_id(ref):
            asked = DatasetRef.parse(ref)
            found = self.raw.whole_version(
                dataset=asked.name, config=asked.config, alias=asked.alias, number=asked.version
            )
        # What cannot be found at once is looked for with more care, and with more to say.
        found = found or self.raw.whole_version(self._id(ref))
        assert found is not None
        summary, successor, row = found
        return VersionDetails(
            summary=summary,
            path=row.path,
            description=description_of(row.info),
            licence=licence_of(row.info),
            homepages=tuple(homepages_of(row.info)),
            builder=str((row.info.get("spec") or {}).get("source") or ""),
            features=row.features,
            info=row.info,
            successor=successor.name if successor else None,
            removed=row.removed_at,
        )

    def files(self, ref: str) -> Rows[ShardRecord]:
        """The shard files of a version, split by split.

        Raises:
            UnknownReference: there is no such version.
        """
        return Rows(self.raw.shards(self._id(ref)), ShardRecord)

    def inputs(self, ref: str) -> Rows[Input]:
        """Every file from outside that a version was made from: downloads and manual files.

        Raises:
            UnknownReference: there is no such version.
        """
        return Rows(reasons.inputs_of(self.raw, self._id(ref)), Input)

    def stats(self, ref: str) -> Rows[FeatureStats]:
        """The statistics of a version, split by split and feature by feature.

        Raises:
            UnknownReference: there is no such version.
        """
        from provender.questions.statistics import statistics_of

        return statistics_of(self.raw, self._id(ref))

    def search(self, text: str, *, limit: int = 20) -> Rows[SearchHit]:
        """Datasets that have all the words, best first; see `provender.catalog.Catalog.search`.

        Args:
            text: words, or the beginnings of words.
            limit: at most so many.
        """
        more = counted_off(limit, "limit") + 1
        return Rows.cut(self.raw.search(text, limit=more), SearchHit, limit)

    # Where things come from, and where they go. ----------------------------------------------

    def lineage(
        self, ref: str, direction: Direction = "up", depth: int | None = None
    ) -> LineageGraph:
        """What something was made from, or what was made from it.

        Args:
            ref: a version; or the id of a stage execution, or an artifact's digest.
            direction: ``up`` for what it was made from, ``down`` for what was made from it, or
                ``both``.
            depth: at most so many steps away; None for all.

        Raises:
            UnknownReference: the catalog knows nothing of it.
            SettingsError: there is no such direction, or the depth is no number.
        """
        if direction not in ("up", "down", "both"):
            message = f"A direction is 'up', 'down' or 'both', not {direction!r}."
            raise SettingsError(message, where="direction", hint="Leave it out for 'up'.")
        if depth is not None:
            counted_off(depth, "depth")
        id = self._node_id(ref)
        if direction == "both":
            found = joined(self.raw.lineage(id, way, depth) for way in ("up", "down"))
        else:
            found = self.raw.lineage(id, direction, depth)
        return LineageGraph(
            direction, depth, Rows(found.nodes, LineageNode), Rows(found.edges, LineageEdge)
        )

    def consumers(self, ref: str) -> Rows[Consumer]:
        """Everything that depends on a version: jobs that read it, and versions and transforms
        made from it, with the jobs that read those.

        Raises:
            UnknownReference: there is no such version.
        """
        return Rows(self.raw.consumers(self._id(ref)), Consumer)

    def consumed_by(self, job: str, *, limit: int | None = None) -> Rows[Reading]:
        """What a job read, newest first, with what became of those versions since.

        Args:
            job: name of the training job, evaluation, notebook ...
            limit: at most so many.

        Raises:
            UnknownReference: no such job is on record; the message says which are near.
        """
        found = self.raw.readings(job=job, limit=one_more(limit))
        if not found:
            raise unknown_job(self.raw, job)
        return Rows.cut(found, Reading, limit)

    def readings(self, ref: str, *, limit: int | None = None) -> Rows[Reading]:
        """Every single read of a version that is on record, newest first.

        Raises:
            UnknownReference: there is no such version.
        """
        found = self.raw.readings(version_id=self._id(ref), limit=one_more(limit))
        return Rows.cut(found, Reading, limit)

    def jobs(self) -> tuple[str, ...]:
        """The names of all jobs that ever read a version."""
        return tuple(self.raw.jobs())

    # What was done, and why. -----------------------------------------------------------------

    def runs(self, name: str | None = None, *, limit: int | None = 100) -> Rows[RunRecord]:
        """Runs, newest first.

        Args:
            name: of this dataset, of ``dataset/config``, or, with a number or an alias behind it,
                of this version: its builds and whatever else was done with it.
            limit: at most so many.

        Raises:
            UnknownReference: there is no such dataset, or no such version that a run names.
        """
        if name is None:
            return Rows.cut(self.raw.runs(None, one_more(limit)), RunRecord, limit)
        ref = DatasetRef.parse(name)
        if ref.alias or ref.target:
            asked = self.version(name).summary
            ref = DatasetRef(asked.dataset, asked.config, asked.version if ref.alias else None)
        found = self.raw.runs(ref.name, one_more(limit), config=ref.config, version=ref.version)
        if not found:
            if not self.raw.configs(ref.name):
                raise unknown_dataset(self.raw, ref.name, name)
            if ref.version:
                # Says which versions there are; one that is there and was made by no run is fine.
                self._id(name)
        return Rows.cut(found, RunRecord, limit)

    def run(self, id: str) -> RunDetails:
        """One run with its stages, by its id or the first digits of it.

        Raises:
            UnknownReference: no run has such an id, or several do.
        """
        return reasons.run_details(self.raw, self.raw.run(id))

    def why(self, what: str, stage: str | None = None, *, run: str | None = None) -> Rows[StageRun]:
        """Why stages ran, as the runs recorded it.

        Args:
            what: a dataset (the newest execution of each stage), a version (the run that made
                it), ``dataset:stage/key``, or the id of a stage execution.
            stage: only this stage, or this kind of stages: ``shards`` is all of them.
            run: only what this run executed or reused.

        Raises:
            UnknownReference: nothing is on record of it.
        """
        found = reasons.why(self.raw, what, stage, run)
        return Rows(found, StageRun)

    def diff(self, a: str, b: str, **options: Any) -> VersionDiff:
        """What differs between two versions.

        Args:
            a: the older one, usually.
            b: the newer one.
            **options: see `provender.questions.diff`.

        Raises:
            UnknownReference: there is no such version.
        """
        from provender.questions.diff import diff_versions

        return diff_versions(self, a, b, **options)

    # Names. ----------------------------------------------------------------------------------

    def aliases(self, name: str) -> Rows[AliasRecord]:
        """Where the aliases of a dataset point now.

        Raises:
            UnknownReference: there is no such dataset.
        """
        return Rows(self.raw.aliases(*dataset_of(self.raw, name)).values(), AliasRecord)

    def alias_history(self, name: str, alias: str | None = None) -> Rows[AliasChange]:
        """The moves of a dataset's aliases, or of one of them, newest first.

        Raises:
            UnknownReference: there is no such dataset, or never was such an alias of it.
        """
        whose = dataset_of(self.raw, name)
        found = self.raw.alias_history(*whose, alias)
        if alias is not None and not found:
            raise unknown_alias(self.raw, *whose, alias)
        return Rows(found, AliasChange)

    def tags(
        self, ref: str | None = None, *, tag: str | None = None, limit: int | None = None
    ) -> Rows[TagRecord]:
        """Tags on versions, by tag.

        Args:
            ref: a version; or a dataset, for the tags of all its versions.
            tag: only this tag.
            limit: at most so many.
        """
        given: dict[str, Any] = {}
        if ref is not None:
            asked = None if is_id(ref) else DatasetRef.parse(ref)
            if asked is None or asked.version or asked.alias or asked.target:
                given = {"version_id": self._id(ref)}
            else:
                given = dict(zip(("dataset", "config"), dataset_of(self.raw, ref), strict=True))
        found = self.raw.tags(tag=tag, limit=one_more(limit), **given)
        return Rows.cut(found, TagRecord, limit)

    def as_of(self, ref: str, time: datetime | date | str) -> AsOf:
        """What a reference meant at some time.

        Args:
            ref: ``name[/config]`` with an alias, a number, or neither.
            time: a datetime (without a zone it is taken as UTC), a date (its first moment), or
                either as ISO 8601 text.

        Raises:
            UnknownReference: it meant nothing then; the message says what there was.
            SettingsError: the time cannot be read.
        """
        asked = DatasetRef.parse(ref)
        dataset, config = dataset_of(self.raw, ref)
        return self.raw.as_of(
            dataset, config, moment(time), alias=asked.alias, number=asked.version, ref=ref
        )

    def sql(
        self, statement: str, *, limit: int | None = 1000, timeout: float | None = 60.0
    ) -> SqlResult:
        """Asks in SQL; the database keeps the statement from writing.

        Args:
            statement: one SELECT; the stable views are `provender.catalog.VIEWS`.
            limit: rows at most; None for all.
            timeout: seconds after which the database gives up; None for no limit.

        Raises:
            StatementRefused: the database refuses the statement.
        """
        if limit is not None:
            counted_off(limit, "limit")
        return self.raw.sql(statement, limit, timeout=timeout)

    # Housekeeping. ---------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The project's settings."""
        if self._settings is None:
            from provender.settings import load_settings

            self._settings = load_settings()
        return self._settings

    def close(self) -> None:
        """Closes the catalog's connections."""
        self.raw.close()

    def __enter__(self) -> Questions:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<questions to {self.raw.url}>"

    def _id(self, ref: str) -> str:
        return version_id_of(self.raw, ref)

    def _node_id(self, ref: str) -> str:
        try:
            return version_id_of(self.raw, ref)
        except UnknownReference:
            if all(digit in "0123456789abcdef" for digit in ref) and len(ref) >= 32:
                return ref
            raise

    def _named(self, name: str) -> tuple[str, str | None]:
        asked = DatasetRef.parse(name)
        if asked.target or asked.config is not None:
            return dataset_of(self.raw, name)
        if not self.raw.configs(asked.name):
            raise unknown_dataset(self.raw, asked.name, name)
        return asked.name, None


def catalog(
    url: str | None = None, *, settings: Settings | None = None, store: str | None = None
) -> Questions:
    """Opens the catalog for questions; ``provender.catalog()`` is this function.

    Args:
        url: the catalog's address or file; by default the project's.
        settings: the project's settings; by default as provender.toml and the environment say.
        store: the store, where it is not the project's.

    Raises:
        CatalogError: it cannot be reached, or its schema is not this program's.
    """
    from provender.catalog import Catalog
    from provender.settings import load_settings

    if settings is None:
        settings = load_settings(catalog=url, store=store)
    return Questions(Catalog.open(url or settings.catalog), settings)
