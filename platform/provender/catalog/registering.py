"""Registering a version: the one transaction that makes it real."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.aliases import LATEST, dataset_id, move_alias
from provender.catalog.columns import new_id, utc_now
from provender.catalog.edges import record_edges
from provender.catalog.records import ShardRecord, SplitRecord, VersionRecord, full_name
from provender.catalog.searching import note_version
from provender.catalog.session import Session, insert_missing
from provender.catalog.versions import one_version
from provender.errors import ConflictError

Document = Mapping[str, Any]
Status = Literal["published", "trial"]
_VERSION = t.version


@dataclass(frozen=True, slots=True)
class _Request:
    """What `register_version` was asked for."""

    dataset: str
    config: str
    version: str
    fingerprint: str
    status: Status
    path: str
    uri: str
    splits: Sequence[SplitRecord]
    shards: Sequence[ShardRecord]
    features: Document
    info: Document
    tree: Document | None
    run_id: str | None
    inputs: Sequence[str]
    aliases: Sequence[str]
    who: str | None

    @property
    def name(self) -> str:
        return f"{full_name(self.dataset, self.config)}:{self.version}"


class Registering(Session):
    """The part of the catalog that makes versions."""

    def register_version(
        self,
        dataset: str,
        config: str | None,
        version: str,
        fingerprint: str,
        *,
        path: str,
        uri: str,
        splits: Iterable[SplitRecord],
        shards: Iterable[ShardRecord],
        features: Document,
        info: Document,
        status: Status = "published",
        tree: Document | None = None,
        run_id: str | None = None,
        lineage_inputs: Iterable[str] = (),
        aliases: Iterable[str] | None = None,
        who: str | None = None,
    ) -> VersionRecord:
        """Registers a version with its splits, shards, lineage and aliases, all or nothing.

        Doing it again gives back the first row and changes nothing, not even aliases: a retried
        or repeated registration must not pull ``latest`` back from a newer version.

        Args:
            dataset: dataset name.
            config: builder config; None and "" both mean the default.
            version: number.
            fingerprint: digest of everything the version was made from, unique in the catalog.
            path: the version's folder relative to the store's root.
            uri: the same, absolute.
            splits: in the order they are to be shown.
            shards: of all splits; their ``stage_id`` become lineage edges.
            features: features.json as a document.
            info: dataset_info.json as a document.
            status: ``published``, or ``trial``: the newest trial of a number takes the place of
                the one before it, which stays on record as ``replaced``.
            tree: the named digests behind the fingerprint.
            run_id: the run that made it.
            lineage_inputs: further inputs: ids of executions or of upstream versions, or
                artifact digests.
            aliases: names to point here; ``latest`` for a published version by default, none
                for a trial.
            who: recorded as the mover of the aliases; the current user by default.

        Returns:
            The version as `version` gives it.

        Raises:
            ConflictError: the number is published with another fingerprint, or the same content
                was registered under another name or was retracted.
            CatalogError: the database refuses.
        """
        if aliases is None:
            aliases = (LATEST,) if status == "published" else ()
        request = _Request(
            dataset=dataset,
            config=config or "",
            version=version,
            fingerprint=fingerprint,
            status=status,
            path=path,
            uri=uri,
            splits=tuple(splits),
            shards=tuple(shards),
            features=features,
            info=info,
            tree=tree,
            run_id=run_id,
            inputs=tuple(lineage_inputs),
            aliases=tuple(aliases),
            who=who,
        )
        return self._write(lambda conn: _register(conn, request))


def _register(conn: Connection, request: _Request) -> VersionRecord:
    key = _lock_dataset(conn, request)
    query = sa.select(_VERSION.c.id).where(_VERSION.c.fingerprint == request.fingerprint)
    same_id = conn.execute(query).scalar_one_or_none()
    same = one_version(conn, same_id) if same_id else None
    if same is not None and not _changes(same, request):
        return same
    _refuse_second_content(conn, key, request)
    version_id = same.id if same else new_id()
    if request.status == "trial":
        _retire_trial(conn, key, request.version)
    _store_version(conn, key, version_id, request, exists=same is not None)
    _store_parts(conn, version_id, request)
    if request.status == "trial":
        _name_successor(conn, key, request.version, version_id)
    for name in request.aliases:
        move_alias(conn, key, name, version_id, who=request.who, run_id=request.run_id)
    note_version(
        conn,
        key,
        version_id,
        dataset=request.dataset,
        config=request.config,
        features=request.features,
        info=request.info,
        splits=[split.name for split in request.splits],
    )
    return one_version(conn, version_id)


def _changes(same: VersionRecord, request: _Request) -> bool:
    """Whether a version that is on record already has to be touched.

    Returns:
        True where a trial becomes published or a replaced trial comes back; False where the
        request asks for what is there.

    Raises:
        ConflictError: the content is known under another name, or was retracted.
    """
    asked = (request.dataset, request.config, request.version)
    facts = {"version_id": same.id, "fingerprint": same.fingerprint}
    if (same.dataset, same.config, same.version) != asked:
        message = f"{request.name} has the fingerprint of {same.name}, which is another version."
        raise ConflictError(message, where=same.fingerprint, facts=facts)
    if same.status == "retracted":
        by = f" by {same.retracted_by}" if same.retracted_by else ""
        raise ConflictError(
            f"Exactly this content of {same.name} was retracted{by}: {same.retract_reason}",
            where=same.name,
            hint="Bump the version, or reinstate the retracted one if that was a mistake.",
            facts=facts,
        )
    return same.status != "published" and same.status != request.status


def _refuse_second_content(conn: Connection, key: str, request: _Request) -> None:
    if request.status != "published":
        return
    query = sa.select(_VERSION.c.id, _VERSION.c.fingerprint, _VERSION.c.created_at).where(
        _VERSION.c.dataset_id == key,
        _VERSION.c.version == request.version,
        _VERSION.c.status == "published",
        _VERSION.c.fingerprint != request.fingerprint,
    )
    other = conn.execute(query).first()
    if other is None:
        return
    raise ConflictError(
        f"{request.name} is already published with other content "
        f"(fingerprint {other.fingerprint[:12]} since {other.created_at:%Y-%m-%d %H:%M} UTC, "
        f"now {request.fingerprint[:12]}).",
        where=request.name,
        hint=f"Bump the version in the builder, or: provender retract {request.name} --reason …",
        facts={
            "version_id": other.id,
            "published_fingerprint": other.fingerprint,
            "fingerprint": request.fingerprint,
        },
    )


def _lock_dataset(conn: Connection, request: _Request) -> str:
    """The dataset's key; its row is locked, so registrations of one dataset come one by one."""
    row = {
        "id": new_id(),
        "name": request.dataset,
        "config": request.config,
        "created_at": utc_now(),
    }
    insert_missing(conn, t.dataset, [row])
    key = dataset_id(conn, request.dataset, request.config)
    assert key is not None
    conn.execute(sa.select(t.dataset.c.id).where(t.dataset.c.id == key).with_for_update())
    return key


def _retire_trial(conn: Connection, key: str, version: str) -> None:
    conn.execute(
        _VERSION.update()
        .where(
            _VERSION.c.dataset_id == key,
            _VERSION.c.version == version,
            _VERSION.c.status == "trial",
        )
        .values(status="replaced", retracted_at=utc_now(), successor_id=None)
    )


def _name_successor(conn: Connection, key: str, version: str, version_id: str) -> None:
    conn.execute(
        _VERSION.update()
        .where(
            _VERSION.c.dataset_id == key,
            _VERSION.c.version == version,
            _VERSION.c.status == "replaced",
            _VERSION.c.successor_id.is_(None),
        )
        .values(successor_id=version_id)
    )


def _store_version(
    conn: Connection, key: str, version_id: str, request: _Request, *, exists: bool
) -> None:
    row = {
        "id": version_id,
        "dataset_id": key,
        "version": request.version,
        "fingerprint": request.fingerprint,
        "status": request.status,
        "path": request.path,
        "uri": request.uri,
        "features": dict(request.features),
        "info": dict(request.info),
        "run_id": request.run_id,
        "created_at": utc_now(),
        "retracted_at": None,
        "retracted_by": None,
        "retract_reason": None,
        "successor_id": None,
        "removed_at": None,
    }
    if not exists:
        conn.execute(_VERSION.insert(), row)
        return
    conn.execute(_VERSION.update().where(_VERSION.c.id == version_id).values(**row))
    for part in (t.split_stat, t.shard):
        conn.execute(part.delete().where(part.c.version_id == version_id))


def _store_parts(conn: Connection, version_id: str, request: _Request) -> None:
    if request.splits:
        conn.execute(
            t.split_stat.insert(),
            [
                {
                    "version_id": version_id,
                    "split": split.name,
                    "position": position,
                    "examples": split.examples,
                    "bytes": split.bytes,
                    "shards": split.shards,
                    "statistics": dict(split.statistics),
                }
                for position, split in enumerate(request.splits)
            ],
        )
    if request.shards:
        conn.execute(t.shard.insert(), [_shard_row(version_id, one) for one in request.shards])
    if request.tree is not None:
        tree = {
            "fingerprint": request.fingerprint,
            "name": str(request.tree.get("name") or request.name),
            "tree": dict(request.tree),
            "recorded_at": utc_now(),
        }
        insert_missing(conn, t.fingerprint, [tree])
    made_by = [one.stage_id for one in request.shards if one.stage_id]
    inputs = [*made_by, *request.inputs]
    record_edges(conn, version_id, "version", inputs, request.dataset, request.config)


def _shard_row(version_id: str, shard: ShardRecord) -> dict[str, Any]:
    return {
        "version_id": version_id,
        "split": shard.split,
        "shard_index": shard.index,
        "shard_count": shard.count,
        "name": shard.name,
        "size": shard.size,
        "sha256": shard.sha256,
        "crc32c": shard.crc32c,
        "examples": shard.examples,
        "token": shard.token,
        "stage_id": shard.stage_id,
    }
