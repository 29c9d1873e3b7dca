"""``cache``: what the transform cache holds, why it was computed, and making room."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli.commands import command, epilog
from provender.cli.invocation import Invocation
from provender.cli.parsing import Group
from provender.cli.tables import Column, state_style
from provender.cli.units import bytes_text, counted, seconds_text, time_text
from provender.errors import DamageError, SettingsError, UnknownReference

if TYPE_CHECKING:
    from provender.data.cache import Recipe, TransformCache
    from provender.data.cache.upkeep import Listed
    from provender.fingerprint import Tree

_SHOWN_DIGITS = 12
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

Fingerprint = Annotated[
    str,
    typer.Argument(metavar="FINGERPRINT", help="An entry, by its fingerprint or its first digits."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    group = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="The transform cache: results of map, filter and the like, kept by fingerprint.",
        epilog=epilog("provender cache ls"),
    )
    command(group, "ls", "provender cache ls", "provender cache ls --json")(ls)
    command(
        group,
        "rm",
        "provender cache rm 3f0c9a12",
        "provender cache rm --older-than 30d --dry-run",
        "provender cache rm --to-size 10GB",
    )(rm)
    command(group, "why", "provender cache why 3f0c9a12")(why)
    command(group, "verify", "provender cache verify", "provender cache verify 3f0c --fix")(verify)
    app.add_typer(group, name="cache")


def _cache(call: Invocation) -> TransformCache:
    from provender.data.cache import TransformCache

    found = call.settings
    return TransformCache(found.cache, limit=found.cache_limit, catalog=found.catalog)


def ls(call: Invocation) -> None:
    """List the entries, the most recently used first."""
    from provender.data.cache.upkeep import listed

    cache = _cache(call)
    entries = listed(cache)
    total = sum(each.bytes for each in entries)
    waiting = cache.unsent()
    if call.json:
        call.out.document(
            {
                "folder": cache.root,
                "limit": cache.limit,
                "bytes": total,
                "unsent_records": waiting,
                "entries": [_document(each) for each in entries],
            }
        )
        return
    if entries:
        columns = [
            Column("fingerprint"),
            Column("transform"),
            Column("dataset"),
            Column("rows", right=True),
            Column("size", right=True),
            Column("last used (UTC)"),
            Column("state", style=state_style),
        ]
        call.out.table(columns, [_cells(call, each) for each in entries])
    limit = "no limit" if cache.limit is None else f"limit {bytes_text(cache.limit)}"
    count = f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"
    call.out.remark(f"{count}, {bytes_text(total)} ({limit}) in {cache.root}")
    if waiting:
        call.out.remark(f"{counted(waiting, 'record')} of lineage wait for the catalog.")


def _cells(call: Invocation, entry: Listed) -> tuple[str, ...]:
    recipe = entry.recipe
    return (
        entry.fingerprint if call.verbose else entry.fingerprint[:_SHOWN_DIGITS],
        recipe.title if recipe else "",
        _dataset(recipe),
        "" if entry.rows is None else f"{entry.rows:,}",
        bytes_text(entry.bytes),
        time_text(_when(entry.used)),
        entry.state,
    )


def _dataset(recipe: Recipe | None) -> str:
    if recipe is None:
        return ""
    return f"{recipe.dataset}/{recipe.config}" if recipe.config else recipe.dataset


def _document(entry: Listed) -> dict[str, Any]:
    recipe = entry.recipe
    return {
        "fingerprint": entry.fingerprint,
        "folder": entry.folder,
        "state": entry.state,
        "rows": entry.rows,
        "bytes": entry.bytes,
        "used": _when(entry.used),
        "created": None if entry.created is None else _when(entry.created),
        **(recipe.to_json() if recipe else {}),
    }


def _when(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def rm(
    call: Invocation,
    fingerprints: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FINGERPRINT]...", help="Entries, by their first digits."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all entries.")] = False,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="Those not used for so long: 12h, 30d, 4w."
        ),
    ] = "",
    to_size: Annotated[
        str,
        typer.Option(
            "--to-size",
            metavar="SIZE",
            help="The least recently used, until so much is left: 10GB.",
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
    ] = False,
) -> None:
    """Remove entries. Those that a live process uses or writes stay."""
    from provender.data.cache.upkeep import evict

    cache = _cache(call)
    wanted = _wanted(cache, fingerprints or [], every, older_than, to_size)
    removed: list[Listed] = []
    kept: list[Listed] = []
    for each in wanted:
        free = each.state in ("ready", "unfinished")
        gone = free and (dry_run or evict(cache, each.fingerprint))
        (removed if gone else kept).append(each)
    total = sum(each.bytes for each in removed)
    if call.json:
        call.out.document(
            {
                "dry_run": dry_run,
                "bytes": total,
                "removed": [_document(each) for each in removed],
                "kept": [_document(each) for each in kept],
            }
        )
        return
    verb = "would be removed" if dry_run else "removed"
    for each in removed:
        title = f"  {each.recipe.title}" if each.recipe else ""
        call.out.line(
            f"{each.fingerprint[:_SHOWN_DIGITS]}{title}  {bytes_text(each.bytes)}  {verb}"
        )
    for each in kept:
        call.out.line(
            f"{each.fingerprint[:_SHOWN_DIGITS]}  kept: a live process has it {_HAS[each.state]}"
        )
    count = f"{len(removed):,} {'entry' if len(removed) == 1 else 'entries'}"
    call.out.remark(f"{count} {verb}, {bytes_text(total)}.")


_HAS = {"in use": "in use", "writing": "in work", "ready": "in use", "unfinished": "in work"}


def _wanted(
    cache: TransformCache, names: list[str], every: bool, older_than: str, to_size: str
) -> list[Listed]:
    from provender.data.cache.upkeep import listed, named

    ways = [bool(names), every, bool(older_than), bool(to_size)]
    if sum(ways) != 1:
        message = "Say what to remove, in one way: fingerprints, --all, --older-than or --to-size."
        raise SettingsError(message, where="provender cache rm")
    entries = listed(cache)
    if names:
        meant = {named(cache, each) for each in names}
        return [each for each in entries if each.fingerprint in meant]
    if every:
        return entries
    if older_than:
        limit = time.time() - _age(older_than)
        return [each for each in entries if each.used < limit]
    return _above(entries, _size(to_size))


def _above(entries: list[Listed], size: int) -> list[Listed]:
    """The least recently used of those that can go, until what is left fits."""
    left = sum(each.bytes for each in entries)
    found: list[Listed] = []
    for each in reversed(entries):
        if left <= size:
            break
        if each.state in ("ready", "unfinished"):
            found.append(each)
            left -= each.bytes
    return found


def _age(text: str) -> float:
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        message = f"--older-than must be an age, got {text!r}."
        raise SettingsError(message, where="--older-than", hint="Write 12h, 30d or 4w.")
    return float(found[1]) * _SECONDS[found[2]]


def _size(text: str) -> int:
    from provender.settings import parse_size

    size = parse_size(text)
    if size is None:
        message = f"--to-size must be a size, got {text!r}."
        raise SettingsError(message, where="--to-size", hint="Write 10GB, 500MiB or 0.")
    return size


def why(
    call: Invocation,
    fingerprint: Fingerprint,
    other: Annotated[
        str | None,
        typer.Argument(metavar="[OTHER]", help="An entry to compare with instead."),
    ] = None,
) -> None:
    """Say why a result was computed: what changed against the nearest earlier one of its kind."""
    doc, tree = _explained(call, fingerprint)
    if other is not None:
        compared, old = _explained(call, other)
        doc["compared"] = compared["fingerprint"]
        doc["reasons"] = _differences(old, tree, compared["fingerprint"], doc["fingerprint"])
    from provender.data.cache.work import told

    doc["why"] = told(doc["reasons"])
    if call.json:
        call.out.document(doc)
        return
    title = f"{doc['transform']}({doc['name']})" if doc["name"] else doc["transform"]
    call.out.pairs(
        [
            ("fingerprint", doc["fingerprint"]),
            ("state", doc["state"]),
            ("transform", title),
            ("dataset", "/".join(each for each in (doc["dataset"], doc["config"]) if each)),
            ("made from", ", ".join(doc["parents"])),
            ("parameters", ", ".join(f"{k}={v}" for k, v in doc["parameters"].items())),
            ("computed", time_text(doc["created"])),
            ("took", seconds_text(doc["seconds"])),
            ("on", doc["host"]),
            ("compared with", doc["compared"] or ""),
        ]
    )
    call.out.line()
    for line in doc["why"] or ["nothing differs"]:
        call.out.line(line)


def _differences(old: Tree | None, new: Tree | None, *digests: str) -> list[dict[str, Any]]:
    from provender.fingerprint import Change, explain

    if old is None or new is None:
        return [Change(("fingerprint",), "changed", *digests).to_json()]
    return [each.to_json() for each in explain(old, new)]


def _explained(call: Invocation, text: str) -> tuple[dict[str, Any], Tree | None]:
    """What is known of a result: from its entry, or from the catalog once that was evicted."""
    from provender.data.cache.manifest import Manifest, Why
    from provender.data.cache.upkeep import named

    cache = _cache(call)
    cache.send_lineage()
    try:
        fingerprint = named(cache, text)
    except UnknownReference as error:
        return _remembered(call, text, error)
    folder = str(cache.entry_folder(fingerprint))
    manifest = Manifest.read(folder, fingerprint)
    about = Why.read(folder) or Why()
    recipe = manifest.recipe if manifest else about.recipe
    if recipe is None:
        hint = "Run the transform again: it goes on where it stopped."
        unknown = UnknownReference(
            f"The entry {fingerprint} is not finished.", where=folder, hint=hint
        )
        return _remembered(call, fingerprint, unknown)
    doc = {
        "fingerprint": fingerprint,
        "state": "ready" if manifest else "unfinished",
        **recipe.to_json(),
        "created": _when(manifest.created) if manifest else None,
        "seconds": manifest.seconds if manifest else None,
        "host": manifest.host if manifest else "",
        "rows": manifest.rows if manifest else None,
        "compared": about.compared,
        "reasons": [dict(each) for each in about.reasons],
    }
    return doc, about.tree


def _remembered(
    call: Invocation, text: str, unknown: UnknownReference
) -> tuple[dict[str, Any], Tree | None]:
    from provender.fingerprint import Tree

    text = text.lower()
    found = call.catalog.find_stage(text)
    if found is None:
        stages = call.catalog.stages(key="transform", limit=None)
        found = next((each for each in stages if each.fingerprint.startswith(text)), None)
    if found is None or not text:
        raise unknown
    tree = call.catalog.tree(found.fingerprint)
    _, transform, *name = found.key.split("/", 2)
    doc = {
        "fingerprint": found.fingerprint,
        "state": "failed" if found.state == "failed" else "removed",
        "transform": transform,
        "name": name[0] if name else "",
        "dataset": found.dataset,
        "config": found.config,
        "parents": list(found.result.get("parents", ())),
        "parameters": dict(found.result.get("parameters", {})),
        "created": found.finished,
        "seconds": found.seconds,
        "host": found.host.partition("~")[0],
        "rows": found.result.get("rows"),
        "compared": found.result.get("compared"),
        "reasons": [dict(each) for each in found.reason],
    }
    return doc, Tree.from_json(tree) if tree else None


def verify(
    call: Invocation,
    fingerprints: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FINGERPRINT]...", help="Only these; all by default."),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Remove damaged pieces; they alone are computed again.")
    ] = False,
) -> int:
    """Read every byte of the entries and compare it with what was written. Exits with 6 if it differs."""
    from provender.cli.transfers import byte_bar
    from provender.data.cache.upkeep import listed, named
    from provender.data.cache.upkeep import verify as reread

    cache = _cache(call)
    cache.send_lineage()
    names = [named(cache, each) for each in fingerprints or []]
    wanted = [
        each
        for each in listed(cache)
        if (not names or each.fingerprint in names) and each.state != "writing"
    ]
    found = []
    total = sum(each.bytes for each in wanted)
    with byte_bar(call, "verify") as progress:
        for each in wanted:
            found.append(reread(cache, each.fingerprint, fix=fix))
            if progress:
                progress(sum(one.bytes for one in found), total)
    bad = [each for each in found if each.state in ("damaged", "dropped")]
    exit_code = DamageError.exit_code if any(each.state == "damaged" for each in bad) else 0
    if call.json:
        call.out.document({"entries": found, "damaged": len(bad)})
        return exit_code
    titles = {each.fingerprint: each.recipe.title if each.recipe else "" for each in wanted}
    shown = found if call.verbose else bad
    if shown:
        columns = [
            Column("fingerprint"),
            Column("transform"),
            Column("state", style=state_style),
            Column("what", wraps=True),
        ]
        rows = [
            (
                each.fingerprint[:_SHOWN_DIGITS],
                titles[each.fingerprint],
                each.state,
                "\n".join(each.damaged),
            )
            for each in shown
        ]
        call.out.table(columns, rows)
    read = bytes_text(sum(each.bytes for each in found))
    call.out.remark(f"{len(found) - len(bad)} of {len(found)} entries ok, {read} read.")
    if exit_code:
        call.out.remark("`provender cache verify --fix` removes damaged pieces.")
    return exit_code
