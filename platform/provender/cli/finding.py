"""``search`` and ``as-of``: what there is, and what it was called."""

from __future__ import annotations

from typing import Annotated

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column, state_style
from provender.cli.units import bytes_text, time_text
from provender.errors import SettingsError


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "search", "provender search handwritten digits")(search)
    command(app, "as-of", 'provender as-of xsum@golden "2026-03-01 12:00"')(as_of)


def search(
    call: Invocation,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD...",
            help="Words, or their beginnings; a dataset is found if it has all of them.",
            show_default=False,
        ),
    ],
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, best first.")] = 20,
) -> None:
    """Find datasets by name, alias, tag, feature, split, licence, job, address or description."""
    text = " ".join(words)
    if not text.strip():
        raise SettingsError("There is no word to look for.", where="search")
    found = call.questions.search(text, limit=limit)
    if call.json:
        call.out.document({"hits": found, "truncated": found.more})
        return
    if not found:
        call.out.remark(f"Nothing has all of: {text}")
        return
    columns = [
        Column("version"),
        Column("status", style=state_style),
        Column("found in"),
        Column("text", wraps=True),
    ]
    rows = []
    for hit in found:
        shown = hit.matches if call.verbose else hit.matches[:1]
        for place, match in enumerate(shown):
            name = (hit.name, hit.status or "") if place == 0 else ("", "")
            rows.append((*name, match.field, " ".join(match.text.split())))
    call.out.table(columns, rows)
    if found.more:
        call.out.remark(f"Cut off after {limit}; --limit raises that, and more words narrow it.")


def as_of(
    call: Invocation,
    ref: p.Ref,
    time: Annotated[
        str,
        typer.Argument(
            metavar="TIME",
            help="2026-03-01, '2026-03-01 12:30' or 2026-03-01T12:30:00+01:00; UTC if no zone.",
            show_default=False,
        ),
    ],
) -> None:
    """Say which version a reference meant at some time."""
    found = call.questions.as_of(ref, time)
    if call.json:
        call.out.document(found)
        return
    call.out.line(f"{found.version.name}  {found.status}", style="bold")
    today = "" if found.version.status == found.status else f"{found.version.status} today"
    by = f" by {found.set_by}" if found.set_by else ""
    decided = {
        "alias": f"alias @{found.alias}, set {time_text(found.since)} UTC{by}",
        "number": "its number",
        "newest": "the newest published version then",
    }[found.how]
    call.out.pairs(
        [
            ("asked", f"{ref} on {time_text(found.at)} UTC"),
            ("decided by", decided),
            ("since", f"{time_text(found.since)} UTC"),
            ("until", f"{time_text(found.until)} UTC" if found.until else "now"),
            ("holds", f"{found.version.examples:,} examples, {bytes_text(found.version.bytes)}"),
            ("since then", today),
            ("path", found.version.uri),
        ]
    )
