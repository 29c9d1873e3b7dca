"""Options of a command from a dataclass of options: its names, types and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer


def declared(
    options: type,
    help_texts: Mapping[str, str],
    known: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, tuple[Any, Any]]:
    """The options of the command line, as `provender.cli.commands.command` takes them.

    Args:
        options: the dataclass.
        help_texts: what each of its fields is; all must be there.
        known: values that the shell offers for a field.
    """
    known = known or {}
    kinds = get_type_hints(options)
    found = {}
    for each in fields(options):
        name = "--" + each.name.replace("_", "-")
        flag = f"{name}/--no-{name[2:]}" if kinds[each.name] is bool else name
        offered = offering(known[each.name]) if each.name in known else None
        option = typer.Option(flag, help=help_texts[each.name], autocompletion=offered)
        found[each.name] = (Annotated[kinds[each.name], option], each.default)
    return found


def offering(values: Sequence[str]) -> Callable[[str], list[str]]:
    """What completes an option that takes one of some values."""

    def offer(incomplete: str) -> list[str]:
        return [each for each in values if each.startswith(incomplete)]

    return offer
