"""A builder's steps (`provender.builders.steps`), made by tasks of which none waits for another to begin.

A task is meant for some parts of one step. It first sees to it that the steps before are there: parts that
nobody has made it makes itself, and parts that others are at it waits for, as the claim of each stage has
it. So the tasks may run in any order, all at once or one by one, and an orchestrator needs no group of
tasks for each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from provender.catalog import claimed
from provender.engine import pieces
from provender.engine.plan import HIT, RUN, Plan, Step
from provender.engine.staged.documents import REUSED, Outcome
from provender.engine.staged.running import Task, cached, not_ready
from provender.errors import StoreError
from provender.stages.steps import key as step_key


def make_parts(work: Task, name: str, first: int, stop: int, of: int) -> list[Outcome]:
    """Makes some parts of a step, once the steps before it are there.

    Args:
        work: the task.
        name: of the step.
        first: number of the first part.
        stop: the part after the last one.
        of: parts in all.

    Returns:
        How the stages that were done here stand, and those that this task is for. A step that is
        cached as a whole is one.

    Raises:
        ProvenderError: what a stage raised.
    """
    names = list(work.session.facts.steps)
    plan, done = _made(work, names[: names.index(name)], begin=first)
    step = _step(plan, name)
    if step.state == HIT:
        work.take([step])
        return [*done.values(), _found(work, step)]
    if step.state != RUN:
        raise not_ready(step)
    _forget_once(work, step)
    for part in pieces.parts_of(work.session, step, of)[first:stop]:
        done[part.key] = _perform(work, part)
    return list(done.values())


def join_all(work: Task) -> list[Outcome]:
    """Joins every step, making what is missing; gives how each of them stands.

    Args:
        work: the task.

    Raises:
        ProvenderError: what a stage raised.
    """
    names = list(work.session.facts.steps)
    plan, done = _made(work, names)
    steps = [_step(plan, name) for name in names]
    work.take([step for step in steps if step.key not in done])
    return [done.get(step.key) or _found(work, step) for step in steps]


def _made(work: Task, names: Sequence[str], begin: int = 0) -> tuple[Plan, dict[str, Outcome]]:
    """Sees to it that steps are there; gives the plan then, and what was done for it here."""
    done: dict[str, Outcome] = {}
    joined: set[str | None] = set()
    while True:
        work.see_done()
        plan = work.decide()
        wanted = [_step(plan, name) for name in names]
        step = next((each for each in wanted if each.state != HIT), None)
        if step is None:
            return plan, done
        if step.state != RUN:
            raise not_ready(step)
        if step.fingerprint in joined:
            raise StoreError(
                f"{step.key} was made, yet what it left is not there.",
                where=str(work.session.work.building),
                hint="Is another program cleaning up there? `provender doctor` looks.",
                facts=step.to_json(),
            )
        joined.add(step.fingerprint)
        done |= _whole(work, step, begin)


def _whole(work: Task, step: Step, begin: int) -> dict[str, Outcome]:
    """Makes and joins a step, together with whoever else is at it."""
    _forget_once(work, step)
    parts = pieces.cut(work.session, step, work.session.workers)
    records = {}
    done = {}
    # Tasks begin at different parts, so that they meet late.
    for i in range(len(parts)):
        number = (begin + i) % len(parts)
        part = pieces.looked_up(work.session, parts[number])
        work.take([part])
        outcome, records[number] = work.perform(part)
        if not outcome.hit:
            done[part.key] = outcome
    whole = pieces.joined(step, [records[number] for number in range(len(parts))])
    outcome, _ = work.perform(whole)
    return done if outcome.hit else {**done, step.key: outcome}


def _perform(work: Task, part: Step) -> Outcome:
    part = pieces.looked_up(work.session, part)
    if part.state == HIT:
        work.take([part])
        return _found(work, part)
    return work.perform(part)[0]


def _found(work: Task, step: Step) -> Outcome:
    """How a stage stands that is there: from before, or made by another task of this run."""
    outcome = cached(step)
    if step.record is None or step.record.run_id != work.doc.run_id:
        return outcome
    return replace(outcome, state=REUSED, why=("another task of this run made it",))


def _step(plan: Plan, name: str) -> Step:
    for step in plan.steps:
        if step.key == step_key(name):
            return step
    raise StoreError(
        f"There is no {step_key(name)}: the splits are not planned (any more).",
        where=step_key(name),
        hint="Run the stages before it again (clear their tasks). What is finished is reused.",
    )


def _forget_once(work: Task, step: Step) -> None:
    """Removes, once a run, what a step left that is to be made afresh."""
    if not pieces.is_made_afresh(step):
        return
    folder = work.session.work.building / "examples" / str(step.fingerprint)
    mark = folder / f".afresh-{work.doc.run_id}"
    with claimed(work.session.catalog, f"forget/{step.fingerprint}", note=step.key):
        if not mark.exists():
            pieces.forget(work.session, step)
            folder.mkdir(parents=True, exist_ok=True)
            mark.touch()
