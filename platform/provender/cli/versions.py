"""``versions`` and ``show``: what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column, state_style
from provender.cli.units import bytes_text, short_id, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provender.catalog import ArtifactRecord, VersionRecord

_INPUT_STAGES = ("manual", "download")


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "show", "provender show xsum", "provender show xsum@golden --json")(show)
    command(app, "versions", "provender versions xsum")(versions)


def versions(call: Invocation, ref: p.OptionalRef = None) -> None:
    """List versions, newest first, with their sizes and aliases."""
    if ref is None:
        found = call.catalog.versions()
    else:
        from provender.cli.references import known_dataset

        dataset, config = known_dataset(call, ref)
        found = call.catalog.versions(dataset, config=config)
    if call.json:
        call.out.document([_listed(each) for each in found])
        return
    if not found:
        call.out.remark("There is no version yet. `provender build REF` makes one.")
        return
    columns = [
        Column("version"),
        Column("status", style=state_style),
        Column("examples", right=True),
        Column("size", right=True),
        Column("aliases"),
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
            time_text(each.created),
            each.fingerprint[:12],
        )
        for each in found
    ]
    call.out.table(columns, rows)


def _listed(version: VersionRecord) -> dict[str, Any]:
    """A version for JSON, without what the builder wrote into it (`show` has that)."""
    from provender.cli.documents import plain

    doc: dict[str, Any] = plain(version)
    return {name: value for name, value in doc.items() if name not in ("info", "features")}


def show(call: Invocation, ref: p.Ref) -> None:
    """Show one version in full. Splits, sizes, aliases, features, path, and what it came from."""
    from provender.cli.references import version_of

    version = version_of(call, ref)
    inputs = _inputs(call, version)
    if call.json:
        from provender.cli.documents import plain

        call.out.document({**plain(version), "inputs": inputs})
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
    if inputs:
        call.out.line()
        columns = [Column("made from", wraps=True), Column("size", right=True), Column("sha256")]
        call.out.table(
            columns,
            [
                (
                    each["name"],
                    bytes_text(each["size"]),
                    each["digest"][: 64 if call.verbose else 16],
                )
                for each in inputs
            ],
        )


def _facts(call: Invocation, version: VersionRecord) -> list[tuple[str, str]]:
    retracted = ""
    if version.retracted:
        retracted = f"{time_text(version.retracted)} by {version.retracted_by}"
    successor = call.catalog.version_by_id(version.successor_id) if version.successor_id else None
    spec = version.info.get("spec", {})
    return [
        ("path", version.uri),
        ("aliases", ", ".join(version.aliases)),
        ("builder", str(spec.get("source", ""))),
        ("created", f"{time_text(version.created)} UTC"),
        ("fingerprint", version.fingerprint),
        ("run", short_id(version.run_id)),
        ("retracted", retracted),
        ("reason", version.retract_reason or ""),
        ("use instead", successor.name if successor else ""),
    ]


def _inputs(call: Invocation, version: VersionRecord) -> list[dict[str, Any]]:
    """What came from outside: every download and manual file behind the version."""
    graph = call.catalog.lineage(version.id, "up")
    stages = [
        call.catalog.stage(node.id)
        for node in graph.nodes
        if node.kind == "stage" and node.name.rpartition(":")[2] in _INPUT_STAGES
    ]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for stage in stages:
        for each in stage.outputs:
            found[each.name, each.digest] = _input(stage.stage, each)
        files: Mapping[str, Any] = stage.result.get("files", {}) if stage.stage == "manual" else {}
        for name, about in files.items():
            found[name, about["sha256"]] = {
                "kind": "manual",
                "name": name,
                "size": about["size"],
                "digest": about["sha256"],
            }
    return list(found.values())


def _input(kind: str, artifact: ArtifactRecord) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": artifact.name,
        "size": artifact.size,
        "digest": artifact.digest,
    }


def _features(features: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Feature name -> type in short, from TFDS's features.json; nested features are indented."""
    rows: list[tuple[str, str]] = []

    def walk(doc: Mapping[str, Any], depth: int) -> None:
        inner = (doc.get("featuresDict") or {}).get("features") or {}
        for name, about in inner.items():
            kind = str(about.get("pythonClassName", "")).rpartition(".")[2]
            rows.append((f"{'  ' * depth}{name}", f"{kind}{_detail(about)}"))
            nested = about.get("sequence", {}).get("feature") if "sequence" in about else about
            walk(nested or {}, depth + 1)

    walk(features, 0)
    return rows


def _detail(about: Mapping[str, Any]) -> str:
    """Shape, dtype, number of classes and the like, as far as the document tells."""
    parts: list[str] = []
    for name, value in about.items():
        if not isinstance(value, dict) or name in ("featuresDict", "sequence"):
            continue
        if dimensions := (value.get("shape") or {}).get("dimensions"):
            sizes = ["?" if size in ("-1", -1) else str(size) for size in dimensions]
            parts.append(f"({', '.join(sizes)})")
        if value.get("dtype"):
            parts.append(str(value["dtype"]))
        if value.get("numClasses"):
            parts.append(f"{value['numClasses']} classes")
        if value.get("encodingFormat"):
            parts.append(str(value["encodingFormat"]))
    inner = about.get("sequence", {}).get("feature", {})
    if inner.get("pythonClassName"):
        parts.append(f"of {str(inner['pythonClassName']).rpartition('.')[2]}{_detail(inner)}")
    return f" {' '.join(parts)}" if parts else ""
