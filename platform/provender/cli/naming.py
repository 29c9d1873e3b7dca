"""``alias`` and ``tag``: people's own names for versions."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated

import typer

from provender.cli import parameters as p
from provender.cli.commands import command, epilog
from provender.cli.completion import complete_reference, complete_tag
from provender.cli.invocation import Invocation
from provender.cli.parsing import Group
from provender.cli.tables import Column, state_style
from provender.cli.units import short_id, time_text
from provender.errors import ConflictError, SettingsError, UnknownReference
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.questions import VersionSummary

_AliasRef = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="A dataset, or name@alias for one alias.",
        autocompletion=complete_reference,
        show_default=False,
    ),
]
_Tags = Annotated[
    list[str],
    typer.Argument(metavar="TAG...", help="Tags.", autocompletion=complete_tag, show_default=False),
]


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    aliases = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Names that mean one version of a dataset at a time, and every move they made.",
        epilog=epilog("provender alias set xsum:1.0.0 golden"),
    )
    command(aliases, "set", "provender alias set xsum:1.0.0 golden")(alias_set)
    command(aliases, "ls", "provender alias ls xsum")(alias_ls)
    command(aliases, "rm", "provender alias rm xsum@golden")(alias_rm)
    command(aliases, "history", "provender alias history xsum@latest")(alias_history)
    app.add_typer(aliases, name="alias")
    tags = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Words on versions; many versions may bear one tag.",
        epilog=epilog("provender tag add xsum:1.0.0 reviewed"),
    )
    command(tags, "add", "provender tag add xsum:1.0.0 reviewed pii-free")(tag_add)
    command(tags, "rm", "provender tag rm xsum:1.0.0 reviewed")(tag_rm)
    command(tags, "ls", "provender tag ls xsum", "provender tag ls --tag reviewed")(tag_ls)
    app.add_typer(tags, name="tag")


def alias_set(
    call: Invocation,
    ref: p.Ref,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The alias, e.g. golden.", show_default=False)
    ],
) -> None:
    """Let an alias mean a version from now on."""
    version = call.questions.version(ref).summary
    if version.status in ("retracted", "replaced"):
        why = f": {version.retract_reason}" if version.retract_reason else "."
        raise ConflictError(
            f"{version.name} is {version.status}{why}",
            where=f"{version.name}",
            hint="Let the alias mean a version that still stands.",
        )
    before = call.catalog.aliases(version.dataset, version.config).get(name)
    call.catalog.set_alias(version.dataset, version.config, name, version.id)
    if call.json:
        call.out.document(
            {
                "alias": name,
                "version": version.name,
                "version_id": version.id,
                "before": before.version if before else None,
            }
        )
    elif before is not None and before.version_id == version.id:
        call.out.line(f"@{name} means {version.name} already.")
    else:
        was = f" (was {before.version})" if before else ""
        call.out.line(f"@{name} means {version.name}{was}")


def alias_ls(call: Invocation, ref: _AliasRef) -> None:
    """List what the aliases of a dataset mean."""
    found = call.questions.aliases(ref)
    asked = DatasetRef.parse(ref).alias
    if asked is not None:
        known = {each.name: each for each in found}
        if asked not in known:
            raise _unknown_alias(ref, asked, list(known))
        found = type(found)([known[asked]], found.kind)
    if call.json:
        call.out.document(found)
        return
    if not found:
        call.out.remark("It has no alias. `provender alias set REF NAME` sets one.")
        return
    columns = [Column("alias"), Column("version"), Column("set (UTC)"), Column("by")]
    rows = [(e.name, e.version, time_text(e.set_at), e.set_by) for e in found]
    call.out.table(columns, rows)


def alias_rm(call: Invocation, ref: _AliasRef) -> None:
    """Remove an alias. Its history stays."""
    asked = DatasetRef.parse(ref)
    if asked.alias is None:
        message = f"{ref!r} names no alias."
        raise SettingsError(message, where="alias rm", hint=f"Give {ref}@NAME.")
    from provender.questions.finding import dataset_of

    dataset, config = dataset_of(call.catalog, ref)
    known = call.catalog.aliases(dataset, config)
    if asked.alias not in known:
        raise _unknown_alias(ref, asked.alias, list(known))
    call.catalog.set_alias(dataset, config, asked.alias, None)
    meant = known[asked.alias]
    if call.json:
        call.out.document({"alias": asked.alias, "before": meant.version})
    else:
        call.out.line(f"@{asked.alias} is gone; it meant {meant.version}.")


def alias_history(call: Invocation, ref: _AliasRef) -> None:
    """List every move of a dataset's aliases, or of one of them, newest first."""
    alias = DatasetRef.parse(ref).alias
    found = call.questions.alias_history(ref, alias)
    if call.json:
        call.out.document(found)
        return
    columns = [
        Column("alias"),
        Column("to"),
        Column("when (UTC)"),
        Column("by"),
        Column("run"),
    ]
    rows = [
        (e.name, e.version or "(removed)", time_text(e.at), e.by, short_id(e.run_id)) for e in found
    ]
    call.out.table(columns, rows)


def tag_add(call: Invocation, ref: p.Ref, tags: _Tags) -> None:
    """Put tags on a version."""
    version = call.questions.version(ref).summary
    new = call.catalog.add_tags(version.id, tags)
    _say_tags(call, version, new, "new")


def tag_rm(call: Invocation, ref: p.Ref, tags: _Tags) -> None:
    """Take tags off a version. A tag that it does not bear is an error."""
    version = call.questions.version(ref).summary
    for name in tags:
        if name not in version.tags:
            near = difflib.get_close_matches(name, version.tags, 1)
            has = ", ".join(version.tags) or "none"
            raise UnknownReference(
                f"{version.name} has no tag {name!r}.",
                where=ref,
                hint=f"Did you mean {near[0]}?" if near else f"It has: {has}.",
            )
    gone = call.catalog.remove_tags(version.id, tags)
    _say_tags(call, version, gone, "gone")


def _say_tags(call: Invocation, version: VersionSummary, changed: list[str], how: str) -> None:
    now = call.questions.version(version.id).summary.tags
    if call.json:
        call.out.document({"version": version.name, how: changed, "tags": now})
    else:
        call.out.line(f"{version.name}  {', '.join(now) or 'no tags'}")


def tag_ls(
    call: Invocation,
    ref: Annotated[
        str | None,
        typer.Argument(
            metavar="[REF]",
            help="Only on this version, or on versions of this dataset.",
            autocompletion=complete_reference,
            show_default=False,
        ),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="NAME", help="Only this tag.", autocompletion=complete_tag),
    ] = None,
) -> None:
    """List tags and the versions that bear them."""
    found = call.questions.tags(ref, tag=tag)
    if call.json:
        call.out.document(found)
        return
    if not found:
        call.out.remark(no_tag(call, tag))
        return
    columns = [
        Column("tag"),
        Column("version"),
        Column("status", style=state_style),
        Column("set (UTC)"),
        Column("by"),
    ]
    rows = [(e.tag, e.name, e.status, time_text(e.set_at), e.set_by) for e in found]
    call.out.table(columns, rows)


def no_tag(call: Invocation, tag: str | None) -> str:
    """What is said where no version bears a tag: which tag is near, or what there is."""
    names = list(dict.fromkeys(each.tag for each in call.questions.tags()))
    if not names:
        return "There is no tag yet. `provender tag add REF TAG` puts one on."
    if tag is None:
        return "It has no tag. `provender tag add REF TAG` puts one on."
    if tag in names:
        return "No version of it bears such a tag."
    near = difflib.get_close_matches(tag, names, 1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names[:12])}."
    return f"No version bears the tag {tag!r}. {hint}"


def _unknown_alias(ref: str, alias: str, known: list[str]) -> UnknownReference:
    names = sorted(set(known))
    near = difflib.get_close_matches(alias, names, 1)
    there = ", ".join(f"@{each}" for each in names) or "none"
    return UnknownReference(
        f"There is no alias {alias!r}.",
        where=ref,
        hint=f"Did you mean @{near[0]}?" if near else f"There are: {there}.",
    )
