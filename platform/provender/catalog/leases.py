"""Leases: a reader's word that it still needs a version's files, kept fresh while it reads.

A lease is a row of table ``lease`` under ``read/<version id>/<lease id>``. It is taken and renewed
by one background thread a catalog, so that reading never waits for the catalog for long, and goes on
while the catalog is away. A lease that is not renewed runs out; one whose process is provably dead
counts no more at once. What removes versions (`provender.upkeep.gc`) looks at the leases in the
transaction that takes the version away, so a lease that was granted holds.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.claims import Claims, claim_of, database_now
from provender.catalog.columns import new_id
from provender.catalog.processes import Owner, is_dead, this_process
from provender.catalog.records import ClaimRecord, LeaseRecord
from provender.catalog.session import Session, upsert
from provender.errors import CatalogError, ConflictError, ProvenderError

_log = logging.getLogger(__name__)
_LEASE, _VERSION = t.lease, t.version
_PREFIX = "read/"
SWEEP = "gc/store"
"""Claimed while what no version needs is removed from the store."""

REMOVAL = "remove/"
"""``remove/<name[/config]>/<version id>`` is claimed while a version is removed."""

TTL = 120.0
"""Seconds that a lease lasts without being renewed; it is renewed three times as often."""

_RETRY = (1.0, 30.0)
_KEEPER_LOCK = threading.Lock()


class Lease:
    """A lease, from the moment it is asked for until `close`. Use it in a ``with`` block.

    Attributes:
        id: 32 hex digits.
        version_id: the version that is read.
        purpose: what for.
    """

    def __init__(self, keeper: Keeper, version_id: str, purpose: str) -> None:
        self.id = new_id()
        self.version_id, self.purpose = version_id, purpose
        self.owner = this_process(purpose)
        self.error: ProvenderError | None = None
        self._keeper = keeper
        self._granted = False
        self._answered = threading.Event()

    @property
    def key(self) -> str:
        """The key of its row."""
        return f"{_PREFIX}{self.version_id}/{self.id}"

    @property
    def held(self) -> bool:
        """Whether the catalog has granted it."""
        return self._granted and self.error is None

    def wait(self, seconds: float) -> bool:
        """Waits until the catalog has answered; False if it did not in time."""
        return self._answered.wait(seconds)

    def check(self) -> None:
        """To be called where reading fails: says whether the version was taken away.

        Raises:
            ConflictError: it was removed before the lease was granted.
        """
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Gives the lease back; without the catalog it runs out by itself."""
        self._keeper.drop(self)

    def answer(self, error: ProvenderError | None) -> None:
        """Notes what the catalog said (the keeper calls this)."""
        self._granted = self._granted or error is None
        self.error = error
        self._answered.set()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lease({self.version_id!r}, {self.purpose!r}, held={self.held})"


Put = Callable[[list[Lease]], Mapping[str, ProvenderError | None]]
Take = Callable[[str, Owner], object]


class Keeper:
    """The thread that takes and renews a process's leases. It ends with the last of them.

    Args:
        put: takes or renews leases; gives an error, or None, by key.
        take: removes the row of a lease.
        ttl: seconds that a lease lasts.
    """

    def __init__(self, put: Put, take: Take, ttl: float = TTL) -> None:
        self._put, self._take, self._ttl = put, take, ttl
        self._changed = threading.Condition()
        self._leases: dict[str, Lease] = {}
        self._new: dict[str, Lease] = {}
        self._running = False
        self._due = 0.0
        self._failures = 0

    def add(self, lease: Lease) -> None:
        """Takes a lease as soon as the catalog answers, and renews it from then on."""
        with self._changed:
            self._leases[lease.key] = self._new[lease.key] = lease
            if not self._running:
                self._running = True
                self._due = time.monotonic() + self._ttl / 3
                threading.Thread(target=self._run, name="provender-leases", daemon=True).start()
            self._changed.notify()

    def drop(self, lease: Lease) -> None:
        """Stops renewing a lease, and removes its row."""
        with self._changed:
            known = self._leases.pop(lease.key, None)
            self._new.pop(lease.key, None)
            self._changed.notify()
        if known is None:
            return
        try:
            self._take(lease.key, lease.owner)
        except ProvenderError as error:
            _log.debug("A lease could not be given back: %s", error.message)

    def _run(self) -> None:
        while True:
            with self._changed:
                while (
                    self._leases
                    and (not self._new or self._failures)
                    and (left := self._due - time.monotonic()) > 0
                ):
                    self._changed.wait(left)
                if not self._leases:
                    self._running = False
                    return
                everything = bool(self._failures) or self._due <= time.monotonic()
                batch = list((self._leases if everything else self._new).values())
                self._new.clear()
            self._beat(batch, everything)

    def _beat(self, batch: list[Lease], everything: bool) -> None:
        now = time.monotonic()
        try:
            answers = self._put(batch)
        except Exception as error:  # noqa: BLE001 - without this thread all leases run out
            if not self._failures:
                _log.warning("Leases cannot be renewed, trying on: %s", error)
            self._failures += 1
            self._due = now + min(_RETRY[0] * 2 ** min(self._failures, 8), _RETRY[1])
            return
        if self._failures:
            _log.info("Leases are renewed again.")
        self._failures = 0
        if everything:
            self._due = now + self._ttl / 3
        gone = []
        for lease in batch:
            lease.answer(answers.get(lease.key))
            with self._changed:
                if lease.error is not None:
                    self._leases.pop(lease.key, None)
                elif lease.key not in self._leases:
                    gone.append(lease)
        for lease in gone:  # given back while it was being renewed
            try:
                self._take(lease.key, lease.owner)
            except ProvenderError as error:
                _log.debug("A lease could not be given back: %s", error.message)


class Leases(Session):
    """The part of the catalog that knows who reads what."""

    _keeper: tuple[int, Keeper] | None = None

    def lease(self, version_id: str, purpose: str, *, wait: float = 2.0) -> Lease:
        """Keeps a version from being removed while it is read.

        Taking it costs one short transaction in the background. If the catalog cannot be reached
        the reader goes on, and the lease is taken once it can.

        Args:
            version_id: the version.
            purpose: what reads it, shown by ``provender leases``.
            wait: seconds to wait for the catalog's answer; 0 does not wait at all.

        Returns:
            The lease; close it, best by a ``with`` block.

        Raises:
            ConflictError: the version has been removed (known only if waited for).
        """
        with _KEEPER_LOCK:
            if self._keeper is None or self._keeper[0] != os.getpid():
                self._keeper = (os.getpid(), Keeper(self._put, self._take))
            keeper = self._keeper[1]
        found = Lease(keeper, version_id, purpose)
        keeper.add(found)
        if wait > 0 and found.wait(wait):
            found.check()
        return found

    def leases(self, version_id: str | None = None) -> list[LeaseRecord]:
        """The leases that count now, oldest first: not run out, their processes not known dead.

        Args:
            version_id: only of this version.
        """
        prefix = f"{_PREFIX}{version_id}/" if version_id else _PREFIX
        found = self._read(lambda conn: _live(conn, prefix))
        return sorted(map(_lease, found), key=lambda each: each.acquired)

    def take_away(
        self, version_id: str, *, reason: str, who: str, blocked_by: Callable[[], object] = bool
    ) -> list[LeaseRecord]:
        """Notes that a version's files are about to be removed, unless somebody reads it.

        A published version becomes retracted, a trial replaced; a version that has an alias is
        left alone.

        Args:
            version_id: the version.
            reason: why, for a published version.
            who: who decides it.
            blocked_by: asked inside the transaction; anything true leaves the version alone.

        Returns:
            The leases that keep it; empty where it may be removed now.

        Raises:
            ConflictError: an alias points to it, or ``blocked_by`` objects.
        """

        def work(conn: Connection) -> list[LeaseRecord]:
            row = _locked(conn, [version_id]).get(version_id)
            if row is None:
                raise ConflictError("The version is not on record any more.", where=version_id)
            held = _live(conn, f"{_PREFIX}{version_id}/")
            if held:
                return list(map(_lease, held))
            alias = sa.select(t.alias.c.name).where(t.alias.c.version_id == version_id)
            if row.status == "published" and conn.execute(alias).first() is not None:
                raise ConflictError("An alias points to the version.", where=version_id)
            if blocked_by():
                raise ConflictError("Somebody is at work on the dataset.", where=version_id)
            now = database_now(conn)
            values: dict[str, Any] = {"removed_at": row.removed_at or now}
            if row.status == "published":
                values |= {
                    "status": "retracted",
                    "retracted_at": now,
                    "retracted_by": who,
                    "retract_reason": reason,
                }
            elif row.status == "trial":
                values |= {"status": "replaced", "retracted_at": now}
            mine = _VERSION.c.id == version_id
            conn.execute(_VERSION.update().where(mine).values(**values))
            return []

        return self._write(work)

    def _put(self, leases: list[Lease]) -> dict[str, ProvenderError | None]:
        lasts = timedelta(seconds=TTL)

        def work(conn: Connection) -> dict[str, ProvenderError | None]:
            known = _locked(conn, sorted({each.version_id for each in leases}))
            now = database_now(conn)
            answers: dict[str, ProvenderError | None] = {}
            for each in leases:
                row = known.get(each.version_id)
                if row is not None and row.removed_at is not None:
                    answers[each.key] = _removed(row.removed_at, each.version_id)
                    continue
                answers[each.key] = None
                _renew(conn, each, now, lasts)
            return answers

        return self._write(work)

    def _take(self, key: str, owner: Owner) -> bool:
        mine = (
            _LEASE.c.key == key,
            _LEASE.c.pid == owner.pid,
            _LEASE.c.process_start == owner.process_start,
        )
        gone = _LEASE.delete().where(*mine)
        return self._write(lambda conn: conn.execute(gone).rowcount) == 1


def _renew(conn: Connection, lease: Lease, now: datetime, lasts: timedelta) -> None:
    fresh = {"heartbeat_at": now, "expires_at": now + lasts}
    here = _LEASE.c.key == lease.key
    if conn.execute(_LEASE.update().where(here).values(**fresh)).rowcount:
        return
    owner = lease.owner
    row = {
        "key": lease.key,
        "host": owner.host,
        "pid": owner.pid,
        "process_start": owner.process_start,
        "note": lease.purpose,
        "acquired_at": now,
        **fresh,
    }
    upsert(conn, _LEASE, row)


def _locked(conn: Connection, ids: Iterable[str]) -> dict[str, Any]:
    """The versions, locked, so that leases and removals of one version come one by one."""
    columns = (_VERSION.c.id, _VERSION.c.status, _VERSION.c.removed_at)
    query = sa.select(*columns).where(_VERSION.c.id.in_(list(ids))).order_by(_VERSION.c.id)
    return {row.id: row for row in conn.execute(query.with_for_update())}


def _live(conn: Connection, prefix: str) -> list[ClaimRecord]:
    query = sa.select(_LEASE).where(_LEASE.c.key.startswith(prefix, autoescape=True))
    now = database_now(conn)
    found = [claim_of(row) for row in conn.execute(query)]
    return [each for each in found if each.expires > now and not is_dead(each.owner)]


def _lease(claim: ClaimRecord) -> LeaseRecord:
    _, version_id, id = claim.key.split("/")
    return LeaseRecord(
        id,
        version_id,
        claim.owner.note,
        claim.owner,
        claim.acquired,
        claim.heartbeat,
        claim.expires,
    )


def _removed(when: datetime, version_id: str) -> ConflictError:
    return ConflictError(
        f"The version's files were removed from the store on {when:%Y-%m-%d %H:%M} UTC.",
        where=version_id,
        hint="Read another version, or build this one again.",
    )


def stand_aside(
    catalog: Claims, ref: str | None, on_wait: Callable[[ClaimRecord], None] | None = None
) -> bool:
    """Lets a removal that is under way finish before something is built.

    To be called by whoever holds a claim on a build or stage: removals begin only where there is
    no such claim, so afterwards nothing is removed until the claim is given back.

    Args:
        catalog: where claims are kept.
        ref: ``name[/config]``, whose versions must not be in the middle of a removal; None where
            only the store as a whole matters.
        on_wait: told whom is waited for, once.

    Returns:
        Whether there was something to wait for; what was planned before may be out of date then.

    Raises:
        CatalogError: the removal did not end within an hour.
    """
    owner = this_process()
    began, told = time.monotonic(), False
    while True:
        held = catalog.blocker(SWEEP, owner)
        if held is None and ref is not None:
            ours = [c for c in catalog.claims(f"{REMOVAL}{ref}/") if "/" not in _tail(c.key, ref)]
            held = next(iter(ours), None)
        if held is None:
            return told
        if not told:
            told = True
            if on_wait is not None:
                on_wait(held)
        if time.monotonic() - began > 3600:
            raise CatalogError(
                "Something has been removed from the store for an hour.",
                where=held.key,
                hint=f"It is {held.owner}; end it if it hangs.",
            )
        time.sleep(0.1)


def _tail(key: str, ref: str) -> str:
    return key.removeprefix(f"{REMOVAL}{ref}/")
