"""Reading option values without pydantic.

Newer typer hands every value to pydantic, whose import alone costs more than many commands do.
The parameters of this program are text, whole numbers, flags and lists of text, which are read
here; a parameter of any other type is left to typer, and so is everything under a typer that does
not use pydantic.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

UsageFault: Any = typer.BadParameter.__base__
"""What a command line that cannot be read raises. typer names only its child, `BadParameter`."""

_PLAIN = (str, int, bool, list[str])


class _Plain:
    """Stands in for typer's own conversion of one parameter."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Converts a value as it was typed, or a default as it was declared.

        Raises:
            typer.BadParameter: a number is none, or is too small or too large.
        """
        kind = param.type_descriptor.annotation
        if kind == list[str]:
            return list(value or ())
        if kind is not int or value is None:
            return value
        declared = param.type_descriptor.parameter_info
        least, most = declared.min, declared.max
        try:
            number = int(value)
        except ValueError:
            number = None
        inside = number is not None and (
            (least is None or number >= least) and (most is None or number <= most)
        )
        if not inside:
            message = f"{value!r} is not a whole number{_bounds(least, most)}."
            raise typer.BadParameter(message, ctx=ctx, param=param)
        return number


def _bounds(least: int | None, most: int | None) -> str:
    if least is None:
        return "" if most is None else f" of {most} or less"
    return f" of {least} or more" if most is None else f" from {least} to {most}"


_plain = _Plain()


def _lightened(params: list[Any]) -> list[Any]:
    for param in params:
        known = getattr(param, "type_descriptor", None)
        if known is not None and known.annotation in _PLAIN:
            param.get_runtime_param = lambda: _plain
    return params


class Command(TyperCommand):
    """A command whose parameters are read here."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, as the parser and the help text ask for them."""
        return _lightened(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, likewise."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, as the parser and the help text ask for them."""
        return _lightened(super().get_params(ctx))
