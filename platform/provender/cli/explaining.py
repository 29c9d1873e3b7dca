"""``why`` and ``lineage``: where things come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.stage_rows import COLUMNS, Row, grouped, is_part, named, reason_texts, why_text
from provender.cli.tables import Column, state_style
from provender.cli.units import time_text
from provender.errors import UnknownReference

if TYPE_CHECKING:
    from provender.catalog import StageRecord

_COLUMNS = (
    Column("stage"),
    Column("state", style=state_style),
    Column("when (UTC)"),
    Column("why", wraps=True),
)


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "why", "provender why xsum examples/train", "provender why xsum --run 3f0c")(why)
    command(app, "lineage", "provender lineage xsum:1.0.0 --up --depth 2")(lineage)


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
    from provender.refs import DatasetRef

    wanted = DatasetRef.parse(ref)
    about = "run"
    if run is not None:
        rows = _rows(call, call.catalog.stages(run_id=call.catalog.run(run).id, limit=None)[::-1])
    elif (planned := None if wanted.alias else _planned(call, ref)) is not None:
        about, rows = "plan", planned
    else:
        about, rows = "latest", _latest(call, ref)
    shown = [row for row in rows if stage is None or _matches(row.key, stage)]
    if stage is not None and not shown:
        raise UnknownReference(
            f"There is no stage {stage!r}.",
            where=ref,
            hint=f"There are: {', '.join(dict.fromkeys(row.key for row in rows))}.",
        )
    if call.json:
        call.out.document({"about": about, "stages": [_document(row) for row in shown]})
        return
    call.out.remark(_TITLES[about].format(ref=ref, run=run))
    whole = call.verbose or stage is not None
    rows_with_time = [
        (*named(group), _when(group[0]), why_text(group[0].why, verbose=whole))
        for group in grouped(shown, verbose=call.verbose)
    ]
    if about == "plan":
        call.out.table(COLUMNS, [(key, state, text) for key, state, _, text in rows_with_time])
    else:
        call.out.table(_COLUMNS, rows_with_time)


_TITLES = {
    "run": "Run {run}:",
    "plan": "A build of {ref} would run something now:",
    "latest": "A build of {ref} would run nothing. The latest run of each stage:",
}


def _matches(key: str, stage: str) -> bool:
    return key == stage or key.startswith(f"{stage.rstrip('/')}/")


def _document(row: Row) -> dict[str, Any]:
    when = row.record.started if row.record else None
    return {"stage": row.key, "state": row.state, "when": when, "why": row.why}


def _when(row: Row) -> str:
    return time_text(row.record.started) if row.record else ""


def _planned(call: Invocation, ref: str) -> list[Row] | None:
    """The reasons of the build that would run now; None if it would find all ready."""
    from provender.cli.building import open_build
    from provender.engine.decide import decide

    plan = decide(open_build(call, ref, None, None, {}))
    if plan.done:
        return None
    return [
        Row(step.key, step.state, reason_texts(step.reasons))
        for step in plan.steps
        if step.state != "hit"
    ]


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


def lineage(
    call: Invocation,
    ref: p.Ref,
    up: Annotated[bool, typer.Option("--up", help="What it was made from (the default).")] = False,
    down: Annotated[bool, typer.Option("--down", help="What was made from it.")] = False,
    depth: Annotated[
        int | None, typer.Option("--depth", min=1, help="At most so many steps away.")
    ] = None,
) -> None:
    """Draw what a version was made from, or what was made from it."""
    from provender.cli.lineage_tree import tree_lines
    from provender.cli.references import version_of

    version = version_of(call, ref)
    directions = [name for name, asked in (("up", up), ("down", down)) if asked] or ["up"]
    found = {name: call.catalog.lineage(version.id, name, depth) for name in directions}  # type: ignore[arg-type]
    if call.json:
        call.out.document({"version": version.name, **found})
        return
    for name, graph in found.items():
        if len(found) > 1:
            call.out.line("made from:" if name == "up" else "made into:", style="bold")
        for line in tree_lines(graph, name, verbose=call.verbose):
            call.out.line(line)
