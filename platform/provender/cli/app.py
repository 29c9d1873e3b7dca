"""The program: its top level, and the command groups that hang from it."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from provender.cli import (
    backfilling,
    building,
    caching,
    comparing,
    data_service,
    database,
    explaining,
    exporting,
    finding,
    history,
    naming,
    nlp,
    project,
    reading,
    retention,
    serving,
    serving_flows,
    sql,
    tracing,
    upkeep,
    versions,
)
from provender.cli.commands import META, SHARED, epilog
from provender.cli.output import Output
from provender.cli.parsing import Group, UsageFault

app = typer.Typer(
    name="provender",
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _program_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"provender {version('provender')}")
        raise typer.Exit


def _top(
    ctx: typer.Context,
    program_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_program_version,
            is_eager=True,
            help="Say which Provender this is.",
        ),
    ] = False,
    **shared: Any,
) -> None:
    ctx.meta[META] = shared


_own = [p for p in inspect.signature(_top, eval_str=True).parameters.values() if p.name != "shared"]
_top.__signature__ = inspect.Signature([*_own, *SHARED])  # type: ignore[attr-defined]
_top.__annotations__ = {p.name: p.annotation for p in (*_own, *SHARED)}

app.callback(
    help="Builds, publishes and feeds versioned datasets. Global options may stand before or "
    "after the command.",
    cls=Group,
    epilog=epilog("provender build digits", "provender show digits"),
)(_top)

for _group in (
    project,
    building,
    backfilling,
    explaining,
    tracing,
    versions,
    naming,
    finding,
    history,
    reading,
    comparing,
    serving,
    serving_flows,
    upkeep,
    retention,
    caching,
    nlp,
    data_service,
    sql,
    exporting,
    database,
):
    _group.register(app)


def run(args: list[str]) -> int:
    """Runs one command line.

    Args:
        args: the arguments, without the program's name.

    Returns:
        The exit code.
    """
    try:
        return app(args, prog_name="provender", standalone_mode=False) or 0
    except UsageFault as fault:
        if "--json" not in args:
            fault.show()
        else:
            where = fault.ctx.command_path if fault.ctx else "provender"
            hint = f"`{where} --help` says what can be given."
            error = {"type": "UsageError", "message": fault.format_message(), "where": where}
            Output(json=True, quiet=False, verbose=False).document(
                {"error": {**error, "hint": hint, "facts": {}}}
            )
        return int(fault.exit_code)
