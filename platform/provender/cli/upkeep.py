"""``verify``, ``doctor`` and ``retract``: keeping versions trustworthy."""

from __future__ import annotations

from typing import Annotated

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column, state_style
from provender.cli.units import bytes_text, counted, time_text
from provender.errors import DamageError

_UNHEALTHY = 1


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "verify", "provender verify xsum:1.0.0 --quick")(verify)
    command(app, "doctor", "provender doctor --fix")(doctor)
    command(
        app,
        "retract",
        'provender retract xsum:1.0.0 --reason "labels shifted" --successor xsum:1.0.1',
    )(retract)


def verify(
    call: Invocation,
    ref: p.Ref,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep/--quick", help="Read and hash every byte, or only look at sizes and identities."
        ),
    ] = True,
) -> int:
    """Check that a version's files are what was published. Exits with 6 if they are not."""
    from provender.cli.references import version_of
    from provender.cli.transfers import byte_bar
    from provender.upkeep import verify as run_verify

    version = version_of(call, ref)
    with byte_bar(call, "verify") as progress:
        report = run_verify(call.catalog, call.store, version, deep=deep, progress=progress)
    exit_code = 0 if report.ok else DamageError.exit_code
    if call.json:
        call.out.document({"version": version.name, **report.to_json()})
        return exit_code
    shown = [each for each in report.files if call.verbose or each.state != "ok"]
    if shown:
        columns = [
            Column("file"),
            Column("state", style=state_style),
            Column("what", wraps=True),
        ]
        call.out.table(columns, [(each.name, each.state, each.detail) for each in shown])
    good = sum(each.state == "ok" for each in report.files)
    read = f", {bytes_text(report.bytes_read)} read" if deep else ", sizes and identities only"
    call.out.remark(f"{version.name}: {good} of {counted(len(report.files), 'file')} ok{read}.")
    if not report.ok:
        call.out.remark(f"`provender build {version.name}` puts back what is missing or damaged.")
    return exit_code


def doctor(
    call: Invocation,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended.")] = False,
) -> int:
    """Look for what is wrong with settings, catalog and store. Exits with 1 if something does not work."""
    from provender.upkeep import examine

    findings = examine(call.settings, call.catalog, call.store, fix=fix)
    open_ones = [each for each in findings if not each.fixed]
    exit_code = _UNHEALTHY if any(each.level == "error" for each in open_ones) else 0
    if call.json:
        call.out.document(findings)
        return exit_code
    if not findings:
        call.out.remark("All is well.")
        return 0
    columns = [
        Column("level", style=state_style),
        Column("kind"),
        Column("what", wraps=True),
        Column("next", wraps=True),
    ]
    rows = [
        (
            "fixed" if each.fixed else each.level,
            each.kind,
            f"{each.what}\n{each.where}" if each.where else each.what,
            "" if each.fixed else each.hint or "",
        )
        for each in findings
    ]
    call.out.table(columns, rows)
    if not fix and any(each.fixable for each in open_ones):
        call.out.remark("`provender doctor --fix` mends what can be mended.")
    return exit_code


def retract(
    call: Invocation,
    ref: p.Ref,
    reason: Annotated[
        str,
        typer.Option(
            "--reason", metavar="TEXT", help="What is wrong; everyone who asks for it reads this."
        ),
    ] = "",
    successor: Annotated[
        str | None,
        typer.Option("--successor", metavar="REF", help="The version to use instead."),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Publish a retracted version again, as it was.")
    ] = False,
) -> None:
    """Take a published version back. Its record and files stay, its number becomes free."""
    from provender.cli.references import version_of
    from provender.upkeep import retract as run_retract

    version = version_of(call, ref)
    if undo:
        again = call.catalog.reinstate(version.id)
        if call.json:
            call.out.document(again)
        else:
            call.out.line(f"{again.name} is published again.")
            if version.removed is not None:
                remark = f"Its files were removed: `provender build {again.name}` makes them again."
                call.out.remark(remark)
        return
    instead = version_of(call, successor, retracted=False) if successor else None
    found = run_retract(call.catalog, version, reason, successor=instead)
    if call.json:
        call.out.document(found)
        return
    if version.status == "retracted":
        when = f"{time_text(found.retracted)} UTC by {found.retracted_by}"
        call.out.line(f"{found.name} was retracted before, {when}: {found.retract_reason}")
        call.out.remark("That stays as it is; --undo first, to say something else.")
        return
    call.out.line(f"{found.name} is retracted: {found.retract_reason}")
    if instead is not None:
        call.out.remark(f"Its aliases point to {instead.name} now.")
