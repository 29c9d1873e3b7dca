"""Versions: reading what is published, and taking it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.aliases import LATEST, aliases_of, move_alias
from provender.catalog.columns import utc_now
from provender.catalog.records import DatasetRecord, ShardRecord, SplitRecord, VersionRecord
from provender.catalog.session import Session, select_in
from provender.errors import ConflictError, UnknownReference

_VERSION = t.version
_LISTED = ("published", "trial", "retracted")
# Which row a number means where several bear it.
_RANK = {"published": 0, "trial": 1, "retracted": 2, "replaced": 3}


class Versions(Session):
    """The part of the catalog that knows what a version number stands for."""

    def version(
        self,
        dataset: str,
        config: str | None,
        version: str,
        include: Sequence[str] = _LISTED,
    ) -> VersionRecord | None:
        """What a number stands for: published before trial before retracted, or None.

        Args:
            dataset: dataset name.
            config: builder config.
            version: number.
            include: the statuses that count.
        """
        query = _of(dataset, config).where(
            _VERSION.c.version == version, _VERSION.c.status.in_(include)
        )
        found = self._read(lambda conn: version_records(conn, conn.execute(query).all()))
        newest_first = sorted(found, key=lambda one: one.created, reverse=True)
        return min(newest_first, key=lambda one: _RANK[one.status], default=None)

    def versions(
        self,
        dataset: str | None = None,
        include: Sequence[str] = _LISTED,
        *,
        config: str | None = None,
        limit: int | None = None,
    ) -> list[VersionRecord]:
        """Versions, newest first.

        Args:
            dataset: only of this dataset.
            include: the statuses that count; ``replaced`` trials only where asked for.
            config: only of this builder config.
            limit: at most so many.
        """
        query = _SELECT.where(_VERSION.c.status.in_(include))
        query = query.order_by(_VERSION.c.created_at.desc(), _VERSION.c.id).limit(limit)
        if dataset is not None:
            query = query.where(t.dataset.c.name == dataset)
        if config is not None:
            query = query.where(t.dataset.c.config == config)
        return self._read(lambda conn: version_records(conn, conn.execute(query).all()))

    def version_by_id(self, version_id: str) -> VersionRecord:
        """One version.

        Raises:
            UnknownReference: there is none with that id.
        """
        return self._read(lambda conn: one_version(conn, version_id))

    def version_by_fingerprint(self, fingerprint: str) -> VersionRecord | None:
        """The version made from exactly that, whatever its status; None if there is none."""
        query = _SELECT.where(_VERSION.c.fingerprint == fingerprint)
        found = self._read(lambda conn: version_records(conn, conn.execute(query).all()))
        return found[0] if found else None

    def version_by_alias(
        self, dataset: str, config: str | None, alias: str
    ) -> VersionRecord | None:
        """The version an alias points to, or None."""
        query = (
            _of(dataset, config)
            .join(t.alias, t.alias.c.version_id == _VERSION.c.id)
            .where(t.alias.c.name == alias)
        )
        found = self._read(lambda conn: version_records(conn, conn.execute(query).all()))
        return found[0] if found else None

    def datasets(self) -> list[DatasetRecord]:
        """Every dataset and config that ever had a version, by name."""

        def count(status: str) -> sa.Label[int]:
            one = sa.case((_VERSION.c.status == status, 1), else_=0)
            return sa.func.coalesce(sa.func.sum(one), 0).label(status)

        pointed = _VERSION.alias("pointed")
        query = (
            sa.select(
                t.dataset.c.name,
                t.dataset.c.config,
                t.dataset.c.created_at,
                count("published"),
                count("trial"),
                count("retracted"),
                pointed.c.version.label("latest"),
            )
            .outerjoin(_VERSION, _VERSION.c.dataset_id == t.dataset.c.id)
            .outerjoin(
                t.alias, (t.alias.c.dataset_id == t.dataset.c.id) & (t.alias.c.name == LATEST)
            )
            .outerjoin(pointed, pointed.c.id == t.alias.c.version_id)
            .group_by(t.dataset.c.id, pointed.c.version)
            .order_by(t.dataset.c.name, t.dataset.c.config)
        )
        return self._read(lambda conn: [DatasetRecord(*row) for row in conn.execute(query)])

    def shards(self, version_id: str) -> list[ShardRecord]:
        """The shards of a version, by split and index."""
        shard = t.shard.c
        query = (
            sa.select(t.shard)
            .where(shard.version_id == version_id)
            .order_by(shard.split, shard.shard_index)
        )
        return self._read(
            lambda conn: [
                ShardRecord(
                    split=row.split,
                    index=row.shard_index,
                    count=row.shard_count,
                    name=row.name,
                    size=row.size,
                    sha256=row.sha256,
                    crc32c=row.crc32c,
                    examples=row.examples,
                    token=row.token,
                    stage_id=row.stage_id,
                )
                for row in conn.execute(query)
            ]
        )

    def set_shard_token(self, version_id: str, split: str, index: int, token: str) -> None:
        """Notes a shard's identity in the store anew; see `set_shard_tokens`."""
        self.set_shard_tokens(version_id, {(split, index): token})

    def set_shard_tokens(self, version_id: str, tokens: Mapping[tuple[str, int], str]) -> None:
        """Notes the identities that published shards have after a repair or a copy.

        Args:
            version_id: the version.
            tokens: (split, shard index) -> token; all are noted, or none.

        Raises:
            UnknownReference: the version has no such shard.
        """
        shard = t.shard.c

        def work(conn: Connection) -> None:
            for (split, index), token in tokens.items():
                place = (
                    shard.version_id == version_id,
                    shard.split == split,
                    shard.shard_index == index,
                )
                if conn.execute(t.shard.update().where(*place).values(token=token)).rowcount == 0:
                    message = f"Version {version_id} has no shard {index} of split {split!r}."
                    raise UnknownReference(message)

        self._write(work)

    def distrust(self, version_id: str, names: Iterable[str]) -> None:
        """Forgets the identities of files that were found damaged under an unchanged identity.

        The next look at such a file reads it, sees that its content is not what was recorded, and
        has it made again.

        Args:
            version_id: the version.
            names: file names inside its folder.
        """
        names = set(names)
        shard = t.shard.c

        def work(conn: Connection) -> None:
            ours = (shard.version_id == version_id, shard.name.in_(names))
            conn.execute(t.shard.update().where(*ours).values(token=""))
            row = conn.execute(sa.select(_VERSION.c.info).where(_VERSION.c.id == version_id)).one()
            files = {
                name: {**facts, "token": ""} if name in names else facts
                for name, facts in row.info.get("files", {}).items()
            }
            info = {**row.info, "files": files}
            conn.execute(t.version.update().where(_VERSION.c.id == version_id).values(info=info))

        self._write(work)

    def relocate(self, version_id: str, path: str, uri: str) -> None:
        """Notes that a version's folder was moved.

        Args:
            version_id: the version.
            path: its folder now, relative to the store's root.
            uri: the same, absolute.
        """
        moved = t.version.update().where(_VERSION.c.id == version_id)
        self._write(lambda conn: conn.execute(moved.values(path=path, uri=uri)))

    def retract(
        self, version_id: str, reason: str, who: str, successor: str | None = None
    ) -> VersionRecord:
        """Takes a version back; its record, and its number's history, stay.

        Its aliases move to the successor. Without one, ``latest`` falls back to the newest
        version that is still published, and the others are removed: reading through them then
        fails instead of giving data that somebody took back. Retracting twice is once.

        Args:
            version_id: the version.
            reason: why, shown to everyone who asks for it.
            who: who decided it.
            successor: id of the version to use instead.

        Returns:
            The version as it stands now.

        Raises:
            UnknownReference: there is no such version or successor.
        """

        def work(conn: Connection) -> VersionRecord:
            found = one_version(conn, version_id)
            if found.status == "retracted":
                return found
            if successor is not None:
                one_version(conn, successor)
            _mark(conn, version_id, "retracted", reason, who, successor)
            key = _dataset_key(conn, version_id)
            for name in found.aliases:
                target = successor or (_newest(conn, key) if name == LATEST else None)
                move_alias(conn, key, name, target, who=who)
            return one_version(conn, version_id)

        return self._write(work)

    def reinstate(self, version_id: str) -> VersionRecord:
        """Publishes a retracted version again. Its aliases must be set by hand.

        Raises:
            UnknownReference: there is no such version.
            ConflictError: another version is published under its number, or it is a trial.
        """

        def work(conn: Connection) -> VersionRecord:
            found = one_version(conn, version_id)
            if found.status == "published":
                return found
            if found.status != "retracted":
                message = f"{found.name} is a {found.status} version, not a retracted one."
                raise ConflictError(message)
            clash = _published(conn, _dataset_key(conn, version_id), found.version)
            if clash is not None:
                message = f"{found.name} has been published again with other content."
                raise ConflictError(message, facts={"version_id": clash})
            _mark(conn, version_id, "published", None, None, None)
            return one_version(conn, version_id)

        return self._write(work)


_SELECT = sa.select(_VERSION, t.dataset.c.name.label("dataset"), t.dataset.c.config).join(
    t.dataset, t.dataset.c.id == _VERSION.c.dataset_id
)


def _of(dataset: str, config: str | None) -> sa.Select[Any]:
    return _SELECT.where(t.dataset.c.name == dataset, t.dataset.c.config == (config or ""))


def one_version(conn: Connection, version_id: str) -> VersionRecord:
    """The version with that id; UnknownReference where there is none."""
    rows = conn.execute(_SELECT.where(_VERSION.c.id == version_id)).all()
    if not rows:
        message = f"There is no version with id {version_id!r}."
        raise UnknownReference(message, hint="List them: provender versions")
    return version_records(conn, rows)[0]


def version_records(conn: Connection, rows: Iterable[Any]) -> list[VersionRecord]:
    """Rows of `version` joined with `dataset`, as values, with splits and aliases."""
    found = list(rows)
    splits: dict[str, list[SplitRecord]] = {row.id: [] for row in found}
    stat = t.split_stat

    def of_versions(batch: Sequence[str]) -> sa.Select[Any]:
        # Not the statistics: they are large, and lists of versions are long.
        wanted = (stat.c.version_id, stat.c.split, stat.c.examples, stat.c.bytes, stat.c.shards)
        here = sa.select(*wanted).where(stat.c.version_id.in_(batch))
        return here.order_by(stat.c.version_id, stat.c.position)

    for row in select_in(conn, of_versions, splits):
        splits[row.version_id].append(SplitRecord(row.split, row.examples, row.bytes, row.shards))
    aliases = aliases_of(conn, splits)
    return [
        VersionRecord(
            id=row.id,
            dataset=row.dataset,
            config=row.config,
            version=row.version,
            fingerprint=row.fingerprint,
            status=row.status,
            path=row.path,
            uri=row.uri,
            splits=tuple(splits[row.id]),
            aliases=tuple(aliases.get(row.id, ())),
            features=row.features,
            info=row.info,
            run_id=row.run_id,
            created=row.created_at,
            retracted=row.retracted_at,
            retracted_by=row.retracted_by,
            retract_reason=row.retract_reason,
            successor_id=row.successor_id,
            removed=row.removed_at,
        )
        for row in found
    ]


def _mark(
    conn: Connection,
    version_id: str,
    status: str,
    reason: str | None,
    who: str | None,
    successor: str | None,
) -> None:
    conn.execute(
        _VERSION.update()
        .where(_VERSION.c.id == version_id)
        .values(
            status=status,
            retract_reason=reason,
            retracted_by=who,
            retracted_at=None if status == "published" else utc_now(),
            successor_id=successor,
            **({"removed_at": None} if status == "published" else {}),
        )
    )


def _dataset_key(conn: Connection, version_id: str) -> str:
    query = sa.select(_VERSION.c.dataset_id).where(_VERSION.c.id == version_id)
    key: str = conn.execute(query).scalar_one()
    return key


def _newest(conn: Connection, dataset_key: str) -> str | None:
    query = (
        sa.select(_VERSION.c.id)
        .where(_VERSION.c.dataset_id == dataset_key, _VERSION.c.status == "published")
        .order_by(_VERSION.c.created_at.desc())
        .limit(1)
    )
    found: str | None = conn.execute(query).scalar_one_or_none()
    return found


def _published(conn: Connection, dataset_key: str, version: str) -> str | None:
    query = sa.select(_VERSION.c.id).where(
        _VERSION.c.dataset_id == dataset_key,
        _VERSION.c.version == version,
        _VERSION.c.status == "published",
    )
    found: str | None = conn.execute(query).scalar_one_or_none()
    return found
