"""What a reference meant at some time: read from when versions and aliases came, moved and went.

Two things are not on record and therefore cannot be told: a trial that was published later counts
from its publication only, and a retraction that was undone counts as if it had never been.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.aliases import LATEST, dataset_id
from provender.catalog.answers import AsOf, VersionSummary
from provender.catalog.overview import SUMMARY, summaries, summaries_of
from provender.catalog.records import full_name
from provender.catalog.session import Session
from provender.errors import UnknownReference

_MOVED = t.alias_history
_VERSION = t.version


class Moments(Session):
    """The part of the catalog that looks back."""

    def as_of(
        self,
        dataset: str,
        config: str,
        at: datetime,
        *,
        alias: str | None = None,
        number: str | None = None,
        ref: str = "",
    ) -> AsOf:
        """What a dataset's alias, number or bare name meant at a time.

        Args:
            dataset: dataset name.
            config: builder config.
            at: the time, aware.
            alias: the alias, if one was asked for.
            number: the version number, if one was asked for.
            ref: the reference as it was typed, for the answer.

        Raises:
            UnknownReference: it meant nothing then; the message says what there was.
        """
        name = full_name(dataset, config)
        asked = _Asked(ref or name, name, at)

        def work(conn: Connection) -> AsOf:
            key = dataset_id(conn, dataset, config)
            if key is None:
                message = f"There is no version of a dataset {name!r}."
                raise UnknownReference(message, where=asked.ref)
            if alias is not None:
                return _by_alias(conn, key, asked, alias)
            if number is not None:
                return _by_number(conn, key, asked, number)
            return _by_name(conn, key, asked)

        return self._read(work)


class _Asked:
    """What was asked for, in words."""

    def __init__(self, ref: str, name: str, at: datetime) -> None:
        self.ref, self.name, self.at = ref, name, at

    @property
    def when(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} UTC"


def status_at(version: VersionSummary, at: datetime) -> str:
    """The status that a version had at a time when it was on record already."""
    if version.retracted is None or version.retracted <= at:
        return version.status
    return "trial" if version.status == "replaced" else "published"


def _by_alias(conn: Connection, key: str, asked: _Asked, alias: str) -> AsOf:
    moves = _moves(conn, key, alias)
    before = [move for move in moves if move.at <= asked.at]
    if not before or before[-1].version_id is None:
        raise _no_alias(conn, key, asked, alias, moves, before)
    now = before[-1]
    after = next((move.at for move in moves if move.seq > now.seq), None)
    version = summaries_of(conn, [now.version_id])[now.version_id]
    return AsOf(
        ref=asked.ref,
        at=asked.at,
        version=version,
        status=status_at(version, asked.at),
        how="alias",
        alias=alias,
        since=now.at,
        until=after,
        set_by=now.by,
    )


def _moves(conn: Connection, key: str, alias: str) -> Sequence[Any]:
    query = sa.select(_MOVED).where(_MOVED.c.dataset_id == key, _MOVED.c.name == alias)
    return conn.execute(query.order_by(_MOVED.c.seq)).all()


def _no_alias(
    conn: Connection,
    key: str,
    asked: _Asked,
    alias: str,
    moves: Sequence[Any],
    before: Sequence[Any],
) -> UnknownReference:
    if before:
        last = before[-1]
        by = f" by {last.by}" if last.by else ""
        message = f"{asked.name}@{alias} had been removed{by} on {last.at:%Y-%m-%d %H:%M:%S} UTC."
    elif moves:
        first = moves[0]
        message = f"{asked.name}@{alias} was first set on {first.at:%Y-%m-%d %H:%M:%S} UTC."
    else:
        message = f"{asked.name} never had an alias {alias!r}."
    query = sa.select(_MOVED.c.name).where(_MOVED.c.dataset_id == key, _MOVED.c.at <= asked.at)
    known = sorted({row.name for row in conn.execute(query.distinct())})
    shown = ", ".join(f"@{each}" for each in known)
    hint = (
        f"Aliases set by {asked.when}: {shown}."
        if known
        else f"It had no alias at all by {asked.when}."
    )
    return UnknownReference(message, where=asked.ref, hint=hint, facts={"aliases": known})


def _on_record(
    conn: Connection, key: str, at: datetime, number: str | None
) -> list[VersionSummary]:
    """The versions registered by then, newest first."""
    query = SUMMARY.where(_VERSION.c.dataset_id == key, _VERSION.c.created_at <= at)
    if number is not None:
        query = query.where(_VERSION.c.version == number)
    return summaries(conn, conn.execute(query.order_by(_VERSION.c.created_at.desc())).all())


def _by_number(conn: Connection, key: str, asked: _Asked, number: str) -> AsOf:
    rank = {"published": 0, "trial": 1, "retracted": 2, "replaced": 3}
    found = _on_record(conn, key, asked.at, number)
    if not found:
        raise _nothing_yet(conn, key, asked, number)
    version = min(found, key=lambda each: rank[status_at(each, asked.at)])
    gone = version.retracted
    return AsOf(
        ref=asked.ref,
        at=asked.at,
        version=version,
        status=status_at(version, asked.at),
        how="number",
        alias=None,
        since=version.created,
        until=gone if gone is not None and gone > asked.at else None,
        set_by="",
    )


def _by_name(conn: Connection, key: str, asked: _Asked) -> AsOf:
    """The version that ``latest`` pointed to if it was published, else the newest published."""
    moves = _moves(conn, key, LATEST)
    before = [move for move in moves if move.at <= asked.at]
    if before and before[-1].version_id is not None:
        found = _by_alias(conn, key, asked, LATEST)
        if found.status == "published":
            return found
    published = [
        each
        for each in _on_record(conn, key, asked.at, None)
        if status_at(each, asked.at) == "published"
    ]
    if not published:
        raise _nothing_yet(conn, key, asked, None)
    version = published[0]
    later = sa.select(sa.func.min(_VERSION.c.created_at)).where(
        _VERSION.c.dataset_id == key,
        _VERSION.c.created_at > asked.at,
        _VERSION.c.status.in_(("published", "retracted")),
    )
    ends = [conn.execute(later).scalar(), version.retracted]
    ends += [move.at for move in moves if move.at > asked.at][:1]
    return AsOf(
        ref=asked.ref,
        at=asked.at,
        version=version,
        status="published",
        how="newest",
        alias=None,
        since=version.created,
        until=min((end for end in ends if end is not None and end > asked.at), default=None),
        set_by="",
    )


def _nothing_yet(conn: Connection, key: str, asked: _Asked, number: str | None) -> UnknownReference:
    query = SUMMARY.where(_VERSION.c.dataset_id == key).order_by(_VERSION.c.created_at)
    if number is not None:
        query = query.where(_VERSION.c.version == number)
    first = conn.execute(query.limit(1)).first()
    what = f"{asked.name} {number}" if number else f"a published version of {asked.name}"
    message = f"There was no {what.removeprefix('a ')} on {asked.when}."
    if first is None:
        there = _on_record(conn, key, asked.at, None)
        numbers = ", ".join(dict.fromkeys(each.version for each in there[:12]))
        hint = f"There were: {numbers}." if numbers else "There was none at all."
    else:
        hint = f"The first, {first.version}, was registered on {first.created_at:%Y-%m-%d %H:%M:%S} UTC."
    return UnknownReference(message, where=asked.ref, hint=hint)
