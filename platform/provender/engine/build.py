"""The local engine: decide, run what is ready, decide again, until a version stands.

Whoever watches is told events, mappings with ``event`` and mostly ``stage``:

    plan      what is to be done now (``plan``); told again whenever more is known
    start     a stage begins (``reasons``)
    progress  ``done``, ``total`` (or None), ``unit``
    done      a stage ended well (``seconds``, ``result``)
    failed    a stage ended badly (``error``)
    wait      another process is at work on it (``holder``)
    reused    another process has finished it meanwhile
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from provender.catalog import ClaimRecord, StageRecord, VersionRecord, claimed
from provender.catalog.leases import stand_aside
from provender.engine import pieces
from provender.engine.checking import rules_of
from provender.engine.decide import decide
from provender.engine.execute import Tell, execute
from provender.engine.operations import operation
from provender.engine.plan import HIT, Plan, Step
from provender.engine.session import Session
from provender.errors import ProvenderError, StoreError
from provender.stages import register
from provender.store.neighbours import announce


@dataclass(frozen=True)
class Built:
    """How a build ended.

    Attributes:
        version: the version that stands now.
        run_id: the run's row in the catalog.
        plan: the plan that it began with.
        ran: keys of the stages that ran, in the order they ended.
        outcome: ``cached`` where nothing had to be done, ``reused`` where another process did
            it, else ``succeeded``.
        seconds: wall time.
    """

    version: VersionRecord
    run_id: str
    plan: Plan
    ran: tuple[str, ...]
    outcome: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The result for ``--json``."""
        return {
            "outcome": self.outcome,
            "version": self.version.name,
            "status": self.version.status,
            "fingerprint": self.version.fingerprint,
            "path": self.version.uri,
            "splits": {each.name: each.examples for each in self.version.splits},
            "run": self.run_id,
            "seconds": round(self.seconds, 3),
            "ran": list(self.ran),
            "plan": self.plan.to_json(),
        }


def silent(_: Mapping[str, Any]) -> None:
    """A watcher that does not watch."""


def build(
    session: Session, tell: Tell = silent, orchestrator: Mapping[str, Any] | None = None
) -> Built:
    """Builds a version, reusing all that has not changed.

    Args:
        session: the build.
        tell: is told what happens.
        orchestrator: ids of the orchestrator's run, for the record.

    Returns:
        The version and what was done for it.

    Raises:
        ConflictError: the number is published with other content; nothing was done.
        ProvenderError: what a stage raised; finished stages are kept for the next try.
    """
    started = datetime.now(UTC)
    facts = session.facts
    rules_of(session)
    plan = decide(session)
    tell({"event": "plan", "plan": plan})
    _refuse(session, plan, orchestrator)
    if plan.done and plan.version is not None:
        return _nothing_to_do(session, plan, orchestrator, started, "cached")

    def waiting(held: ClaimRecord) -> None:
        tell({"event": "wait", "stage": "build", "holder": str(held.owner)})

    key = pieces.build_key(session)
    with claimed(session.catalog, key, on_wait=waiting, note=f"building {facts.ref}") as claim:
        if stand_aside(session.catalog, facts.ref, waiting) or claim.waited:
            plan = decide(session)
            _refuse(session, plan, orchestrator)
            if plan.done and plan.version is not None:
                return _nothing_to_do(session, plan, orchestrator, started, "reused")
        return _Build(session, plan, tell, started).run(orchestrator)


def _refuse(session: Session, plan: Plan, orchestrator: Mapping[str, Any] | None) -> None:
    if plan.conflict is None:
        return
    facts = session.facts
    run_id = session.catalog.begin_run(
        "build",
        facts.name,
        facts.config,
        facts.version,
        session.options.to_json(),
        orchestrator,
    )
    session.catalog.finish_run(run_id, "refused", {"error": plan.conflict.to_json()})
    raise plan.conflict


def _nothing_to_do(
    session: Session,
    plan: Plan,
    orchestrator: Mapping[str, Any] | None,
    started: datetime,
    outcome: str,
) -> Built:
    facts, version = session.facts, plan.version
    if version is None:
        raise AssertionError
    run_id = session.catalog.record_noop_run(
        "build",
        facts.name,
        facts.config,
        facts.version,
        session.options.to_json(),
        {"stages": len(plan.steps), "hits": len(plan.steps), "outcome": outcome},
        version.id,
        orchestrator=orchestrator,
        started=started,
    )
    seconds = (datetime.now(UTC) - started).total_seconds()
    return Built(version, run_id, plan, (), outcome, seconds)


class _Build:
    """One build that has something to do, while it holds the claim on its version."""

    def __init__(self, session: Session, plan: Plan, tell: Tell, started: datetime) -> None:
        self.s = session
        self.first = self.plan = plan
        self.tell = tell
        self.started = started
        self.pool = pieces.pool_of(session, session.workers)
        self.ran: list[str] = []
        self.version: VersionRecord | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(self, orchestrator: Mapping[str, Any] | None) -> Built:
        facts, catalog = self.s.facts, self.s.catalog
        catalog.bury_dead()
        self.run_id = catalog.begin_run(
            "build",
            facts.name,
            facts.config,
            facts.version,
            self.s.options.to_json(),
            orchestrator,
        )
        announce(self.s.work.store, catalog.identity() or self.run_id, catalog.url)
        if any(
            step.kind in ("examples", "shards") and step.state != HIT for step in self.first.steps
        ):
            # Begun now, workers import the builder while this process downloads and plans.
            self.pool.start()
        hits = pieces.hits_of(self.first)
        try:
            catalog.record_hits(self.run_id, hits)
            with pieces.reading(self.s):
                version = self._loop()
        except BaseException as error:
            doc = pieces.error_document(error)
            outcome = pieces.outcome_of(error)
            catalog.finish_run(self.run_id, outcome, {"error": doc, "ran": self.ran})
            raise
        finally:
            self.pool.close()
        seconds = (datetime.now(UTC) - self.started).total_seconds()
        summary = {
            "stages": len(self.plan.steps),
            "hits": len(hits),
            "ran": self.ran,
            "version": version.name,
            "version_id": version.id,
        }
        catalog.finish_run(self.run_id, "succeeded", summary)
        return Built(version, self.run_id, self.first, tuple(self.ran), "succeeded", seconds)

    def _loop(self) -> VersionRecord:
        done: set[tuple[str, str | None]] = set()
        while not (self.plan.done and (self.version or self.plan.version)):
            ready = self.plan.ready
            if not ready:
                raise StoreError(
                    "Nothing can run, yet the version is not there.",
                    where=self.s.facts.ref,
                    facts=self.plan.to_json(),
                )
            for step in ready:
                if (step.key, step.fingerprint) in done:
                    raise StoreError(
                        f"{step.key} ran, yet what it wrote is not there.",
                        where=self.s.work.store.url,
                        hint="Is another program changing the store? `provender doctor` looks.",
                        facts=step.to_json(),
                    )
                done.add((step.key, step.fingerprint))
            self._level(ready)
            self.s.forced.update(step.key for step in ready)
            self.plan = decide(self.s)
            self.tell({"event": "plan", "plan": self.plan})
            if self.plan.conflict is not None:
                raise self.plan.conflict
        version = self.version or self.plan.version
        if version is None:
            raise AssertionError
        return version

    def _level(self, ready: Sequence[Step]) -> None:
        kind = ready[0].kind
        if any(step.op in pieces.PARTED for step in ready):
            ready = self._parted(ready)
        if kind == "shards":
            pieces.need_space(self.s, ready)
        if kind == register.KEY:
            self.version = pieces.publish(
                self.s, self.plan, ready[0], self.run_id, self._call, self._tell
            )
        else:
            self._all(ready)
        self.ran += [step.key for step in ready]

    def _parted(self, ready: Sequence[Step]) -> list[Step]:
        """Makes all parts of examples stages; gives their steps, ready to join them."""
        for step in ready:
            pieces.forget(self.s, step)
        parts = [self._cut(step) for step in ready]
        made = iter(self._all([part for each in parts for part in each]))
        return [
            pieces.joined(step, [next(made) for _ in each])
            for step, each in zip(ready, parts, strict=True)
        ]

    def _cut(self, step: Step) -> list[Step]:
        found = pieces.cut(self.s, step, self.pool.workers)
        if step.op != "join":
            return found
        # Of a split, the operation itself sees what of a part is there.
        found = [pieces.looked_up(self.s, part) for part in found]
        hits = [part.record.id for part in found if part.state == HIT and part.record]
        self.s.catalog.record_hits(self.run_id, hits)
        return found

    def _all(self, steps: Sequence[Step]) -> list[StageRecord]:
        """Executes steps that do not depend on each other, as many at once as there are workers.

        After the first failure no further step is begun; the first failure is raised.
        """
        if self.pool.workers == 1 or len(steps) == 1:
            return [self._one(step) for step in steps]
        with ThreadPoolExecutor(self.pool.workers) as threads:
            futures = [threads.submit(self._guarded, step) for step in steps]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self._stop.set()
                for future in futures:
                    future.cancel()
                if not isinstance(_first_error(futures), ProvenderError):
                    self.pool.close()
                raise

    def _guarded(self, step: Step) -> StageRecord:
        if self._stop.is_set():
            raise StoreError("Not begun, since another stage failed.", where=step.key)
        return self._one(step)

    def _one(self, step: Step) -> StageRecord:
        if step.state == HIT and step.record is not None:
            return step.record
        return execute(self.s, step, run_id=self.run_id, call=self._call, tell=self._tell)

    def _call(self, op: str, args: Mapping[str, Any], progress: Any) -> dict[str, Any]:
        if self.pool.takes(op):
            return self.pool.call(op, args, progress)
        return operation(op)(self.s.work, args, progress)

    def _tell(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            self.tell(event)


def _first_error(futures: Sequence[Any]) -> BaseException | None:
    for future in futures:
        if future.done() and not future.cancelled() and future.exception() is not None:
            return future.exception()
    return None
