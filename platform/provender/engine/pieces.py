"""The pieces that a build is made of, whoever drives it.

`provender.engine.build` runs them in one process; `provender.engine.staged` hands them to the tasks of
an orchestrator. Both cut, join, refuse and publish by the functions here, so that what comes out is
the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from provender.catalog import StageRecord, VersionRecord
from provender.engine.checking import check
from provender.engine.execute import Call, Tell, execute
from provender.engine.plan import HIT, Plan, Step
from provender.engine.pool import Pool
from provender.engine.proof import missing_run
from provender.engine.publishing import catalog_version, clear_aside, make_room, mend
from provender.engine.session import Session
from provender.errors import ChecksFailed, ConflictError, DiskFull, ProvenderError
from provender.stages import examples

if TYPE_CHECKING:
    from provender.engine.beam_pool import BeamPool
    from provender.engine.dask_pool import DaskPool

PARTED = {"order": "part", "join": "make"}
"""Operation that joins the parts of a stage -> the one that makes a part."""

_OUTCOMES: dict[type[BaseException], str] = {ChecksFailed: "blocked", ConflictError: "refused"}


def outcome_of(error: BaseException) -> str:
    """The outcome of a run that an error ended."""
    if not isinstance(error, Exception):
        return "interrupted"
    return _OUTCOMES.get(type(error), "failed")


def error_document(error: BaseException) -> dict[str, Any]:
    """An error as it is kept with a run."""
    if isinstance(error, ProvenderError):
        return error.to_json()
    return {"type": type(error).__name__, "message": repr(error)}


def build_key(session: Session) -> str:
    """The key that one build of a version claims, so that others wait for it."""
    return f"build/{session.facts.ref}:{session.facts.version}"


def pool_of(session: Session, workers: int) -> Pool | DaskPool | BeamPool:
    """Where a build's operations run: in processes of this machine, on Dask, or by Beam.

    Args:
        session: the build.
        workers: local processes; 1 means this process.
    """
    if session.with_beam:
        from provender.engine.beam_pool import BeamPool

        return BeamPool(session.work, session.beam.python)
    if session.options.address is None:
        return Pool(session.work, workers)
    from provender.engine.dask_pool import DaskPool

    return DaskPool(session.work, session.options.address)


def hits_of(plan: Plan) -> list[str]:
    """Ids of the executions that a plan reuses."""
    return [step.record.id for step in plan.steps if step.state == HIT and step.record]


def is_made_afresh(step: Step) -> bool:
    """Whether an examples stage does not go on from what lies there.

    It is forced; or it is a builder's step, and something is not as it was left: a builder is not asked
    to find out what.
    """
    kinds = {each["kind"] for each in step.reasons}
    return "forced" in kinds or (step.op == "join" and bool(kinds & {"damaged", "missing"}))


def forget(session: Session, step: Step) -> None:
    """Removes what an examples stage left, where it is made afresh."""
    if is_made_afresh(step):
        folder = session.work.building / "examples" / str(step.fingerprint)
        shutil.rmtree(folder, ignore_errors=True)


def cut(session: Session, step: Step, workers: int) -> list[Step]:
    """The parts of a split, or of a builder's step: as an unfinished build cut it, else one for each
    worker.

    Args:
        session: the build.
        step: the examples step.
        workers: parts to make of it where nobody has begun.

    Returns:
        The parts; none for a step that is not done in parts.
    """
    if step.op not in PARTED:
        return []
    if step.tree is None:
        raise AssertionError
    parts = examples.parts_begun(session.work, step.tree.digest) or workers
    return parts_of(session, step, parts)


def parts_of(session: Session, step: Step, parts: int) -> list[Step]:
    """So many parts of an examples step, as steps; each knows its last execution."""
    if step.tree is None:
        raise AssertionError
    trees = [examples.part_tree(step.tree, part, parts) for part in range(parts)]
    known = session.catalog.find_stages([tree.digest for tree in trees])
    return [
        Step(
            key=f"{step.key}/{examples.part_name(part, parts)}",
            op=PARTED[step.op],
            state=step.state,
            tree=tree,
            reasons=step.reasons,
            record=known.get(tree.digest),
            args={**step.args, "part": part, "parts": parts},
            inputs=step.inputs,
        )
        for part, tree in enumerate(trees)
    ]


def looked_up(session: Session, part: Step) -> Step:
    """A part as a hit, where its files lie there: it was made before, or by another run."""
    forced = any(each["kind"] == "forced" for each in part.reasons)
    if part.record is None or (forced and part.key not in session.forced):
        return part
    return part if missing_run(session, part.record) else replace(part, state=HIT)


def joined(step: Step, parts: Sequence[StageRecord]) -> Step:
    """An examples step, with the results of all its parts, where it has any."""
    if step.op not in PARTED:
        return step
    return replace(step, args={**step.args, "parts": [dict(each.result) for each in parts]})


@contextmanager
def reading(session: Session) -> Iterator[None]:
    """Keeps the published versions that the builder reads from being removed meanwhile.

    Raises:
        ConflictError: one has been removed.
    """
    note = f"building {session.facts.ref}:{session.facts.version}"
    with ExitStack() as leases:
        for version_id in session.sources:
            leases.enter_context(session.catalog.lease(version_id, note))
        yield


def need_space(session: Session, ready: Sequence[Step]) -> None:
    """Refuses to begin writing shards that the disk cannot hold.

    Args:
        session: the build.
        ready: the shards to be written.

    Raises:
        DiskFull: they would not fit.
    """
    free = session.work.store.free_bytes()
    splits = {step.args["split"]: step.args for step in ready if step.op == "shard"}
    need = sum(
        args["examples"]["bytes"]
        * sum(1 for step in ready if step.args["split"] == split)
        // args["shards"]
        for split, args in splits.items()
    )
    if free is not None and need > free:
        raise DiskFull(
            f"The shards need {need:,} bytes, and {free:,} are free.",
            where=session.work.store.url,
            hint="Free space, or give another --store. What is finished is kept.",
            facts={"needed": need, "free": free},
        )


def publish(
    session: Session, plan: Plan, step: Step, run_id: str, call: Call, tell: Tell
) -> VersionRecord:
    """Publishes, or mends what was published, and commits it to the catalog.

    The caller holds the claim `build_key`.

    Args:
        session: the build.
        plan: the plan; all hits but the register step.
        step: the register step.
        run_id: the run it belongs to.
        call: where the operation runs.
        tell: is told what happens.

    Returns:
        The version that stands now.

    Raises:
        ChecksFailed: it is not what the project's checks ask for.
    """
    steps = {each.key: each for each in plan.steps}
    known = plan.version
    if known is not None:

        def mending(op: str, args: Mapping[str, Any], progress: Any) -> dict[str, Any]:
            return mend(session, steps, known, call)

        execute(session, step, run_id=run_id, call=mending, tell=tell)
        return known
    check(session, step, run_id)
    step = make_room(session, step)
    record = execute(session, step, run_id=run_id, call=call, tell=tell)
    steps[step.key] = replace(step, record=record)
    version = catalog_version(session, steps, record, run_id)
    clear_aside(session)
    return version
