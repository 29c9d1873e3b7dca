"""What the catalog holds, in numbers: for monitoring, not for people who look for something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.claims import claim_of, database_now
from provender.catalog.processes import is_dead
from provender.catalog.session import Session

_READ = "read"


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The runs of one kind and outcome.

    Attributes:
        kind: ``build``, ``verify``, ``gc`` ...
        outcome: ``running``, ``succeeded``, ``failed``, ``cached`` ...
        count: how many there are.
        oldest: when the first of them began.
        ended: when the last of them ended; None where none did.
        reused: how many of them found a whole version ready.
    """

    kind: str
    outcome: str
    count: int
    oldest: datetime
    ended: datetime | None
    reused: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that is counted, as of one moment.

    Attributes:
        stages: (kind of stage, state) -> executions.
        runs: one entry a kind and outcome.
        stage_hits: executions that runs reused, those of runs with nothing to do not counted.
        artifact_bytes: size of everything stages made, the same content counted once.
        download_bytes: size of what is known by its URL.
        versions: status -> versions whose files are in the store.
        removed: versions whose files were removed.
        version_bytes: status -> size of their shard files.
        version_examples: status -> their examples.
        claims: kind of work (``build``, ``stage``, ``remove``, ``gc``) -> claims held now.
        leases: readers now.
        reads: reads on record.
        checks: state -> checks on record.
    """

    stages: Mapping[tuple[str, str], int]
    runs: tuple[RunFigures, ...]
    stage_hits: int
    artifact_bytes: int
    download_bytes: int
    versions: Mapping[str, int]
    removed: int
    version_bytes: Mapping[str, int]
    version_examples: Mapping[str, int]
    claims: Mapping[str, int]
    leases: int
    reads: int
    checks: Mapping[str, int]

    @property
    def version_hits(self) -> int:
        """Runs that found a whole version ready."""
        return sum(each.reused for each in self.runs)


class Measuring(Session):
    """The part of the catalog that counts."""

    def ping(self) -> None:
        """Asks the database for one row.

        Raises:
            CatalogError: it does not answer, or holds no catalog.
        """
        query = sa.text("SELECT version_num FROM alembic_version")
        self._read(lambda conn: conn.execute(query).scalar_one())

    def figures(self) -> Figures:
        """Counts everything, in one transaction that only reads.

        The cost grows with the number of stage executions: they are all looked at.

        Raises:
            CatalogError: the database does not answer.
        """
        return self._read(_figures)


def _figures(conn: Connection) -> Figures:
    held = _held(conn)
    there = t.version.c.removed_at.is_(None)
    sizes = _sizes(conn, there)
    return Figures(
        stages=_stages(conn),
        runs=_runs(conn),
        stage_hits=_one(conn, sa.select(sa.func.count()).select_from(t.run_hit)),
        artifact_bytes=_one(conn, sa.select(sa.func.sum(t.artifact.c.size))),
        download_bytes=_one(conn, sa.select(sa.func.sum(t.download.c.size))),
        versions=_counted(conn, t.version.c.status, there),
        removed=_one(conn, sa.select(sa.func.count(t.version.c.removed_at))),
        version_bytes={status: size for status, size, _ in sizes},
        version_examples={status: examples for status, _, examples in sizes},
        claims={kind: count for kind, count in held.items() if kind != _READ},
        leases=held[_READ],
        reads=_one(conn, sa.select(sa.func.count()).select_from(t.consumption)),
        checks=_counted(conn, t.check_result.c.state),
    )


def _stages(conn: Connection) -> dict[tuple[str, str], int]:
    stage = t.stage_execution.c
    query = sa.select(stage.stage, stage.state, sa.func.count())
    rows = conn.execute(query.group_by(stage.stage, stage.state))
    return {(kind, state): count for kind, state, count in rows}


def _runs(conn: Connection) -> tuple[RunFigures, ...]:
    run = t.run.c
    query = (
        sa.select(
            run.kind,
            run.outcome,
            sa.func.count(),
            sa.func.min(run.started_at),
            sa.func.max(run.finished_at),
            sa.func.count(run.reused_version_id),
        )
        .group_by(run.kind, run.outcome)
        .order_by(run.kind, run.outcome)
    )
    return tuple(RunFigures(*row) for row in conn.execute(query))


def _sizes(conn: Connection, there: sa.ColumnElement[bool]) -> list[tuple[str, int, int]]:
    split = t.split_stat.c
    query = (
        sa.select(t.version.c.status, sa.func.sum(split.bytes), sa.func.sum(split.examples))
        .join(t.split_stat, split.version_id == t.version.c.id)
        .where(there)
        .group_by(t.version.c.status)
    )
    return [(status, int(size), int(examples)) for status, size, examples in conn.execute(query)]


def _held(conn: Connection) -> Counter[str]:
    """Claims and leases by the first part of their keys, those that run out or died left out."""
    now = database_now(conn)
    held = map(claim_of, conn.execute(sa.select(t.lease)))
    alive = (each for each in held if each.expires > now and not is_dead(each.owner))
    return Counter(each.key.partition("/")[0] for each in alive)


def _counted(
    conn: Connection, column: sa.Column[Any], *where: sa.ColumnElement[bool]
) -> dict[str, int]:
    query = sa.select(column, sa.func.count()).where(*where).group_by(column)
    return {row[0]: row[1] for row in conn.execute(query)}


def _one(conn: Connection, query: sa.Select[Any]) -> int:
    """A number; PostgreSQL adds up bigints to a numeric, and nothing to NULL."""
    return int(conn.execute(query).scalar_one() or 0)
