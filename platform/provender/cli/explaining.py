"""``why``: what made stages run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.stage_rows import COLUMNS, Row, grouped, is_part, named, reason_texts, why_text
from provender.cli.tables import Column, state_style
from provender.cli.units import time_text
from provender.cli.versions import show_checks
from provender.errors import UnknownReference

if TYPE_CHECKING:
    from provender.catalog import CheckRecord, StageRecord
    from provender.engine.plan import Plan, Step

_COLUMNS = (
    Column("stage"),
    Column("state", style=state_style),
    Column("when (UTC)"),
    Column("why", wraps=True),
)


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "why", "provender why xsum examples/train", "provender why xsum --run 3f0c")(why)


def why(
    call: Invocation,
    ref: p.Ref,
    stage: Annotated[
        str | None, typer.Argument(metavar="[STAGE]", help="One stage, or a kind of stages.")
    ] = None,
    run: p.Run = None,
) -> None:
    """Say why stages run: what changed, from what to what.

    If a build would run something now, the reasons are those of that build; otherwise they are
    those of the latest run of each stage.
    """
    about, rows, refused = _asked(call, ref, run)
    if stage is None:
        shown = [row for row in rows if about != "plan" or row.state != "hit"]
    else:
        shown = [row for row in rows if _matches(row.key, stage)]
        if not shown:
            raise UnknownReference(
                f"There is no stage {stage!r}.",
                where=ref,
                hint=f"There are: {', '.join(dict.fromkeys(row.key for row in rows))}.",
            )
    checks = [] if stage is not None and stage != "register" else _checks(call, ref, run)
    if call.json:
        stages = [_document(row) for row in shown]
        call.out.document({"about": about, "stages": stages, "checks": checks})
        return
    call.out.remark(_TITLES[about].format(ref=ref, run=run))
    whole = call.verbose or stage is not None
    lines = [
        (*named(group), _when(group[0]), why_text(group[0].why, verbose=whole))
        for group in grouped(shown, verbose=call.verbose)
    ]
    if any(when for _, _, when, _ in lines):
        call.out.table(_COLUMNS, lines)
    else:
        call.out.table(COLUMNS, [(key, state, text) for key, state, _, text in lines])
    if refused:
        call.out.remark(
            "Such a build is refused: the number is published. `provender plan` says more."
        )
    show_checks(call, [each for each in checks if each.state in ("failed", "allowed")])


def _checks(call: Invocation, ref: str, run: str | None) -> list[CheckRecord]:
    """What checks found in that run, or in the latest that made any of this dataset."""
    from provender.cli.references import known_dataset

    if run is not None:
        return call.catalog.checks(run_id=call.catalog.run(run).id)
    try:
        dataset, config = known_dataset(call, ref)
    except UnknownReference:  # it was never built
        return []
    found = call.catalog.checks(dataset=dataset, config=config)
    return [each for each in found if each.run_id == found[0].run_id]


_TITLES = {
    "run": "Run {run}:",
    "plan": "A build of {ref} would run something now:",
    "ready": "A build of {ref} would run nothing. The latest run of each stage:",
    "latest": "The latest run of each stage:",
}


def _asked(call: Invocation, ref: str, run: str | None) -> tuple[str, list[Row], bool]:
    """What the reasons are about (a key of `_TITLES`), the stages, and whether it is refused."""
    from provender.refs import DatasetRef

    if run is not None:
        records = call.catalog.stages(run_id=call.catalog.run(run).id, limit=None)
        return "run", _rows(call, records[::-1]), False
    # What an alias points to cannot be built.
    if DatasetRef.parse(ref).alias:
        return "latest", _latest(call, ref), False
    plan = _plan(call, ref)
    if plan.done:
        return "ready", _latest(call, ref), False
    return "plan", [_planned(step) for step in plan.steps], plan.conflict is not None


def _matches(key: str, stage: str) -> bool:
    return key == stage or key.startswith(f"{stage.rstrip('/')}/")


def _document(row: Row) -> dict[str, Any]:
    when = row.record.started if row.record else None
    return {"stage": row.key, "state": row.state, "when": when, "why": row.why}


def _when(row: Row) -> str:
    return time_text(row.record.started) if row.record else ""


def _plan(call: Invocation, ref: str) -> Plan:
    from provender.cli.building import open_build
    from provender.engine.decide import decide

    return decide(open_build(call, ref, None, None, {}))


def _planned(step: Step) -> Row:
    """A stage of a plan; a hit has the reasons of the run that it reuses."""
    reasons = step.record.reason if step.state == "hit" and step.record else step.reasons
    record = step.record if step.state == "hit" else None
    return Row(step.key, step.state, reason_texts(reasons), record)


def _latest(call: Invocation, ref: str) -> list[Row]:
    from provender.cli.references import known_dataset

    last = call.catalog.last_stages(*known_dataset(call, ref))
    return _rows(call, sorted(last.values(), key=lambda each: (each.started, each.key)))


def _rows(call: Invocation, records: list[StageRecord]) -> list[Row]:
    return [
        Row(each.key, each.state, reason_texts(each.reason), each)
        for each in records
        if call.verbose or not is_part(each.key)
    ]
