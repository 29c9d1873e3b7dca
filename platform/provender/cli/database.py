"""``db``: the catalog's database itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provender.cli.commands import command, epilog
from provender.cli.invocation import Invocation
from provender.cli.parsing import Group
from provender.cli.units import bytes_text
from provender.errors import CatalogError


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    group = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="The catalog's database: its revision, updating it, backup and restore.",
        epilog=epilog("provender db status"),
    )
    command(group, "status", "provender db status")(status)
    command(group, "upgrade", "provender db upgrade --catalog postgresql+psycopg://host/provender")(
        upgrade
    )
    command(group, "check", "provender db check")(check)
    command(group, "backup", "provender db backup catalog-2026-03-01.backup")(backup)
    command(
        group,
        "restore",
        "provender db restore catalog-2026-03-01.backup --catalog restored.db",
    )(restore)
    app.add_typer(group, name="db")


def _where(call: Invocation) -> str:
    """The catalog's address without its password."""
    from provender.catalog.engine import masked, parse_url

    return masked(parse_url(call.settings.catalog))


def status(call: Invocation) -> int:
    """Say which revision the catalog has and which is wanted. Changes nothing."""
    from provender.catalog import db
    from provender.catalog.revisions import MENDED_BY, age

    now, wanted = db.current_revision(call.settings.catalog), db.head_revision()
    state = "empty" if now is None else age(now)
    if call.json:
        doc = {"catalog": _where(call), "revision": now, "wanted": wanted, "state": state}
        call.out.document(doc)
    else:
        call.out.pairs(
            [
                ("catalog", _where(call)),
                ("revision", now or "none"),
                ("wanted", wanted),
                ("state", state),
            ]
        )
        if state == "empty":
            call.out.remark("The first build fills it, or `provender db upgrade`.")
        elif state != "current":
            call.out.remark(MENDED_BY[state])
    return 0 if state == "current" else CatalogError.exit_code


def upgrade(call: Invocation) -> None:
    """Bring the catalog's schema to this program's revision. Stop older programs first."""
    from provender.catalog import db

    before, after = db.upgrade(call.settings.catalog)
    if call.json:
        call.out.document({"catalog": _where(call), "before": before, "after": after})
    elif before == after:
        call.out.line(f"{_where(call)} is at {after} already.")
    else:
        call.out.line(f"{_where(call)}: {before or 'empty'} -> {after}")


def check(call: Invocation) -> int:
    """Compare the tables with what this program expects. Exits with 7 if they differ."""
    from provender.catalog import db

    differences = db.check(call.settings.catalog)
    if call.json:
        call.out.document({"catalog": _where(call), "differences": differences})
    elif not differences:
        call.out.remark(f"{_where(call)} is as it should be.")
    for each in differences:
        call.out.line(each)
    return CatalogError.exit_code if differences else 0


def backup(
    call: Invocation,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; it must not be there yet.")
    ],
) -> None:
    """Write a copy of the catalog, as of one moment. Builds and readers go on meanwhile.

    For PostgreSQL this runs pg_dump. What the store holds is not part of it.
    """
    from provender.catalog import copies

    revision = copies.backup(call.settings.catalog, file)
    size = file.stat().st_size
    if call.json:
        doc = {"catalog": _where(call), "file": str(file), "revision": revision, "bytes": size}
        call.out.document(doc)
    else:
        call.out.line(f"{file}: {bytes_text(size)}, revision {revision}")


def restore(
    call: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `db backup` wrote.")],
) -> None:
    """Make a catalog from a backup, where there is none yet: a new file, or an empty database."""
    from provender.catalog import copies
    from provender.catalog.revisions import MENDED_BY, age

    revision = copies.restore(call.settings.catalog, file)
    if call.json:
        call.out.document({"catalog": _where(call), "file": str(file), "revision": revision})
        return
    call.out.line(f"{_where(call)}: revision {revision}")
    if age(revision) != "current":
        call.out.remark(MENDED_BY[age(revision)])
    call.out.remark("`provender verify NAME` compares a version's files with it.")
