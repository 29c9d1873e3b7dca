"""Tags: words on versions. Many versions may bear one tag, and a version many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.answers import TagRecord
from provender.catalog.columns import utc_now
from provender.catalog.records import full_name
from provender.catalog.runs import user_name
from provender.catalog.searching import dataset_of, forget, note
from provender.catalog.session import Session, insert_missing, select_in
from provender.catalog.versions import one_version
from provender.errors import SettingsError

_TAG = t.tag
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")


class Tags(Session):
    """The part of the catalog that keeps people's own words about versions."""

    def add_tags(
        self, version_id: str, names: Iterable[str], *, who: str | None = None
    ) -> list[str]:
        """Puts tags on a version, all or none. A tag that is there already stays as it is.

        Args:
            version_id: the version.
            names: letters, digits and ``_ . : / -``, at most 100 of them.
            who: who does; the current user by default.

        Returns:
            The tags that were not there before, sorted.

        Raises:
            UnknownReference: there is no such version.
            SettingsError: a tag holds other characters.
        """
        wanted = sorted(set(map(checked_tag, names)))

        def work(conn: Connection) -> list[str]:
            one_version(conn, version_id)
            there = set(tags_of(conn, [version_id]).get(version_id, ()))
            new = [name for name in wanted if name not in there]
            by, now = who or user_name(), utc_now()
            rows = [
                {"version_id": version_id, "name": name, "set_at": now, "set_by": by}
                for name in new
            ]
            insert_missing(conn, _TAG, rows)
            note(conn, dataset_of(conn, version_id), version_id, {"tag": new})
            return new

        return self._write(work)

    def remove_tags(self, version_id: str, names: Iterable[str]) -> list[str]:
        """Takes tags off a version.

        Args:
            version_id: the version.
            names: the tags.

        Returns:
            The tags that were there, sorted.

        Raises:
            UnknownReference: there is no such version.
        """
        wanted = sorted(set(names))

        def work(conn: Connection) -> list[str]:
            one_version(conn, version_id)
            there = set(tags_of(conn, [version_id]).get(version_id, ()))
            gone = [name for name in wanted if name in there]
            here = (_TAG.c.version_id == version_id, _TAG.c.name.in_(gone))
            conn.execute(_TAG.delete().where(*here))
            key = dataset_of(conn, version_id)
            for name in gone:
                forget(conn, key, "tag", name, _still_tagged(conn, key, name))
            return gone

        return self._write(work)

    def tags(
        self,
        *,
        version_id: str | None = None,
        tag: str | None = None,
        dataset: str | None = None,
        config: str | None = None,
        limit: int | None = None,
    ) -> list[TagRecord]:
        """Tags on record, by tag and then newest version first, that match everything given.

        Args:
            version_id: on this version.
            tag: of this name.
            dataset: on versions of this dataset.
            config: on versions of this builder config.
            limit: at most so many.
        """
        query = (
            sa.select(_TAG, t.version.c.version, t.version.c.status)
            .add_columns(t.dataset.c.name.label("dataset"), t.dataset.c.config)
            .join(t.version, t.version.c.id == _TAG.c.version_id)
            .join(t.dataset, t.dataset.c.id == t.version.c.dataset_id)
            .order_by(_TAG.c.name, t.version.c.created_at.desc())
            .limit(limit)
        )
        if version_id is not None:
            query = query.where(_TAG.c.version_id == version_id)
        if tag is not None:
            query = query.where(_TAG.c.name == tag)
        if dataset is not None:
            query = query.where(t.dataset.c.name == dataset)
        if config is not None:
            query = query.where(t.dataset.c.config == config)
        return self._read(lambda conn: [_record(row) for row in conn.execute(query)])


def checked_tag(name: str) -> str:
    """The tag, if it can be one.

    Raises:
        SettingsError: it cannot.
    """
    if not _ALLOWED.fullmatch(name):
        message = f"{name!r} cannot be a tag."
        hint = "Use letters, digits and _ . : / -, at most 100, beginning with a letter or digit."
        raise SettingsError(message, where="tag", hint=hint)
    return name


def tags_of(conn: Connection, version_ids: Iterable[str]) -> dict[str, list[str]]:
    """Version id -> its tags, sorted; versions without any are left out."""

    def of_versions(batch: Sequence[str]) -> sa.Select[Any]:
        here = sa.select(_TAG.c.version_id, _TAG.c.name).where(_TAG.c.version_id.in_(batch))
        return here.order_by(_TAG.c.name)

    found: dict[str, list[str]] = {}
    for row in select_in(conn, of_versions, version_ids):
        found.setdefault(row.version_id, []).append(row.name)
    return found


def _still_tagged(conn: Connection, dataset_key: str, name: str) -> str | None:
    """The newest version of a dataset that bears the tag, or None."""
    query = (
        sa.select(t.version.c.id)
        .join(_TAG, _TAG.c.version_id == t.version.c.id)
        .where(t.version.c.dataset_id == dataset_key, _TAG.c.name == name)
        .order_by(t.version.c.created_at.desc())
        .limit(1)
    )
    found: str | None = conn.execute(query).scalar_one_or_none()
    return found


def _record(row: Any) -> TagRecord:
    return TagRecord(
        tag=row.name,
        version_id=row.version_id,
        name=f"{full_name(row.dataset, row.config)}:{row.version}",
        status=row.status,
        set_at=row.set_at,
        set_by=row.set_by,
    )
