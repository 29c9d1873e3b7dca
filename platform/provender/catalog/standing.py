"""What stands in the store, for who tidies it: a few columns of every version, and no documents.

A catalog may hold a hundred thousand versions and a million stage executions; what is read of each
here is what stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.records import full_name
from provender.catalog.session import Session, among, is_among

_VERSION = t.version
_STAGE = t.stage_execution
_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Standing:
    """A version's folder, and what is to be known before it is touched.

    Attributes:
        id: of the version.
        dataset: dataset name.
        config: builder config.
        version: number.
        status: ``published``, ``trial``, ``retracted`` or ``replaced``.
        path: the folder, relative to the store's root.
        uri: the same, absolute.
        aliased: whether an alias points to it.
        created: when it was registered.
        retracted: when it was taken back or replaced, or None.
        retract_reason: why, or None.
        removed: when its files were removed, or None.
    """

    id: str
    dataset: str
    config: str
    version: str
    status: str
    path: str
    uri: str
    aliased: bool
    created: datetime
    retracted: datetime | None
    retract_reason: str | None
    removed: datetime | None

    @property
    def name(self) -> str:
        """``dataset[/config]:version``, as people write it."""
        return f"{full_name(self.dataset, self.config)}:{self.version}"


_ALIASED = sa.exists().where(t.alias.c.version_id == _VERSION.c.id)
_SELECT = sa.select(
    _VERSION.c.id,
    t.dataset.c.name,
    t.dataset.c.config,
    _VERSION.c.version,
    _VERSION.c.status,
    _VERSION.c.path,
    _VERSION.c.uri,
    _ALIASED,
    _VERSION.c.created_at,
    _VERSION.c.retracted_at,
    _VERSION.c.retract_reason,
    _VERSION.c.removed_at,
).join(t.dataset, t.dataset.c.id == _VERSION.c.dataset_id)


class Standings(Session):
    """The part of the catalog that answers what the store should hold."""

    def standings(self, path: str | None = None, *, dataset: str | None = None) -> list[Standing]:
        """Every version that ever was, newest first.

        Args:
            path: only those whose folder this is, relative to the store's root.
            dataset: only those of this dataset.
        """
        query = _SELECT.order_by(_VERSION.c.created_at.desc(), _VERSION.c.id)
        if path is not None:
            query = query.where(_VERSION.c.path == path)
        if dataset is not None:
            query = query.where(t.dataset.c.name == dataset)

        def work(conn: Connection) -> list[Standing]:
            # The columns stand in the order of the fields.
            return [Standing(*row) for row in _flow(conn, query)]

        return self._read(work)

    def stages_behind(self, without: Container[str]) -> set[str]:
        """Fingerprints of the stages that the versions were made by whose files are there.

        Args:
            without: ids of versions that do not count.
        """
        query = sa.select(_VERSION.c.id, _VERSION.c.info["stages"])
        query = query.where(_VERSION.c.removed_at.is_(None))

        def work(conn: Connection) -> set[str]:
            found: set[str] = set()
            for id, stages in _flow(conn, query):
                if id not in without and stages:
                    found.update(each for each in stages.values() if each)
            return found

        return self._read(work)

    def stages_to_go_on_from(self, see: Callable[[Mapping[str, Any]], None]) -> set[str]:
        """Fingerprints of what the next builds reuse: the newest success of every stage.

        Args:
            see: is given the result of each.
        """
        newest = (
            sa.select(sa.func.max(_STAGE.c.seq))
            .where(_STAGE.c.state == "succeeded")
            .group_by(_STAGE.c.dataset, _STAGE.c.config, _STAGE.c.key)
        )
        query = sa.select(_STAGE.c.fingerprint, _STAGE.c.result).where(_STAGE.c.seq.in_(newest))

        def work(conn: Connection) -> set[str]:
            found: set[str] = set()
            for fingerprint, result in _flow(conn, query):
                found.add(fingerprint)
                see(result or {})
            return found

        return self._read(work)

    def see_results(
        self, fingerprints: Iterable[str], see: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Shows the results of the newest successes of stages.

        Args:
            fingerprints: which stages.
            see: is given the result of each that succeeded.
        """

        def work(conn: Connection) -> None:
            newest = (
                sa.select(sa.func.max(_STAGE.c.seq))
                .where(is_among(conn, _STAGE.c.fingerprint, "some"), _STAGE.c.state == "succeeded")
                .group_by(_STAGE.c.fingerprint)
            )
            query = sa.select(_STAGE.c.result).where(_STAGE.c.seq.in_(newest))
            todo = iter(fingerprints)
            while batch := list(islice(todo, _AT_ONCE)):
                for (result,) in conn.execute(query, {"some": among(batch)}):
                    see(result or {})

        self._read(work)


def _flow(conn: Connection, query: sa.Select[Any]) -> Iterator[Sequence[Any]]:
    """The rows, some at a time."""
    return iter(conn.execution_options(yield_per=_AT_ONCE).execute(query))
