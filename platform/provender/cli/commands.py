"""How a command is declared: its own parameters, the global options, one example, one guard."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from provender.cli import parsing
from provender.cli.faults import guarded
from provender.cli.invocation import Invocation

META = "provender"
"""Where the context keeps the global options given before the command."""

Command = Callable[..., int | None]

_OPTIONS: dict[str, tuple[Any, Any]] = {
    "catalog_url": (
        Annotated[
            str | None,
            typer.Option("--catalog", metavar="URL", help="Catalog database, or a SQLite file."),
        ],
        None,
    ),
    "store_url": (
        Annotated[
            str | None,
            typer.Option("--store", metavar="URL", help="Store: a folder or a gs:// or other URL."),
        ],
        None,
    ),
    "config_file": (
        Annotated[
            str | None,
            typer.Option(
                "--config-file",
                metavar="FILE",
                help="The provender.toml to read instead of the nearest one.",
            ),
        ],
        None,
    ),
    "json": (
        Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")],
        False,
    ),
    "quiet": (
        Annotated[bool, typer.Option("--quiet", "-q", help="Print only what was asked for.")],
        False,
    ),
    "verbose": (
        Annotated[
            bool, typer.Option("--verbose", "-v", help="Every shard, every reason, tracebacks.")
        ],
        False,
    ),
}


def epilog(*examples: str) -> str:
    """The part of a help text that shows how a command is typed."""
    # \b keeps the formatter from joining the lines.
    title = "Example:" if len(examples) == 1 else "Examples:"
    return "\b\n" + "\n".join([title, *(f"  {each}" for each in examples)])


def command(
    app: typer.Typer,
    name: str,
    *examples: str,
    options: Mapping[str, tuple[Any, Any]] | None = None,
) -> Callable[[Command], Command]:
    """Registers a function as a command.

    Args:
        app: the group it belongs to.
        name: what people type.
        examples: command lines for its help text, at least one.
        options: further options, name -> (annotation, default), for a function that takes them
            as ``**options``.

    Returns:
        A decorator. The function takes an `Invocation` first, then its own parameters annotated
        for typer; its docstring is the help text; it returns the exit code, or None for 0.
    """

    def register(function: Command) -> Command:
        wrapped = _with_shared(function, _parameters(options or {}))
        app.command(
            name, cls=parsing.Command, help=inspect.getdoc(function), epilog=epilog(*examples)
        )(wrapped)
        return function

    return register


def _parameters(options: Mapping[str, tuple[Any, Any]]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]


SHARED = _parameters(_OPTIONS)
"""The global options as parameters; every command has them, and so has the program."""


def _with_shared(function: Command, options: list[inspect.Parameter]) -> Callable[..., None]:
    own = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]

    def run(ctx: typer.Context, **given: Any) -> None:
        after = {name: given.pop(name) for name in _OPTIONS}
        call = Invocation(**_merged(ctx.meta.get(META, {}), after))
        raise typer.Exit(guarded(call, lambda: function(call, **given)))

    context = inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    parameters = [context, *own, *options, *SHARED]
    run.__name__ = function.__name__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _merged(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Global options may stand before the command or after it; after it wins."""
    return {name: value or before.get(name, value) for name, value in after.items()}
