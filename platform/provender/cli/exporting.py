"""``export``: the catalog's history for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from provender.cli.commands import command, epilog
from provender.cli.invocation import Invocation
from provender.cli.parsing import Group
from provender.errors import SettingsError


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    group = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="The catalog's history in forms that other programs read.",
        epilog=epilog("provender export openlineage --output events.ndjson"),
    )
    command(
        group,
        "openlineage",
        "provender export openlineage --output events.ndjson",
        "provender export openlineage --since 2026-03-01 --stages",
    )(openlineage)
    app.add_typer(group, name="export")


def openlineage(
    call: Invocation,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only what began then or later; UTC."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only what began before; UTC.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there, not to the screen."),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="The namespace of all jobs.")
    ] = "provender",
    stages: Annotated[
        bool, typer.Option("--stages", help="Every stage as a run of its own, below its run.")
    ] = False,
) -> None:
    """Write runs and reads as OpenLineage events, one JSON document a line."""
    from provender.questions import moment
    from provender.questions.openlineage import Exporter

    exporter = Exporter(call.catalog, namespace, stages=stages)
    events = exporter.history(moment(since) if since else None, moment(until) if until else None)
    if output is None:
        if call.json:
            call.out.document(list(events))
            return
        for event in events:
            call.out.raw(json.dumps(event, ensure_ascii=False))
        return
    written = _write(Path(output).expanduser(), events)
    if call.json:
        call.out.document({"output": output, "events": written})
    else:
        call.out.remark(f"{output}: {written:,} event{'' if written == 1 else 's'}")


def _write(path: Path, events: Iterator[dict[str, Any]]) -> int:
    """Writes beside the file and then in its place, so that nobody reads half of it."""
    part = path.with_name(f".{path.name}.part")
    count = 0
    try:
        with part.open("w", encoding="utf-8") as out:
            for event in events:
                out.write(json.dumps(event, ensure_ascii=False) + "\n")
                count += 1
        part.replace(path)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}."
        raise SettingsError(message, where="--output") from error
    finally:
        part.unlink(missing_ok=True)
    return count
