"""Aliases: names that move from version to version, and every move they made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.columns import utc_now
from provender.catalog.records import AliasChange, AliasRecord, full_name
from provender.catalog.runs import user_name
from provender.catalog.searching import forget, note
from provender.catalog.session import Session, select_in, upsert
from provender.errors import SettingsError, UnknownReference

LATEST = "latest"
_NAME = re.compile(r"[A-Za-z][\w.-]*", re.ASCII)


class Aliases(Session):
    """The part of the catalog that knows what ``name@alias`` stands for."""

    def set_alias(
        self,
        dataset: str,
        config: str | None,
        name: str,
        version_id: str | None,
        *,
        who: str | None = None,
        run_id: str | None = None,
    ) -> None:
        """Points an alias at a version, or removes it. Setting it to where it is does nothing.

        Args:
            dataset: dataset name.
            config: builder config.
            name: the alias, e.g. ``latest`` or ``golden``.
            version_id: a version of that dataset and config; None removes the alias.
            who: who moves it; the current user by default.
            run_id: the run that moves it.

        Raises:
            UnknownReference: the dataset has no such version.
            SettingsError: no reference could name such an alias.
        """
        if version_id is not None and not _NAME.fullmatch(name):
            message = f"{name!r} cannot be an alias."
            hint = "Use letters, digits, dots, dashes and underscores, beginning with a letter."
            raise SettingsError(message, where="alias", hint=hint)

        def work(conn: Connection) -> None:
            key = dataset_id(conn, dataset, config)
            owned = sa.select(t.version.c.id).where(
                t.version.c.id == version_id, t.version.c.dataset_id == key
            )
            if key is None or (version_id and conn.execute(owned).first() is None):
                message = f"{full_name(dataset, config)} has no version with id {version_id!r}."
                raise UnknownReference(message, where=f"{full_name(dataset, config)}@{name}")
            move_alias(conn, key, name, version_id, who=who, run_id=run_id)

        self._write(work)

    def aliases(self, dataset: str, config: str | None = None) -> dict[str, AliasRecord]:
        """Where the aliases of a dataset point now, by name."""
        query = (
            sa.select(t.alias, t.version.c.version)
            .join(t.version, t.version.c.id == t.alias.c.version_id)
            .join(t.dataset, t.dataset.c.id == t.alias.c.dataset_id)
            .where(t.dataset.c.name == dataset, t.dataset.c.config == (config or ""))
            .order_by(t.alias.c.name)
        )
        return self._read(
            lambda conn: {
                row.name: AliasRecord(row.name, row.version_id, row.version, row.set_at, row.set_by)
                for row in conn.execute(query)
            }
        )

    def alias_history(
        self, dataset: str, config: str | None = None, name: str | None = None
    ) -> list[AliasChange]:
        """The moves of a dataset's aliases, or of one of them, newest first."""
        moved = t.alias_history
        query = (
            sa.select(moved, t.version.c.version)
            .join(t.dataset, t.dataset.c.id == moved.c.dataset_id)
            .outerjoin(t.version, t.version.c.id == moved.c.version_id)
            .where(t.dataset.c.name == dataset, t.dataset.c.config == (config or ""))
            .order_by(moved.c.seq.desc())
        )
        if name is not None:
            query = query.where(moved.c.name == name)
        return self._read(
            lambda conn: [
                AliasChange(row.name, row.version_id, row.version, row.at, row.by, row.run_id)
                for row in conn.execute(query)
            ]
        )


def dataset_id(conn: Connection, dataset: str, config: str | None) -> str | None:
    """The key of a dataset, or None where it has never had a version."""
    query = sa.select(t.dataset.c.id).where(
        t.dataset.c.name == dataset, t.dataset.c.config == (config or "")
    )
    found: str | None = conn.execute(query).scalar_one_or_none()
    return found


def move_alias(
    conn: Connection,
    dataset_key: str,
    name: str,
    version_id: str | None,
    *,
    who: str | None = None,
    run_id: str | None = None,
) -> None:
    """Points an alias somewhere else, or removes it, and writes that down."""
    place = (t.alias.c.dataset_id == dataset_key, t.alias.c.name == name)
    now_at = conn.execute(sa.select(t.alias.c.version_id).where(*place)).scalar_one_or_none()
    if now_at == version_id:
        return
    now, by = utc_now(), who or user_name()
    if version_id is None:
        conn.execute(t.alias.delete().where(*place))
    else:
        row: dict[str, Any] = {"dataset_id": dataset_key, "name": name, "version_id": version_id}
        upsert(conn, t.alias, row | {"set_at": now, "set_by": by})
    change = {"dataset_id": dataset_key, "name": name, "version_id": version_id}
    conn.execute(t.alias_history.insert(), change | {"at": now, "by": by, "run_id": run_id})
    if version_id is None:
        forget(conn, dataset_key, "alias", name, None)
    else:
        note(conn, dataset_key, version_id, {"alias": [name]})


def aliases_of(conn: Connection, version_ids: Iterable[str]) -> dict[str, list[str]]:
    """Version id -> names of the aliases that point to it, sorted."""

    def of_versions(batch: Sequence[str]) -> sa.Select[Any]:
        pointed = sa.select(t.alias.c.version_id, t.alias.c.name)
        return pointed.where(t.alias.c.version_id.in_(batch)).order_by(t.alias.c.name)

    found: dict[str, list[str]] = {}
    for row in select_in(conn, of_versions, version_ids):
        found.setdefault(row.version_id, []).append(row.name)
    return found
