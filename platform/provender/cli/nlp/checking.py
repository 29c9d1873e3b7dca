"""``nlp check-loader``: whether a data loader works from its configuration alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column
from provender.cli.units import counted
from provender.errors import ChecksFailed, SettingsError

if TYPE_CHECKING:
    from provender.nlp.checking import Output, Report

_DEFAULT_BATCHES = 8


def register(group: typer.Typer) -> None:
    """Adds the command."""
    command(
        group,
        "check-loader",
        "provender nlp check-loader tagging.yaml --loader tagging",
        "provender nlp check-loader mine.yaml --loader my_loader.py:MyDataConfig --json",
    )(check_loader)


def check_loader(
    call: Invocation,
    config: Annotated[
        str,
        typer.Argument(metavar="CONFIG", help="YAML or JSON file with the loader's configuration."),
    ],
    loader: Annotated[
        str,
        typer.Option(
            "--loader",
            metavar="NAME",
            help="A registered name (bert_pretrain, wmt, ...), package.module:Class or "
            "file.py:Class, of the configuration or its data loader.",
        ),
    ],
    batches: Annotated[
        int, typer.Option("--batches", metavar="N", help="Batches to look at.")
    ] = _DEFAULT_BATCHES,
    code: Annotated[
        list[str] | None,
        typer.Option(
            "--code", metavar="FOLDER", help="Import the loader's code from here, too. Repeatable."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME",
            help="Hand this environment variable on; credentials, say. Repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Give up after so long.")
    ] = 600.0,
) -> int:
    """Run a data loader in a bare process and compare its first batches with what it declares.

    The process has an empty working directory, an empty home and hardly any environment, as a TPU
    worker would. Exits with 9 if anything is wrong.
    """
    from provender.nlp.checking import Asked, check_loader
    from provender.nlp.config.documents import read_document

    values = read_document(config)
    environ = _environment(env or [])
    if values.get("version"):
        # Where published versions are is the installation's to say, not the loader's.
        found = call.settings
        environ = {
            "PROVENDER_HOME": str(found.home),
            "PROVENDER_STORE": str(found.store),
            "PROVENDER_CATALOG": str(found.catalog),
            **environ,
        }
    asked = Asked(loader, values, batches, tuple(code or ()), environ, timeout)
    report = check_loader(asked)
    if call.json:
        call.out.document(report.to_json())
    else:
        _show(call, report)
    return 0 if report.ok else ChecksFailed.exit_code


def _environment(names: list[str]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise SettingsError(
            f"{', '.join(missing)} is not set here.", where="--env", hint="Export it first."
        )
    return {name: os.environ[name] for name in names}


def _show(call: Invocation, report: Report) -> None:
    if report.outputs:
        columns = [
            Column("output"),
            Column("declared"),
            Column("given"),
            Column("least", right=True),
            Column("greatest", right=True),
        ]
        call.out.table(columns, [_cells(each) for each in report.outputs])
    for each in report.findings:
        place = f" {each.where}:" if each.where else ""
        call.out.line(f"{each.severity}: {each.step}:{place} {each.message}")
        if each.hint:
            call.out.line(f"  next: {each.hint}")
    name = report.loader or report.config or "the loader"
    seen = f"{report.batches:,} batch{'' if report.batches == 1 else 'es'}, {counted(report.rows, 'row')}"
    verdict = "works from its configuration alone" if report.ok else "does not pass"
    call.out.remark(f"{name}: {seen}; {verdict}.")


def _cells(output: Output) -> tuple[str, ...]:
    limits = ("" if each is None else f"{each:g}" for each in (output.least, output.greatest))
    return (output.name, output.declared or "-", output.given, *limits)
