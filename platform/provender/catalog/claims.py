"""Claims: who may work on a key now. One row a key, in table ``lease``."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.columns import utc_now
from provender.catalog.heartbeat import Heartbeat
from provender.catalog.processes import Owner, host_identity, is_dead
from provender.catalog.records import ClaimRecord
from provender.catalog.session import Session, insert_missing

_LEASE = t.lease
_PULSE_LOCK = threading.Lock()


def may_take_over(held: ClaimRecord, owner: Owner, now: datetime) -> bool:
    """Whether a claim that somebody holds may be taken by another process.

    Args:
        held: the claim as it stands.
        owner: who wants it.
        now: the database's time.

    Returns:
        True once it expired, or when its owner is provably dead. A process never takes over
        from itself: two of its threads would both believe to hold the claim.
    """
    if held.owner.same_process(owner):
        return False
    return held.expires <= now or is_dead(held.owner)


class Claims(Session):
    """The part of the catalog that keeps two processes from doing one thing twice.

    For work use the context manager `claimed`, which waits and keeps the claim alive.
    """

    _pulse: tuple[int, Heartbeat] | None = None

    def heartbeat(self) -> Heartbeat:
        """What renews this process's claims; a forked child, which has no threads, gets its own."""
        with _PULSE_LOCK:
            if self._pulse is None or self._pulse[0] != os.getpid():
                self._pulse = (os.getpid(), Heartbeat(self.renew))
            return self._pulse[1]

    def acquire(self, key: str, owner: Owner, ttl_seconds: float) -> ClaimRecord | None:
        """Takes a claim if nobody alive holds it.

        Args:
            key: what is claimed, e.g. the fingerprint of a stage.
            owner: who takes it, best ``this_process("what for")``.
            ttl_seconds: how long it lasts without `renew`.

        Returns:
            The claim, or None if another process, or this one, holds it.
        """
        lasts = timedelta(seconds=ttl_seconds)

        def work(conn: Connection) -> ClaimRecord | None:
            now = database_now(conn)
            mine = ClaimRecord(key, owner, now, now, now + lasts)
            if insert_missing(conn, _LEASE, [_row(mine)]) == 1:
                return mine
            query = sa.select(_LEASE).where(_LEASE.c.key == key).with_for_update()
            row = conn.execute(query).first()
            if row is None:
                # Released between the two statements: whoever comes next gets it.
                return mine if insert_missing(conn, _LEASE, [_row(mine)]) == 1 else None
            if not may_take_over(claim_of(row), owner, now):
                return None
            conn.execute(_LEASE.update().where(_LEASE.c.key == key).values(**_row(mine)))
            return mine

        return self._write(work)

    def holder(self, key: str) -> ClaimRecord | None:
        """Who holds a key, alive or not; None if nobody does."""
        query = sa.select(_LEASE).where(_LEASE.c.key == key)
        row = self._read(lambda conn: conn.execute(query).first())
        return None if row is None else claim_of(row)

    def blocker(self, key: str, owner: Owner) -> ClaimRecord | None:
        """The claim that keeps ``owner`` from taking a key now; None if `acquire` would do."""
        query = sa.select(_LEASE).where(_LEASE.c.key == key)

        def work(conn: Connection) -> ClaimRecord | None:
            row = conn.execute(query).first()
            if row is None:
                return None
            held = claim_of(row)
            return None if may_take_over(held, owner, database_now(conn)) else held

        return self._read(work)

    def claims(self, prefix: str = "") -> list[ClaimRecord]:
        """The claims on keys that start so and are held now: not expired, owner not dead."""
        query = sa.select(_LEASE).order_by(_LEASE.c.key)
        if prefix:
            query = query.where(_LEASE.c.key.startswith(prefix, autoescape=True))

        def work(conn: Connection) -> list[ClaimRecord]:
            now = database_now(conn)
            held = [claim_of(row) for row in conn.execute(query)]
            return [c for c in held if c.expires > now and not is_dead(c.owner)]

        return self._read(work)

    def renew(self, keys: Iterable[str], owner: Owner, ttl_seconds: float = 30) -> set[str]:
        """Keeps claims alive.

        Args:
            keys: claimed by the owner.
            owner: who claimed them.
            ttl_seconds: how long they last from now.

        Returns:
            The keys that the owner holds; one that is missing was taken over and is lost.
        """
        wanted = sorted(set(keys))
        mine = sa.and_(*_owned(wanted, owner))

        def work(conn: Connection) -> set[str]:
            now = database_now(conn)
            lasts = now + timedelta(seconds=ttl_seconds)
            renewed = _LEASE.update().where(mine).values(heartbeat_at=now, expires_at=lasts)
            if conn.execute(renewed).rowcount == len(wanted):
                return set(wanted)
            return set(conn.execute(sa.select(_LEASE.c.key).where(mine)).scalars())

        return self._write(work) if wanted else set()

    def release(self, key: str, owner: Owner) -> bool:
        """Gives a claim up. False if the owner did not hold it (any more)."""
        gone = _LEASE.delete().where(*_owned([key], owner))
        return self._write(lambda conn: conn.execute(gone).rowcount) == 1

    def bury_dead(self) -> int:
        """Closes the runs and stages of this host whose process died while they ran.

        They would be shown as running for ever: a process killed with -9 cannot say so. Runs
        get the outcome ``died``, stages the state ``failed``.

        Returns:
            How many were closed.
        """
        gone = {"type": "WorkerDied", "message": "The process that ran this is gone."}
        stage = {"state": "failed", "error": gone, "finished_at": utc_now()}
        run = {"outcome": "died", "finished_at": utc_now()}

        def work(conn: Connection) -> int:
            closed = _close(conn, t.stage_execution, t.stage_execution.c.state, stage)
            return closed + _close(conn, t.run, t.run.c.outcome, run)

        return self._write(work)


def _close(conn: Connection, table: sa.Table, state: sa.Column[Any], values: dict[str, Any]) -> int:
    running = sa.select(table).where(table.c.host == host_identity(), state == "running")
    owners = [
        (row.id, Owner(row.host, row.pid, row.process_start)) for row in conn.execute(running)
    ]
    dead = [id for id, owner in owners if is_dead(owner)]
    for id in dead:
        conn.execute(table.update().where(table.c.id == id, state == "running").values(**values))
    return len(dead)


def database_now(conn: Connection) -> datetime:
    """The time that expiry is measured by: PostgreSQL's own, since its clients' clocks differ."""
    if conn.dialect.name == "sqlite":
        return utc_now()
    now: datetime = conn.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return now


def _owned(keys: list[str], owner: Owner) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _LEASE.c.key.in_(keys),
        _LEASE.c.host == owner.host,
        _LEASE.c.pid == owner.pid,
        _LEASE.c.process_start == owner.process_start,
    )


def _row(claim: ClaimRecord) -> dict[str, Any]:
    return {
        "key": claim.key,
        "host": claim.owner.host,
        "pid": claim.owner.pid,
        "process_start": claim.owner.process_start,
        "note": claim.owner.note,
        "acquired_at": claim.acquired,
        "heartbeat_at": claim.heartbeat,
        "expires_at": claim.expires,
    }


def claim_of(row: Any) -> ClaimRecord:
    owner = Owner(row.host, row.pid, row.process_start, row.note)
    return ClaimRecord(row.key, owner, row.acquired_at, row.heartbeat_at, row.expires_at)
