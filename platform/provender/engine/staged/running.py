"""One task's hold on a run: its session, and the record of how its piece goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from provender.builders.spec import BuilderSpec
from provender.catalog import RunRecord, StageRecord
from provender.catalog.orchestrated import run_id_of
from provender.engine import pieces
from provender.engine.checking import rules_of
from provender.engine.decide import decide
from provender.engine.execute import Call, Tell, execute
from provender.engine.operations import operation
from provender.engine.plan import HIT, RUN, Plan, Step, reason_text
from provender.engine.session import Options, Session, open_session
from provender.engine.staged.documents import CACHED, RAN, REUSED, Outcome, RunDoc
from provender.errors import CatalogError, SettingsError, StoreError
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings
from provender.stages.site import Workplace
from provender.store.neighbours import announce, is_announced

_SECRET = re.compile(r"//[^/@]*@")
_COUNTS = ("examples", "bytes", "size")


def begin(
    ref: str | DatasetRef | BuilderSpec,
    settings: Settings | None = None,
    options: Options | None = None,
    *,
    orchestrator: Mapping[str, Any],
    note: str | None = None,
) -> RunDoc:
    """Opens a run, or finds the one that the same orchestrator's run opened before.

    Nothing is looked at but the builder: files that people must provide may still be missing.

    Args:
        ref: what to build.
        settings: the project's settings; by default as provender.toml and the environment say.
        options: what was asked for.
        orchestrator: what the orchestrator calls the run, JSON-ready, the same from each of its
            tasks: ``{"name": "airflow", "dag_id": …, "run_id": …}``. An orchestrator's run that
            builds several datasets names the dataset too.
        note: why this run, kept with it for people.

    Returns:
        What each task of the run is told.

    Raises:
        UnknownReference: there is no such builder, config or version.
        CatalogError, StoreError: either cannot be reached.
        SettingsError: the options ask for what an orchestrator's tasks cannot do.
    """
    settings, options = settings or load_settings(), options or Options()
    if options.engine == "dask":
        raise SettingsError(
            "An orchestrator's tasks are the workers; they do not hand their work to Dask.",
            where="--engine dask",
            hint="Give the orchestrator more workers, or use `provender build --engine dask`.",
        )
    if isinstance(ref, str):
        ref = DatasetRef.parse(ref)
    session = open_session(ref, settings, options)
    facts = session.facts
    with session.catalog as catalog:
        rules_of(session)
        catalog.bury_dead()
        run = catalog.open_run(
            run_id_of(orchestrator),
            "build",
            facts.name,
            facts.config,
            facts.version,
            options.to_json() | ({"note": note} if note else {}),
            orchestrator,
        )
        announce(session.work.store, catalog.identity() or run.id, catalog.url)
    return RunDoc(
        run_id=run.id,
        dataset=facts.ref,
        version=facts.version,
        spec=facts.spec.with_(None, facts.version),
        options=options.to_json(),
        started=run.started.isoformat(),
        orchestrator=dict(orchestrator),
        settings=str(settings.path) if settings.path else None,
        store=shown(settings.store),
    )


def shown(url: str) -> str:
    """A store's URL without the secrets that one may hold."""
    return _SECRET.sub("//***@", url)


@dataclass
class Task:
    """One task of a run, while it works.

    Attributes:
        doc: the run.
        session: the build, opened in this process.
        piece: what this task does, as the run's record names it.
        tell: is told what happens, see `provender.engine.build`.
        run: the run's row, as it was when the task began.
        elsewhere: runs an operation in another process; None for this one.
    """

    doc: RunDoc
    session: Session
    piece: str
    tell: Tell
    run: RunRecord
    elsewhere: Call | None = None
    _working: bool = field(default=False)

    def decide(self) -> Plan:
        """What is to be done now.

        Raises:
            ConflictError: the number is published with other content.
        """
        plan = decide(self.session)
        if plan.conflict is not None:
            raise plan.conflict
        return plan

    def take(self, steps: list[Step]) -> None:
        """Records that the run reuses what these steps found.

        A run in which everything was ready has one row and no more, however many its stages.
        """
        own, found = self.doc.run_id, [step.record for step in steps if step.state == HIT]
        hits = [each.id for each in found if each is not None and each.run_id != own]
        if hits and self.run.outcome != "cached":
            self.session.catalog.record_hits(self.doc.run_id, hits)

    def see_done(self) -> None:
        """Notes what of the run is done: what is forced is done once a run, whoever does it."""
        if self.session.options.force:
            catalog = self.session.catalog
            ran = catalog.stages(run_id=self.run.id, state="succeeded", limit=None)
            self.session.forced.update(each.key for each in [*ran, *catalog.hits(self.run.id)])

    def work(self) -> None:
        """Shows the run as running; to be called before anything is done."""
        if not self._working:
            self._working = True
            self.run = self.session.catalog.note_piece(self.doc.run_id, self.piece)

    def perform(self, step: Step) -> tuple[Outcome, StageRecord]:
        """Runs a step, or waits for whoever runs it, or takes what is there.

        Raises:
            StoreError: its inputs are not there (any more).
        """
        if step.state == HIT and step.record is not None:
            return cached(step), step.record
        if step.state != RUN:
            raise not_ready(step)
        self.work()
        seen: dict[str, str] = {}

        def tell(event: Mapping[str, Any]) -> None:
            if event["event"] in ("reused", "wait"):
                seen[event["event"]] = str(event.get("holder", ""))
            self.tell(event)

        with pieces.reading(self.session):
            record = execute(self.session, step, run_id=self.doc.run_id, call=self.call, tell=tell)
        if "reused" in seen:
            self.session.catalog.record_hits(self.doc.run_id, [record.id])
        # A part of a split is no stage of its own: what forces the split forces each part once.
        self.session.forced.add(step.key)
        outcome = Outcome(
            stage=step.key,
            state=REUSED if "reused" in seen else RAN,
            fingerprint=record.fingerprint,
            why=tuple(reason_text(each) for each in step.reasons),
            seconds=0.0 if "reused" in seen else record.seconds or 0.0,
            counts=counts_of(record),
            execution=record.id,
            waited_for=seen.get("wait"),
        )
        return outcome, record

    def call(self, op: str, args: Mapping[str, Any], progress: Any) -> dict[str, Any]:
        """Runs an operation: by Beam, elsewhere where that is asked for, or in this process."""
        if self.elsewhere is not None and not self.session.with_beam:
            return self.elsewhere(op, args, progress)
        if self.pool.takes(op):
            return self.pool.call(op, args, progress)
        return operation(op)(self.session.work, args, progress)

    @cached_property
    def pool(self) -> Any:
        """Where heavy operations run."""
        return pieces.pool_of(self.session, 1)

    def close(self) -> None:
        """Ends what was started for this task."""
        if "pool" in self.__dict__:
            self.pool.close()


def cached(step: Step) -> Outcome:
    """The outcome of a step that is a hit."""
    record = step.record
    if record is None:
        raise AssertionError
    when = f"{record.finished:%Y-%m-%d %H:%M:%S} UTC" if record.finished else "before"
    return Outcome(
        stage=step.key,
        state=CACHED,
        fingerprint=step.fingerprint,
        why=(f"nothing that it depends on has changed since it ran, {when}",),
        counts=counts_of(record),
        execution=record.id,
    )


def counts_of(record: StageRecord) -> dict[str, int]:
    """The numbers that a stage tells of its result."""
    return {n: record.result[n] for n in _COUNTS if isinstance(record.result.get(n), int)}


def not_ready(step: Step) -> StoreError:
    """The error of a task whose inputs are not there."""
    why = "; ".join(reason_text(each) for each in step.reasons)
    return StoreError(
        f"{step.key} cannot be done now: it {why}.",
        where=step.key,
        hint="Run the stages before it again (clear their tasks). What is finished is reused. If "
        "tasks run on several machines, the store, or scratch where the store is remote, must be "
        "a folder that all of them see under one path.",
        facts={**step.to_json(), "transient": False},
    )


def workplace(doc: RunDoc, settings: Settings | None = None) -> Workplace:
    """Where the operations of a run work on this machine, for who keeps worker processes for it.

    Args:
        doc: the run.
        settings: the project's settings; by default those that the run names.
    """
    session = reopened(doc, settings)
    session.catalog.close()
    return session.work


@contextmanager
def task(doc: RunDoc, piece: str, settings: Settings | None, tell: Tell) -> Iterator[Task]:
    """Opens a run's session in this process; an error that ends the task is kept with the run."""
    session = reopened(doc, settings)
    catalog = session.catalog
    try:
        run = catalog.run(doc.run_id)
        if piece in run.summary.get("failed", {}):
            run = catalog.note_piece(run.id, piece)
        work = Task(doc, session, piece, tell, run)
        work.see_done()
        try:
            _need_store(session, run.id)
            yield work
        except BaseException as error:
            document = pieces.error_document(error)
            # A catalog that is away now must not hide what went wrong.
            with suppress(CatalogError):
                catalog.note_piece(run.id, piece, document, pieces.outcome_of(error))
            raise
        finally:
            work.close()
    finally:
        catalog.close()


def _need_store(session: Session, run_id: str) -> None:
    """A disk that is not mounted looks like a store in which nothing was ever built."""
    if not is_announced(session.work.store, session.catalog.identity() or run_id):
        raise StoreError(
            "The store is away: what was there as the run began is not there now.",
            where=shown(session.settings.store),
            hint="Bring it back (is its disk mounted?), and try again: what is finished is reused.",
        )


def reopened(doc: RunDoc, settings: Settings | None) -> Session:
    """The run's session, in this process.

    Raises:
        SettingsError: this process would build into another store than the run began with.
    """
    settings = settings or load_settings(file=doc.settings, only=(doc.dataset.partition("/")[0],))
    if shown(settings.store) != doc.store:
        raise SettingsError(
            f"This task would build into {shown(settings.store)}, but its run began in {doc.store}.",
            where=str(settings.path or "PROVENDER_STORE"),
            hint="Give every worker the same provender.toml and PROVENDER_* environment.",
        )
    return open_session(doc.spec, settings, doc.asked())
