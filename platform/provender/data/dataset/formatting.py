"""What a dataset gives for a row, a batch or a column: which columns, as which kind of object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provender.data.errors import FormatError

if TYPE_CHECKING:
    from provender.data.features import Features
    from provender.data.formats import Formatter

WHOLE = frozenset({"arrow", "pandas", "polars"})
"""Formats whose batches are one object, not a dict of columns."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format that a dataset was given.

    Attributes:
        type: None (Python objects), "numpy", "torch", "tensorflow", "jax", "pandas", "arrow",
            "polars", or "custom" for `with_transform`.
        columns: those that are formatted; None for all.
        output_all_columns: whether the others are given too, as Python objects.
        kwargs: for the conversion, e.g. ``dtype``.
    """

    type: str | None = None
    columns: tuple[str, ...] | None = None
    output_all_columns: bool = False
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def format_type(name: str | None) -> str | None:
    """The one name of a format; None for Python objects.

    Raises:
        FormatError: there is no such format, or its library is not installed.
    """
    from provender.data.formats import format_name

    found = format_name(name)
    return None if found == "python" else found


def make_formatter(chosen: Format, features: Features) -> Formatter:
    """What turns tables of a dataset into what the user asked for.

    Args:
        chosen: the format.
        features: all columns of the tables that it will be given.

    Raises:
        FormatError: its library is not installed, or an argument makes no sense.
    """
    from provender.data.formats import formatter

    columns = None
    if chosen.columns is not None:
        wanted = set(chosen.columns)
        columns = [name for name in features if name in wanted]
    if chosen.output_all_columns and chosen.type in WHOLE and columns is not None:
        raise FormatError(
            f"output_all_columns makes no sense with the format {chosen.type!r}, "
            "whose batches are one object.",
            hint="Leave out columns=, or output_all_columns.",
        )
    return formatter(
        chosen.type,
        columns=columns,
        features=features,
        output_all_columns=chosen.output_all_columns,
        **chosen.kwargs,
    )
