"""The stages of a build, each of them one call in a process of its own.

Every call decides anew from the catalog and the store, does what is left of its piece, and records
it. So a call may be made twice, by two orchestrators at once, or after a crash: what is done already
is found.
"""

from __future__ import annotations

from typing import Any

from provender.catalog import StageRecord, VersionRecord, claimed
from provender.catalog.leases import stand_aside
from provender.engine import pieces as engine_pieces
from provender.engine.build import silent
from provender.engine.decide import decide
from provender.engine.execute import Call, Tell
from provender.engine.plan import HIT, RUN, Plan, Step
from provender.engine.staged import stepwise
from provender.engine.staged.documents import ABSENT, Outcome, Published, RunDoc, Unit
from provender.engine.staged.ranges import ranges
from provender.engine.staged.running import Task, not_ready, task
from provender.errors import SettingsError, StoreError
from provender.settings import Settings
from provender.stages import download, examples, manual, prepare, register, shards, splits

_KINDS = {
    "manual": (manual.KEY,),
    # A builder that cannot be taken apart does its downloads, and all else, in one stage.
    "download": (download.KEY, prepare.KEY),
    "splits": (splits.KEY,),
}
LIMIT = 64
"""Most tasks of a mapped stage: each costs an orchestrator about half a second."""


def run_stage(
    doc: RunDoc, stage: str, settings: Settings | None = None, *, tell: Tell = silent
) -> Outcome:
    """Runs one of the stages that come before examples.

    ``manual`` comes first for every dataset: it refuses a build that would break the promise of
    a version number, and notes a run that has nothing to do.

    Args:
        doc: the run.
        stage: ``manual``, ``download`` or ``splits``.
        settings: the project's settings; by default those that the run names.
        tell: is told what happens, see `provender.engine.build`.

    Returns:
        How the stage stands now.

    Raises:
        ConflictError: the number is published with other content; nothing was done.
        ManualFilesMissing: files that people must provide are not there.
        ProvenderError: what the stage raised; finished stages are kept for the next try.
    """
    if stage not in _KINDS:
        raise SettingsError(
            f"There is no stage {stage!r}.", hint=f"There are: {', '.join(_KINDS)}."
        )
    with task(doc, stage, settings, tell) as work:
        plan = work.decide()
        if stage == manual.KEY and plan.done and plan.version is not None:
            _nothing_to_do(work, plan, plan.version)
        steps = [step for step in plan.steps if step.key in _KINDS[stage]]
        if not steps:
            return Outcome(stage, ABSENT, why=("this dataset has no such stage",))
        work.take(steps)
        return work.perform(steps[0])[0]


def _nothing_to_do(work: Task, plan: Plan, version: VersionRecord) -> None:
    if work.run.outcome == "running":
        count = len(plan.steps)
        summary = {"stages": count, "hits": count, "outcome": "cached"}
        work.run = work.session.catalog.close_run(work.doc.run_id, "cached", summary, version.id)


def pieces(
    doc: RunDoc,
    stage: str,
    settings: Settings | None = None,
    *,
    limit: int = LIMIT,
    tell: Tell = silent,
) -> list[Unit]:
    """Cuts a stage into units, one for each task that an orchestrator may run at the same time.

    Args:
        doc: the run.
        stage: ``examples``, once the splits are planned, or ``shards``, once `collect` has joined
            the examples.
        settings: the project's settings; by default those that the run names.
        limit: most units.
        tell: is told what happens.

    Returns:
        The units; none where the dataset has no such stage. What is cached has units too, so that
        people see it.

    Raises:
        StoreError: what comes before is not done (any more).
        DiskFull: the shards would not fit into the store.
    """
    if stage not in ("examples", "shards"):
        raise SettingsError(f"There are no pieces of {stage!r}.", hint="Of examples and shards.")
    with task(doc, f"plan {stage}", settings, tell) as work:
        steps = _steps(work.decide(), stage)
        if stage == "examples":
            counts = {step.key.partition("/")[2]: _parts(work, step) for step in steps}
        else:
            engine_pieces.need_space(work.session, [s for s in steps if s.state == RUN])
            counts = {}
            for step in steps:
                split = step.key.split("/")[1]
                counts[split] = counts.get(split, 0) + 1
        return [Unit(stage, spans) for spans in ranges(counts, limit)]


def _steps(plan: Plan, stage: str) -> list[Step]:
    """The steps of a mapped stage, all of them known."""
    splits_step = next((step for step in plan.steps if step.key == splits.KEY), None)
    if splits_step is not None and splits_step.state != HIT:
        raise not_ready(splits_step)
    steps = [step for step in plan.steps if step.kind == stage]
    for step in steps:
        # A builder's steps follow each other, and their tasks see to what comes before.
        if step.state not in (HIT, RUN) and step.op != "join":
            raise not_ready(step)
    return steps


def _parts(work: Task, step: Step) -> int:
    if step.op not in engine_pieces.PARTED or step.state == HIT:
        return 1
    if step.op == "join":
        cut = engine_pieces.cut(work.session, step, work.session.workers) if step.tree else ()
        return len(cut) or work.session.workers
    engine_pieces.forget(work.session, step)
    return len(engine_pieces.cut(work.session, step, work.session.workers))


def run_pieces(
    doc: RunDoc,
    unit: Unit,
    settings: Settings | None = None,
    *,
    tell: Tell = silent,
    call: Call | None = None,
) -> list[Outcome]:
    """Does one unit: encodes parts of splits, or writes shards.

    Args:
        doc: the run.
        unit: from `pieces`.
        settings: the project's settings; by default those that the run names.
        tell: is told what happens.
        call: runs an operation in another process, e.g. `provender.engine.pool.Pool.call` of a
            pool for the run's `workplace`; for orchestrators whose tasks are threads.

    Returns:
        How each of the unit's stages stands now. A split that is cached as a whole is one.

    Raises:
        ProvenderError: what a stage raised; finished ones are kept for the next try.
    """
    name = f"{unit.stage} {unit.label}"
    with task(doc, name, settings, tell) as work:
        work.elsewhere = call
        if unit.stage == "examples" and work.session.facts.steps:
            found = [stepwise.make_parts(work, *span) for span in unit.spans]
            return list({each.stage: each for every in found for each in every}.values())
        steps = {step.key: step for step in work.decide().steps}
        todo = _wanted(work, unit, steps)
        work.take(todo)
        return [work.perform(step)[0] for step in todo]


def _wanted(work: Task, unit: Unit, steps: dict[str, Step]) -> list[Step]:
    found: list[Step] = []
    for split, first, stop, of in unit.spans:
        if unit.stage == "shards":
            found += [_known(steps, shards.key(split, i)) for i in range(first, stop)]
            continue
        step = _known(steps, examples.key(split))
        if step.state == RUN and step.op == "order":
            parts = engine_pieces.parts_of(work.session, step, of)
            found += [engine_pieces.looked_up(work.session, part) for part in parts[first:stop]]
        else:
            found.append(step)
    return found


def _known(steps: dict[str, Step], key: str) -> Step:
    if key not in steps:
        raise StoreError(
            f"There is no {key} any more: the plan has changed since this task was made.",
            where=key,
            hint="Run the stages before it again (clear their tasks). What is finished is reused.",
        )
    return steps[key]


def collect(doc: RunDoc, settings: Settings | None = None, *, tell: Tell = silent) -> list[Outcome]:
    """Joins the parts of every split: totals, content digest, duplicate keys, order.

    Args:
        doc: the run.
        settings: the project's settings; by default those that the run names.
        tell: is told what happens.

    Returns:
        How the examples of each split stand now; nothing where the dataset has no such stage.

    Raises:
        DuplicateKeyError: two examples share a key.
        StoreError: a part is not there.
    """
    with task(doc, "collect", settings, tell) as work:
        if work.session.facts.steps:
            return stepwise.join_all(work)
        steps = _steps(work.decide(), "examples")
        work.take(steps)
        return [work.perform(_joined(work, step))[0] for step in steps]


def _joined(work: Task, step: Step) -> Step:
    """The step of a split with the results of its parts, which other processes made."""
    if step.state == HIT or step.op != "order":
        return step
    fingerprint = str(step.fingerprint)
    lost: list[str] = []
    # Another process may have begun to cut the split otherwise: whichever cut is whole will do.
    for count in examples.cuts(work.session.work, fingerprint):
        parts = engine_pieces.parts_of(work.session, step, count)
        records = [part.record for part in parts if part.record is not None]
        if len(records) == len(parts):
            return engine_pieces.joined(step, records)
        lost = [part.key for part in parts if part.record is None]
    raise StoreError(
        f"{step.key} cannot be joined: {lost[0] if lost else 'its parts'} cannot be found here.",
        where=step.key,
        hint="Run the tasks that encode examples again (clear them). Parts of one split must be "
        "made in a folder that all workers see: the store's, or scratch where the store is remote.",
        facts={"missing": lost},
    )


def register_version(
    doc: RunDoc, settings: Settings | None = None, *, tell: Tell = silent
) -> Published:
    """Checks and publishes the version, and closes the run.

    Args:
        doc: the run.
        settings: the project's settings; by default those that the run names.
        tell: is told what happens.

    Returns:
        The version that stands now.

    Raises:
        ChecksFailed: it is not what the project's checks ask for.
        ConflictError: the number was published with other content meanwhile.
        StoreError: a shard is not there.
    """
    with task(doc, register.KEY, settings, tell) as work:
        session = work.session

        def waiting(held: Any) -> None:
            tell({"event": "wait", "stage": "build", "holder": str(held.owner)})

        # The same claim as of a build in one process: of two that publish, one waits.
        key, note = engine_pieces.build_key(session), f"publishing {session.facts.ref}"
        with claimed(session.catalog, key, on_wait=waiting, note=note):
            stand_aside(session.catalog, session.facts.ref, waiting)
            plan = work.decide()
            if not (plan.done and plan.version is not None):
                plan = _published(work, plan)
        work.take(list(plan.steps))
        return _closed(work, plan)


def _published(work: Task, plan: Plan) -> Plan:
    step = next(each for each in plan.steps if each.key == register.KEY)
    if step.state != RUN or plan.ready[:1] != (step,):
        raise not_ready(next(each for each in plan.steps if each.state != HIT))
    work.work()
    engine_pieces.publish(work.session, plan, step, work.doc.run_id, work.call, work.tell)
    work.session.forced.add(step.key)
    plan = decide(work.session)
    if not plan.done or plan.version is None:
        raise not_ready(next(each for each in plan.steps if each.state != HIT))
    return plan


def _closed(work: Task, plan: Plan) -> Published:
    catalog, version = work.session.catalog, plan.version
    if version is None:
        raise AssertionError
    ran = catalog.stages(run_id=work.doc.run_id, state="succeeded", limit=None)
    summary = {
        "stages": len(plan.steps),
        "hits": len(plan.steps) - len({each.key for each in ran if "/part-" not in each.key}),
        "ran": [each.key for each in reversed(ran)],
        "version": version.name,
        "version_id": version.id,
    }
    outcome = "succeeded" if ran else "reused"
    catalog.close_run(work.doc.run_id, outcome, summary, None if ran else version.id)
    return _about(work, version)


def published(doc: RunDoc, settings: Settings | None = None) -> Published:
    """The version that a run ended with; changes nothing.

    Args:
        doc: the run, after `register_version`.
        settings: the project's settings; by default those that the run names.

    Raises:
        StoreError: the version is not there.
    """
    with task(doc, "publish", settings, silent) as work:
        catalog, facts = work.session.catalog, work.session.facts
        wanted = ("trial",) if work.session.options.is_trial else ("published",)
        version = catalog.version(facts.name, facts.config, facts.version, include=wanted)
        if version is None:
            raise StoreError(
                f"{doc.name} is not published.",
                where=doc.name,
                hint="Run the task that registers it again (clear it).",
            )
        return _about(work, version)


def _about(work: Task, version: VersionRecord) -> Published:
    run = work.session.catalog.run(work.doc.run_id)
    return Published(
        name=version.name,
        dataset=work.doc.dataset,
        version=version.version,
        fingerprint=version.fingerprint,
        status=version.status,
        path=version.uri,
        splits={each.name: each.examples for each in version.splits},
        bytes=version.bytes,
        changed=version.run_id == work.doc.run_id,
        changed_splits=_changed_splits(work, version),
        outcome=run.outcome,
        run_id=run.id,
    )


def _changed_splits(work: Task, version: VersionRecord) -> tuple[str, ...]:
    """Splits whose shards differ from those of the version published before."""
    catalog = work.session.catalog
    others = catalog.versions(version.dataset, ("published",), config=version.config)
    before = next((each for each in others if each.created < version.created), None)
    now, then = _contents(work, version), _contents(work, before) if before else {}
    return tuple(
        split.name for split in version.splits if now.get(split.name) != then.get(split.name)
    )


def _contents(work: Task, version: VersionRecord) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in work.session.catalog.shards(version.id):
        found.setdefault(each.split, []).append(each.sha256)
    return found


def end(doc: RunDoc, outcome: str, message: str, settings: Settings | None = None) -> None:
    """Closes a run that its orchestrator gave up: cancelled, timed out.

    Args:
        doc: the run.
        outcome: ``failed``, ``interrupted`` ...
        message: why, for people.
        settings: the project's settings; by default those that the run names.
    """
    with task(doc, "end", settings, silent) as work:
        error = {"type": "ProvenderError", "message": message}
        work.session.catalog.close_run(doc.run_id, outcome, {"error": error})


def plan_of(doc: RunDoc, settings: Settings | None = None) -> Plan:
    """What is left to do now, and why; changes nothing.

    Args:
        doc: the run.
        settings: the project's settings; by default those that the run names.

    Raises:
        ManualFilesMissing: files that people must provide are not there.
    """
    with task(doc, "look", settings, silent) as work:
        return decide(work.session)


def execution_of(doc: RunDoc, stage: str, settings: Settings | None = None) -> StageRecord | None:
    """The execution that stands for a stage of a run: its own, or the one that it reused.

    Args:
        doc: the run.
        stage: stage key.
        settings: the project's settings; by default those that the run names.
    """
    with task(doc, "look", settings, silent) as work:
        return find_execution(work.session.catalog, doc.run_id, stage)


def find_execution(catalog: Any, run_id: str, stage: str) -> StageRecord | None:
    """As `execution_of`, from an open catalog: what a page about one task shows.

    Args:
        catalog: the catalog.
        run_id: the run.
        stage: stage key.
    """
    own: list[StageRecord] = catalog.stages(run_id=run_id, key=stage, limit=None)
    for record in [*own, *reversed(catalog.hits(run_id))]:
        if record.key == stage:
            return record
    reused = catalog.run(run_id).reused_version_id
    if reused is None:
        return None
    fingerprint = catalog.version_by_id(reused).info["stages"].get(stage)
    found: StageRecord | None = catalog.find_stage(fingerprint) if fingerprint else None
    return found
