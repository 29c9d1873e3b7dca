"""``lineage``, ``consumers`` and ``consumed-by``: where things come from, and who depends on them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from provender.cli import parameters as p
from provender.cli.choices import chosen
from provender.cli.commands import command
from provender.cli.completion import complete_job
from provender.cli.invocation import Invocation
from provender.cli.tables import Column, state_style
from provender.cli.units import time_text
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.catalog import Consumer
    from provender.questions import LineageGraph

_FORMATS = ("tree", "json", "dot", "mermaid", "openlineage")
_DIRECTIONS = ("up", "down", "both")


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(
        app,
        "lineage",
        "provender lineage xsum:1.0.0 --depth 2",
        "provender lineage xsum --direction down --format mermaid",
    )(lineage)
    command(app, "consumers", "provender consumers xsum:1.0.0")(consumers)
    command(app, "consumed-by", "provender consumed-by train-7")(consumed_by)


def lineage(
    call: Invocation,
    ref: p.Ref,
    up: Annotated[bool, typer.Option("--up", help="What it was made from (the default).")] = False,
    down: Annotated[bool, typer.Option("--down", help="What was made from it.")] = False,
    direction: Annotated[
        str | None,
        typer.Option("--direction", metavar="WAY", help="up, down or both, as --up and --down."),
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", min=1, help="At most so many steps away.")
    ] = None,
    format: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help=f"{', '.join(_FORMATS)}."),
    ] = "tree",
) -> None:
    """Draw what a version was made from, or what was made from it."""
    ways = _ways(up, down, direction)
    kind = chosen("json" if call.json else format, _FORMATS, "--format")
    found = {way: call.questions.lineage(ref, way, depth) for way in ways}  # type: ignore[arg-type]
    if kind == "json":
        _as_json(call, found)
    elif kind == "openlineage":
        _as_events(call, found)
    elif kind in ("dot", "mermaid"):
        _as_drawing(call, found, kind)
    else:
        _as_tree(call, found)


def _ways(up: bool, down: bool, direction: str | None) -> list[str]:
    asked = [name for name, wanted in (("up", up), ("down", down)) if wanted]
    if direction is None:
        return asked or ["up"]
    chosen(direction, _DIRECTIONS, "--direction")
    wanted = ["up", "down"] if direction == "both" else [direction]
    if asked and asked != wanted:
        message = f"--direction {direction} contradicts {' '.join(f'--{each}' for each in asked)}."
        raise SettingsError(message, where="--direction", hint="Give one of them.")
    return wanted


def _as_json(call: Invocation, found: dict[str, LineageGraph]) -> None:
    from provender.cli.documents import plain

    start = next(iter(found.values())).start
    document = {
        way: {"nodes": plain(graph.nodes), "edges": plain(graph.edges)}
        for way, graph in found.items()
    }
    call.out.raw(json.dumps({"version": start.name, **document}, indent=2, ensure_ascii=False))


def _as_events(call: Invocation, found: dict[str, LineageGraph]) -> None:
    from provender.catalog import Lineage
    from provender.questions.openlineage import Exporter

    exporter = Exporter(call.catalog)
    for graph in found.values():
        for event in exporter.of_graph(Lineage(tuple(graph.nodes), tuple(graph.edges))):
            call.out.raw(json.dumps(event, ensure_ascii=False))


def _as_drawing(call: Invocation, found: dict[str, LineageGraph], kind: str) -> None:
    from provender.questions.answers import joined
    from provender.questions.drawing import dot, mermaid

    for line in (dot if kind == "dot" else mermaid)(joined(found.values())):
        call.out.raw(line)


def _as_tree(call: Invocation, found: dict[str, LineageGraph]) -> None:
    from provender.catalog import Lineage
    from provender.cli.lineage_tree import tree_lines

    for way, graph in found.items():
        if len(found) > 1:
            call.out.line("made from:" if way == "up" else "made into:", style="bold")
        whole = Lineage(tuple(graph.nodes), tuple(graph.edges))
        for line in tree_lines(whole, way, verbose=call.verbose):
            call.out.line(line)


def consumers(call: Invocation, ref: p.Ref) -> None:
    """Say who would miss a version. Jobs that read it, and what was made from it."""
    version = call.questions.version(ref)
    found = call.questions.consumers(version.id)
    if call.json:
        call.out.document(
            {"version": version.name, "aliases": version.summary.aliases, "consumers": found}
        )
        return
    if version.summary.aliases:
        names = ", ".join(f"@{each}" for each in version.summary.aliases)
        call.out.remark(f"{version.name} is what {names} means.")
    if not found:
        call.out.remark(f"Nothing on record depends on {version.name}.")
        return
    columns = [
        Column("who", wraps=True),
        Column("is a"),
        Column("through"),
        Column("splits", wraps=True),
        Column("reads", right=True),
        Column("last (UTC)"),
        Column("by"),
    ]
    call.out.table(columns, [_consumer(each) for each in found])


def _consumer(each: Consumer) -> tuple[str, ...]:
    return (
        each.name,
        each.kind,
        each.through,
        ", ".join(each.splits),
        str(each.reads or ""),
        time_text(each.last),
        ", ".join(each.users),
    )


def consumed_by(
    call: Invocation,
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help="Name of a training job, evaluation, notebook ...",
            autocompletion=complete_job,
            show_default=False,
        ),
    ],
    limit: p.Limit = 100,
) -> None:
    """Say what a job read. Versions, splits and when, and what became of them since."""
    found = call.questions.consumed_by(job, limit=limit)
    if call.json:
        call.out.document({"job": job, "reads": found, "truncated": found.more})
        return
    columns = [
        Column("version"),
        Column("today", style=state_style),
        Column("splits", wraps=True),
        Column("when (UTC)"),
        Column("user"),
        Column("host"),
        Column("fingerprint"),
    ]
    rows = [
        (
            each.name,
            each.status,
            ", ".join(each.splits),
            time_text(each.started),
            each.user,
            each.host,
            each.fingerprint[:12],
        )
        for each in found
    ]
    call.out.table(columns, rows)
    for name, why in {e.name: e.retract_reason for e in found if e.retract_reason}.items():
        call.out.remark(f"{name} was retracted: {why}")
    if found.more:
        call.out.remark(f"Cut off after {limit}; --limit raises that.")
