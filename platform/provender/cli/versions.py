"""``versions`` and ``show``: what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.completion import complete_tag
from provender.cli.invocation import Invocation
from provender.cli.tables import Column, state_style
from provender.cli.units import bytes_text, short_id, time_text
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provender.catalog import CheckRecord, VersionRecord


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "show", "provender show xsum", "provender show xsum@golden --json")(show)
    command(app, "versions", "provender versions xsum", "provender versions --tag reviewed")(
        versions
    )


def versions(
    call: Invocation,
    ref: p.OptionalRef = None,
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag", metavar="NAME", help="Only those with it.", autocompletion=complete_tag
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="At most so many; 0 for all of them.")
    ] = 1000,
) -> None:
    """List versions, newest first, with their sizes, aliases and tags."""
    dataset, config, number = None, None, None
    if ref is not None:
        from provender.cli.references import known_dataset, version_of

        dataset, config = known_dataset(call, ref)
        asked = DatasetRef.parse(ref)
        if asked.version or asked.alias:
            number = version_of(call, ref).version
    # One more than asked for tells whether there are more.
    found = call.catalog.version_summaries(
        dataset, config=config, number=number, tag=tag, limit=limit + 1 if limit else None
    )
    cut = bool(limit) and len(found) > limit
    found = found[:limit] if cut else found
    if call.json:
        call.out.document(found)
        return
    if not found:
        from provender.cli.naming import no_tag

        none = "There is no version yet. `provender build REF` makes one."
        call.out.remark(none if tag is None else no_tag(call, tag))
        return
    columns = [
        Column("version"),
        Column("status", style=state_style),
        Column("examples", right=True),
        Column("size", right=True),
        Column("aliases"),
        Column("tags"),
        Column("created (UTC)"),
        Column("fingerprint"),
    ]
    rows = [
        (
            each.name,
            each.status,
            f"{each.examples:,}",
            bytes_text(each.bytes),
            ", ".join(each.aliases),
            ", ".join(each.tags),
            time_text(each.created),
            each.fingerprint[:12],
        )
        for each in found
    ]
    call.out.table(columns, rows)
    if cut:
        call.out.remark(f"Cut off after {limit:,}; --limit raises that, --limit 0 lifts it.")


def show(call: Invocation, ref: p.Ref) -> None:
    """Show one version in full. Splits, sizes, aliases, features, path, and what it came from."""
    from provender.cli.references import version_of

    version = version_of(call, ref)
    inputs = call.questions.inputs(version.id)
    if call.json:
        from provender.cli.documents import plain

        held = call.catalog.leases(version.id)
        more = {"inputs": inputs, "checks": _judged(call, version), "leases": held}
        call.out.document({**plain(version), **more})
        return
    call.out.line(f"{version.name}  {version.status}", style="bold")
    call.out.pairs(_facts(call, version))
    call.out.line()
    columns = [
        Column("split"),
        Column("examples", right=True),
        Column("size", right=True),
        Column("shards", right=True),
    ]
    rows = [
        (each.name, f"{each.examples:,}", bytes_text(each.bytes), str(each.shards or ""))
        for each in version.splits
    ]
    rows.append(("in all", f"{version.examples:,}", bytes_text(version.bytes), ""))
    call.out.table(columns, rows)
    call.out.line()
    call.out.table([Column("feature"), Column("type", wraps=True)], _features(version.features))
    show_checks(call, [each for each in _judged(call, version) if each.state != "passed"])
    if inputs:
        call.out.line()
        columns = [Column("made from", wraps=True), Column("size", right=True), Column("sha256")]
        call.out.table(
            columns,
            [
                (each.name, bytes_text(each.size), each.digest[: 64 if call.verbose else 16])
                for each in inputs
            ],
        )


def _judged(call: Invocation, version: VersionRecord) -> list[CheckRecord]:
    """What the checks found when the version was published."""
    return call.catalog.checks(run_id=version.run_id) if version.run_id else []


def show_checks(call: Invocation, found: Sequence[CheckRecord]) -> None:
    """A table of checks that did not simply pass; nothing where there is none."""
    if not found:
        return
    call.out.line()
    columns = [
        Column("check"),
        Column("state", style=state_style),
        Column("found", wraps=True),
        Column("allowed by"),
        Column("because", wraps=True),
    ]
    call.out.table(
        columns,
        [
            (
                f"{each.name} {each.scope}".rstrip(),
                each.state,
                each.message,
                each.allowed_by or "",
                each.allow_reason or "",
            )
            for each in found
        ],
    )


def _checks_text(found: Sequence[CheckRecord]) -> str:
    states = [each.state for each in found]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))


def _readers_text(call: Invocation, version: VersionRecord) -> str:
    held = call.catalog.leases(version.id)
    shown = "; ".join(str(each.owner) for each in held[:3])
    return shown + (f"; and {len(held) - 3} more" if len(held) > 3 else "")


def _facts(call: Invocation, version: VersionRecord) -> list[tuple[str, str]]:
    retracted = ""
    if version.retracted:
        retracted = f"{time_text(version.retracted)} by {version.retracted_by}"
    successor = call.catalog.version_by_id(version.successor_id) if version.successor_id else None
    spec = version.info.get("spec", {})
    return [
        ("path", version.uri),
        ("aliases", ", ".join(version.aliases)),
        ("tags", ", ".join(each.tag for each in call.catalog.tags(version_id=version.id))),
        ("builder", str(spec.get("source", ""))),
        ("created", f"{time_text(version.created)} UTC"),
        ("fingerprint", version.fingerprint),
        ("run", short_id(version.run_id)),
        ("retracted", retracted),
        ("reason", version.retract_reason or ""),
        ("use instead", successor.name if successor else ""),
        ("files removed", f"{time_text(version.removed)} UTC" if version.removed else ""),
        ("checks", _checks_text(_judged(call, version))),
        ("read by", _readers_text(call, version)),
    ]


def _features(features: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Feature name -> type in short, from TFDS's features.json; nested features are indented."""
    from provender.questions.schema import fields_of

    rows: list[tuple[str, str]] = []

    def walk(fields: list[dict[str, Any]], depth: int) -> None:
        for field in fields:
            rows.append((f"{'  ' * depth}{field['name']}", field["type"]))
            walk(field.get("fields", []), depth + 1)

    walk(fields_of(features), 0)
    return rows
