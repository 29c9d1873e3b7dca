"""``pull`` and ``head``: a version's files, and its first examples."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column
from provender.cli.units import bytes_text, counted, seconds_text

_CELL = 200


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "pull", "provender pull xsum:1.0.0 /data/xsum --workers 16")(pull)
    command(app, "head", "provender head xsum --split test -n 3")(head)


def pull(
    call: Invocation,
    ref: p.Ref,
    dest: Annotated[
        str, typer.Argument(metavar="DEST", help="Data directory; files go to DEST/name/version.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Check every file after it was copied.")
    ] = True,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Files copied at once.")] = 8,
) -> None:
    """Copy a version into a data directory, where TFDS finds it. What is there is not copied again."""
    import time

    from provender.cli.references import version_of
    from provender.cli.transfers import byte_bar
    from provender.training import pull as run_pull

    call.resumes = True
    version = version_of(call, ref, retracted=False)
    began = time.monotonic()
    with byte_bar(call, "pull") as progress:
        report = run_pull(
            call.store,
            version,
            dest,
            catalog=call.catalog,
            verify=verify,
            workers=workers,
            progress=progress,
        )
    if call.json:
        from provender.cli.documents import plain

        call.out.document({"version": version.name, **plain(report)})
    elif call.quiet:
        call.out.line(str(report.dest))
    else:
        skipped = f", {report.skipped} there already" if report.skipped else ""
        call.out.pairs(
            [
                ("version", version.name),
                ("path", str(report.dest)),
                ("copied", f"{counted(report.files, 'file')}, {bytes_text(report.bytes)}{skipped}"),
                ("time", seconds_text(time.monotonic() - began)),
            ]
        )


def head(
    call: Invocation,
    ref: p.Ref,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="By default the first split.")
    ] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many examples.")] = 5,
) -> None:
    """Show the first examples of a version, decoded."""
    from provender.cli.references import version_of
    from provender.training import head as run_head

    version = version_of(call, ref, retracted=False)
    with call.catalog.lease(version.id, "head", wait=0):
        examples = run_head(call.store, version, split, count)
    if call.json:
        call.out.document(examples)
        return
    for i, example in enumerate(examples):
        if i:
            call.out.line()
        rows = [(name, _text(value, call.verbose)) for name, value in _flat(example)]
        call.out.table([Column(f"example {i}"), Column("value", wraps=True)], rows)


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, each in value.items():
        if isinstance(each, dict) and each:
            rows += _flat(each, f"{prefix}{name}/")
        else:
            rows.append((f"{prefix}{name}", each))
    return rows


def _text(value: Any, whole: bool) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    if whole or len(text) <= _CELL:
        return text
    return f"{text[:_CELL]}… ({len(text):,} characters)"
