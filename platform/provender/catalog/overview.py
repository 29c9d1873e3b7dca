"""Lists of datasets and versions that stay quick however long they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.aliases import LATEST, aliases_of
from provender.catalog.answers import DatasetSummary, SplitSummary, VersionSummary
from provender.catalog.session import Session, select_in
from provender.catalog.tags import tags_of

_VERSION = t.version
_DATASET = t.dataset
LISTED = ("published", "trial", "retracted")
"""The statuses that lists show unless told otherwise."""

# All that a summary needs; the documents, which can be large, stay where they are.
_COLUMNS = (
    _VERSION.c.id,
    _VERSION.c.version,
    _VERSION.c.status,
    _VERSION.c.fingerprint,
    _VERSION.c.uri,
    _VERSION.c.run_id,
    _VERSION.c.created_at,
    _VERSION.c.retracted_at,
    _VERSION.c.retracted_by,
    _VERSION.c.retract_reason,
    _VERSION.c.successor_id,
)
SUMMARY = sa.select(*_COLUMNS, _DATASET.c.name.label("dataset"), _DATASET.c.config).join(
    _DATASET, _DATASET.c.id == _VERSION.c.dataset_id
)


class Overview(Session):
    """The part of the catalog that lists what there is."""

    def dataset_summaries(
        self,
        dataset: str | None = None,
        *,
        config: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[DatasetSummary]:
        """Datasets by name, with the numbers of their versions and the size of the latest.

        Args:
            dataset: only those of this name.
            config: only this builder config.
            limit: at most so many.
            offset: skip so many.
        """
        # The page is cut before the numbers of its rows are counted: PostgreSQL would count those
        # of every row that it skips.
        shown = _DATASET.alias("shown")
        page = sa.select(shown.c.id).order_by(shown.c.name, shown.c.config)
        page = page.limit(limit).offset(offset or None)
        if dataset is not None:
            page = page.where(shown.c.name == dataset)
        if config is not None:
            page = page.where(shown.c.config == config)
        query = _dataset_query().where(_DATASET.c.id.in_(page))
        return self._read(lambda conn: [_dataset_summary(row) for row in conn.execute(query).all()])

    def configs(self, dataset: str) -> list[str]:
        """The configs of a dataset that ever had a version, sorted; empty where it is unknown."""
        query = sa.select(_DATASET.c.config).where(_DATASET.c.name == dataset)
        return self._read(
            lambda conn: [row.config for row in conn.execute(query.order_by(_DATASET.c.config))]
        )

    def dataset_keys(self, prefix: str = "") -> list[tuple[str, str]]:
        """Name and config of every dataset whose name begins so, sorted."""
        query = sa.select(_DATASET.c.name, _DATASET.c.config)
        if prefix:
            query = query.where(_DATASET.c.name.startswith(prefix, autoescape=True))
        query = query.order_by(_DATASET.c.name, _DATASET.c.config)
        return self._read(lambda conn: [(row.name, row.config) for row in conn.execute(query)])

    def dataset_names(self) -> list[str]:
        """All dataset names, sorted."""
        query = sa.select(_DATASET.c.name).distinct().order_by(_DATASET.c.name)
        return self._read(lambda conn: [row.name for row in conn.execute(query)])

    def version_summaries(
        self,
        dataset: str | None = None,
        *,
        config: str | None = None,
        include: Sequence[str] = LISTED,
        number: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        run_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[VersionSummary]:
        """Versions, newest first, that match everything given.

        Args:
            dataset: of this dataset.
            config: of this builder config.
            include: in one of these statuses.
            number: of this number.
            tag: with this tag.
            since: registered at this time or later.
            until: registered before this time.
            run_id: made by this run.
            limit: at most so many.
            offset: skip so many.
        """
        query = SUMMARY.where(_VERSION.c.status.in_(include))
        query = query.order_by(_VERSION.c.created_at.desc(), _VERSION.c.id)
        query = query.limit(limit).offset(offset or None)
        if dataset is not None:
            # By id, so that one index gives the rows in order.
            keys = sa.select(_DATASET.c.id).where(_DATASET.c.name == dataset)
            if config is not None:
                keys = keys.where(_DATASET.c.config == config)
            query = query.where(_VERSION.c.dataset_id.in_(keys))
        if number is not None:
            query = query.where(_VERSION.c.version == number)
        if tag is not None:
            tagged = sa.select(t.tag.c.version_id).where(t.tag.c.name == tag)
            query = query.where(_VERSION.c.id.in_(tagged))
        if since is not None:
            query = query.where(_VERSION.c.created_at >= since)
        if until is not None:
            query = query.where(_VERSION.c.created_at < until)
        if run_id is not None:
            query = query.where(_VERSION.c.run_id == run_id)
        return self._read(lambda conn: summaries(conn, conn.execute(query).all()))

    def summaries_by_id(self, ids: Iterable[str]) -> dict[str, VersionSummary]:
        """Id -> version, for those that there are."""
        wanted = list(ids)
        return self._read(lambda conn: summaries_of(conn, wanted))

    def find_version_id(
        self,
        dataset: str,
        config: str | None,
        *,
        alias: str | None = None,
        number: str | None = None,
    ) -> str | None:
        """Id of the version that a reference means; None where that takes a closer look.

        A bare name means the version that ``latest`` points to if it is published, else the newest
        published; a number the published version before the trial before the retracted one.

        Args:
            dataset: dataset name.
            config: builder config; None for the only one.
            alias: the alias, if one was asked for.
            number: the version number, if one was asked for.

        Returns:
            None where there is no such version, or no such dataset, or several configs.
        """

        return self._read(lambda conn: _found(conn, dataset, config, alias, number))

    def whole_version(
        self,
        id: str | None = None,
        *,
        dataset: str = "",
        config: str | None = None,
        alias: str | None = None,
        number: str | None = None,
    ) -> tuple[VersionSummary, VersionSummary | None, Any] | None:
        """One version with its documents, by its id, or else as `find_version_id` finds it.

        Returns:
            The version; its successor, or None; and a row with ``path``, ``features``, ``info`` and
            ``removed_at``. None where nothing is found.
        """
        documents = (_VERSION.c.path, _VERSION.c.features, _VERSION.c.info, _VERSION.c.removed_at)

        def work(conn: Connection) -> tuple[VersionSummary, VersionSummary | None, Any] | None:
            meant = id or _found(conn, dataset, config, alias, number)
            query = SUMMARY.add_columns(*documents).where(_VERSION.c.id == meant)
            row = conn.execute(query).first() if meant else None
            if row is None:
                return None
            (found,) = summaries(conn, [row])
            ids = [row.successor_id] if row.successor_id else []
            return found, summaries_of(conn, ids).get(row.successor_id) if ids else None, row

        return self._read(work)


def _found(
    conn: Connection, dataset: str, config: str | None, alias: str | None, number: str | None
) -> str | None:
    known = sa.select(_DATASET.c.id, _DATASET.c.config).where(_DATASET.c.name == dataset)
    keys = [row.id for row in conn.execute(known) if config is None or row.config == config]
    return _meant(conn, keys[0], alias, number) if len(keys) == 1 else None


def _meant(conn: Connection, key: str, alias: str | None, number: str | None) -> str | None:
    own = sa.select(_VERSION.c.id).where(_VERSION.c.dataset_id == key)
    pointed = sa.select(_VERSION.c.id).join(t.alias, t.alias.c.version_id == _VERSION.c.id)
    pointed = pointed.where(t.alias.c.dataset_id == key, t.alias.c.name == (alias or LATEST))
    newest_first = own.order_by(_VERSION.c.created_at.desc()).limit(1)
    if alias is not None:
        asked = [pointed]
    elif number is not None:
        numbered = newest_first.where(_VERSION.c.version == number)
        asked = [numbered.where(_VERSION.c.status == status) for status in LISTED]
    else:
        published = _VERSION.c.status == "published"
        asked = [pointed.where(published), newest_first.where(published)]
    for query in asked:
        found: str | None = conn.execute(query).scalar_one_or_none()
        if found is not None:
            return found
    return None


def summaries(conn: Connection, rows: Iterable[Any]) -> list[VersionSummary]:
    """Rows of `SUMMARY` as values, with their splits, aliases and tags."""
    found = list(rows)
    splits = _splits_of(conn, [row.id for row in found])
    aliases = aliases_of(conn, splits)
    tags = tags_of(conn, splits)
    return [
        VersionSummary(
            id=row.id,
            dataset=row.dataset,
            config=row.config,
            version=row.version,
            status=row.status,
            splits=tuple(splits[row.id]),
            aliases=tuple(aliases.get(row.id, ())),
            tags=tuple(tags.get(row.id, ())),
            fingerprint=row.fingerprint,
            uri=row.uri,
            run_id=row.run_id,
            created=row.created_at,
            retracted=row.retracted_at,
            retracted_by=row.retracted_by,
            retract_reason=row.retract_reason,
            successor_id=row.successor_id,
        )
        for row in found
    ]


def summaries_of(conn: Connection, ids: Iterable[str]) -> dict[str, VersionSummary]:
    """Id -> version, for those that there are."""
    rows = select_in(conn, lambda batch: SUMMARY.where(_VERSION.c.id.in_(batch)), ids)
    return {found.id: found for found in summaries(conn, rows)}


def _splits_of(conn: Connection, ids: Sequence[str]) -> dict[str, list[SplitSummary]]:
    stat = t.split_stat

    def of_versions(batch: Sequence[str]) -> sa.Select[Any]:
        columns = (stat.c.version_id, stat.c.split, stat.c.examples, stat.c.bytes, stat.c.shards)
        here = sa.select(*columns).where(stat.c.version_id.in_(batch))
        return here.order_by(stat.c.version_id, stat.c.position)

    found: dict[str, list[SplitSummary]] = {id: [] for id in ids}
    for row in select_in(conn, of_versions, found):
        found[row.version_id].append(SplitSummary(row.split, row.examples, row.bytes, row.shards))
    return found


def _dataset_query() -> sa.Select[Any]:
    """Counts by correlated subqueries: only those of the datasets on the page are computed."""
    pointed = _VERSION.alias("pointed")

    def own(column: Any) -> sa.Select[Any]:
        return sa.select(column).where(_VERSION.c.dataset_id == _DATASET.c.id)

    def count(status: str) -> sa.Label[Any]:
        counted = own(sa.func.count()).where(_VERSION.c.status == status)
        return counted.scalar_subquery().label(status)

    def size(column: Any, name: str) -> sa.Label[Any]:
        summed = sa.select(sa.func.coalesce(sa.func.sum(column), 0))
        summed = summed.where(t.split_stat.c.version_id == pointed.c.id)
        return summed.scalar_subquery().label(name)

    latest = (t.alias.c.dataset_id == _DATASET.c.id) & (t.alias.c.name == LATEST)
    return (
        sa.select(
            _DATASET.c.name,
            _DATASET.c.config,
            _DATASET.c.created_at,
            count("published"),
            count("trial"),
            count("retracted"),
            pointed.c.version.label("latest"),
            pointed.c.id.label("latest_id"),
            size(t.split_stat.c.examples, "examples"),
            size(t.split_stat.c.bytes, "bytes"),
            own(sa.func.max(_VERSION.c.created_at)).scalar_subquery().label("updated"),
        )
        .outerjoin(t.alias, latest)
        .outerjoin(pointed, pointed.c.id == t.alias.c.version_id)
        .order_by(_DATASET.c.name, _DATASET.c.config)
    )


def _dataset_summary(row: Any) -> DatasetSummary:
    return DatasetSummary(
        dataset=row.name,
        config=row.config,
        created=row.created_at,
        published=row.published,
        trial=row.trial,
        retracted=row.retracted,
        latest=row.latest,
        latest_id=row.latest_id,
        examples=int(row.examples),
        bytes=int(row.bytes),
        updated=row.updated,
    )
