"""Options of a command from a dataclass of options: its names, types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer


def declared(options: type, help_texts: Mapping[str, str]) -> dict[str, tuple[Any, Any]]:
    """The options of the command line, as `provender.cli.commands.command` takes them.

    Args:
        options: the dataclass.
        help_texts: what each of its fields is; all must be there.
    """
    kinds = get_type_hints(options)
    found = {}
    for each in fields(options):
        name = "--" + each.name.replace("_", "-")
        flag = f"{name}/--no-{name[2:]}" if kinds[each.name] is bool else name
        option = typer.Option(flag, help=help_texts[each.name])
        found[each.name] = (Annotated[kinds[each.name], option], each.default)
    return found
