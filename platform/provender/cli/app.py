"""The program: its top level, and the command groups that hang from it."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from provender.cli import (
    building,
    database,
    explaining,
    history,
    project,
    reading,
    upkeep,
    versions,
)
from provender.cli.commands import META, SHARED, epilog

app = typer.Typer(
    name="provender",
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
    epilog=epilog("provender build digits", "provender show digits"),
)(_top)

for _group in (project, building, explaining, versions, history, reading, upkeep, database):
    _group.register(app)
