"""Rows, columns and batches of Arrow tables as Python objects, arrays, tensors or frames.

    rows = formatter("numpy").rows(table)

Formats and their meaning are those of Hugging Face Datasets: whole numbers become int64 and
fractions float32 in arrays and tensors unless ``dtype`` says otherwise; lists of one length are
stacked; images are decoded.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from provender.data.errors import FormatError
from provender.data.features import Features
from provender.data.formats.base import Formatter

_HOMES = {
    "python": ("python", "PythonFormatter"),
    "numpy": ("arrays", "NumpyFormatter"),
    "torch": ("tensors", "TorchFormatter"),
    "tensorflow": ("tensors", "TensorFlowFormatter"),
    "jax": ("tensors", "JaxFormatter"),
    "pandas": ("frames", "PandasFormatter"),
    "polars": ("frames", "PolarsFormatter"),
    "arrow": ("frames", "ArrowFormatter"),
    "custom": ("custom", "CustomFormatter"),
}
_ALIASES = {
    "np": "numpy",
    "pt": "torch",
    "pytorch": "torch",
    "tf": "tensorflow",
    "pd": "pandas",
    "pl": "polars",
    "pa": "arrow",
    "pyarrow": "arrow",
}
_PACKAGES = {"torch", "tensorflow", "jax", "pandas", "polars"}

FORMATS = tuple(_HOMES)
"""Names of all formats."""


def format_name(name: str | None) -> str:
    """The one name of a format.

    Raises:
        FormatError: there is no such format, or its library is not installed.
    """
    chosen = "python" if name is None else _ALIASES.get(name, name)
    if chosen not in _HOMES:
        known = [*_HOMES, *_ALIASES]
        near = difflib.get_close_matches(str(name), known, 3, 0.5)
        raise FormatError(
            f"There is no format {name!r}.",
            hint=(f"Did you mean {' or '.join(near)}? " if near else "")
            + f"Formats: {', '.join(_HOMES)}.",
            facts={"format": str(name), "near": near},
        )
    if chosen in _PACKAGES and importlib.util.find_spec(chosen) is None:
        raise FormatError(
            f"The format {chosen!r} needs the package {chosen}, which is not installed.",
            hint=f"pip install {chosen}",
            facts={"format": chosen},
        )
    return chosen


def formatter(
    name: str | None = None,
    columns: Sequence[str] | None = None,
    features: Mapping[str, Any] | None = None,
    *,
    output_all_columns: bool = False,
    **kwargs: Any,
) -> Formatter:
    """What turns tables into a format.

    Args:
        name: "python" (or None), "numpy", "torch", "tensorflow" ("tf"), "jax", "pandas",
            "polars", "arrow", or "custom" (with ``transform=``, a function of a batch).
        columns: columns that are formatted, in their order; None: all.
        features: the columns' features, where they say more than the table's schema.
        output_all_columns: give the other columns too, as Python objects.
        **kwargs: for the arrays or tensors, e.g. ``dtype``, ``device``.

    Raises:
        FormatError: there is no such format, or its library is not installed.
    """
    from importlib import import_module

    home, attribute = _HOMES[format_name(name)]
    cls: type[Formatter] = getattr(import_module(f"{__name__}.{home}"), attribute)
    known = None if features is None else Features(features)
    return cls(columns, known, output_all_columns=output_all_columns, **kwargs)


__all__ = ["FORMATS", "Formatter", "format_name", "formatter"]
