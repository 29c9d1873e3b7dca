"""``gc`` and ``leases``: what may go, and who needs what."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column, state_style
from provender.cli.units import bytes_text, counted, iso, seconds_text, time_text
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.catalog import ClaimRecord
    from provender.upkeep.gc import GcReport
    from provender.upkeep.gc_items import Item

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PLACES = ("build/", "stage/", "gc/", "remove/")


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "gc", "provender gc --dry-run", "provender gc --apply --grace 30d --keep 3")(gc)
    command(app, "leases", "provender leases", "provender leases xsum:1.0.0")(leases)


def gc(
    call: Invocation,
    apply: Annotated[bool, typer.Option("--apply", help="Remove what is listed.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be removed (the default).")
    ] = False,
    grace: Annotated[
        str,
        typer.Option("--grace", metavar="SPAN", help="Keep what is younger: 12h, 7d, 4w."),
    ] = "7d",
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="N",
            min=1,
            help="Also retract and remove published versions beyond the N newest of their dataset "
            "that have no alias and that nobody reads.",
        ),
    ] = None,
) -> None:
    """Remove from the store what nothing needs: old trials, retracted versions, pieces of builds.

    Never removes what a live reader leases or a running build uses.
    """
    from provender.upkeep.gc import collect, sweep

    if apply and dry_run:
        raise SettingsError("Give --apply or --dry-run, not both.", where="--apply --dry-run")
    span = _span(grace)
    if not apply:
        report = collect(call.settings, call.catalog, call.store, grace=span, keep=keep)
    else:
        call.resumes = True
        report = sweep(
            call.settings,
            call.catalog,
            call.store,
            grace=span,
            keep=keep,
            tell=lambda item: _tell(call, item),
            on_wait=lambda held: call.out.remark(f"wait: {held.owner} does the same"),
        )
    if call.json:
        call.out.document(report.to_json())
        return
    _summarise(call, report)


def _span(text: str) -> timedelta:
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise SettingsError(
            f"{text!r} is no span of time.",
            where="--grace",
            hint="A number and a unit: 90s, 30m, 12h, 7d, 4w.",
        )
    return timedelta(seconds=float(found[1]) * _SECONDS[found[2]])


def _tell(call: Invocation, item: Item) -> None:
    if not call.json and not call.quiet:
        note = f" ({item.note})" if item.note else ""
        call.out.line(f"{item.state:<8} {item.kind:<9} {item.what}, {bytes_text(item.size)}{note}")


def _summarise(call: Invocation, report: GcReport) -> None:
    if not report.applied and report.items:
        columns = [
            Column("kind"),
            Column("what", wraps=True),
            Column("size", right=True),
            Column("why", wraps=True),
        ]
        rows = [
            (
                each.kind,
                f"{each.what}\n{each.where}" if call.verbose else each.what,
                bytes_text(each.size),
                each.why,
            )
            for each in report.items
        ]
        call.out.table(columns, rows)
        call.out.remark()
    if report.applied:
        text = f"{counted(report.count('removed'), 'thing')} removed, "
        text += f"{bytes_text(report.size('removed'))} freed"
        if report.count("kept"):
            text += f"; {report.count('kept')} kept, because they are in use"
        call.out.line(f"{text}.")
    elif report.items:
        call.out.line(
            f"{counted(len(report.items), 'thing')}, {bytes_text(report.size())}, would be removed. "
            "`provender gc --apply` removes them."
        )
    else:
        call.out.line("There is nothing to remove.")
    if report.left_alone:
        what = "were" if report.applied else "would be"
        call.out.remark(f"Downloads and pieces of builds {what} left alone: {report.left_alone}.")


def leases(call: Invocation, ref: p.OptionalRef = None) -> None:
    """List who reads which version, and who builds what, now."""
    from provender.cli.references import version_of

    version = version_of(call, ref) if ref is not None else None
    held = call.catalog.leases(version.id if version else None)
    read = call.catalog.summaries_by_id({each.version_id for each in held})
    names = {id: each.name for id, each in read.items()}
    claims = [] if version else [c for c in call.catalog.claims() if c.key.startswith(_PLACES)]
    if call.json:
        call.out.document(
            {
                "readers": [
                    {**_document(each), "version": names.get(each.version_id)} for each in held
                ],
                "claims": [_claim(each) for each in claims],
            }
        )
        return
    if not held and not claims:
        call.out.remark("Nobody reads or builds anything now.")
        return
    columns = [Column("what"), Column("does", style=state_style), Column("who", wraps=True)]
    columns += [Column("since (UTC)"), Column("runs out in", right=True)]
    rows = [
        (
            names.get(each.version_id, each.version_id),
            "reads",
            str(each.owner),
            time_text(each.acquired),
            seconds_text((each.expires - each.heartbeat).total_seconds()),
        )
        for each in held
    ]
    rows += [
        (
            each.key,
            "works",
            str(each.owner),
            time_text(each.acquired),
            seconds_text((each.expires - each.heartbeat).total_seconds()),
        )
        for each in claims
    ]
    call.out.table(columns, rows)


def _document(lease: Any) -> dict[str, Any]:
    owner = lease.owner
    return {
        "id": lease.id,
        "version_id": lease.version_id,
        "purpose": lease.purpose,
        "host": owner.host.partition("~")[0],
        "pid": owner.pid,
        "acquired": iso(lease.acquired),
        "heartbeat": iso(lease.heartbeat),
        "expires": iso(lease.expires),
    }


def _claim(claim: ClaimRecord) -> dict[str, Any]:
    owner = claim.owner
    return {
        "key": claim.key,
        "note": owner.note,
        "host": owner.host.partition("~")[0],
        "pid": owner.pid,
        "acquired": iso(claim.acquired),
        "heartbeat": iso(claim.heartbeat),
        "expires": iso(claim.expires),
    }
