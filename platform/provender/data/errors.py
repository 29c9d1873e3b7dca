"""What can go wrong with a dataset in training code, as part of the one tree of errors.

    UnknownReference
    └── ColumnError              a column that is not there; also a KeyError and a ValueError
    InputError
    ├── FeatureTypeError         a value is not of its column's type; also a TypeError and a ValueError
    ├── ColumnLengthError        columns of a batch differ in length; also a ValueError
    ├── FormatError              a format that does not exist or is not installed; also a ValueError
    └── TransformError           a transform broke, or returned what cannot be stored
        └── ReturnError          a function returned what is no row or batch; also a TypeError

The built-in bases are there so that code which caught those before goes on working.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from provender.errors import InputError, UnknownReference


class ColumnError(UnknownReference, KeyError, ValueError):
    """A column that the dataset does not have, or has already; ``facts`` holds all names."""


class FeatureTypeError(InputError, TypeError, ValueError):
    """A value that its column cannot hold; ``facts``: column, row (or None), expected, found."""


class ColumnLengthError(InputError, ValueError):
    """The columns of one batch are not of one length; ``facts`` maps name to length."""


class FormatError(InputError, ValueError):
    """A format name that is not known, or whose library is not installed."""


class TransformError(InputError):
    """A function given to a transform raised, or returned what cannot become rows.

    ``facts`` holds the row number and, where it is short enough to show, the row.
    """


class ReturnError(TransformError, TypeError):
    """A function given to a transform returned something that is no row or batch."""


def unknown_column(name: object, columns: Iterable[str], where: str | None = None) -> ColumnError:
    """The error for a column that is not there, with what comes near.

    Args:
        name: what was asked for.
        columns: what there is.
        where: the argument or feature it was found in.
    """
    known = [str(each) for each in columns]
    near = difflib.get_close_matches(str(name), known, 3, 0.5)
    shown = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    return ColumnError(
        f"There is no column {name!r}.",
        where=where,
        hint=hint + (f"Columns: {shown}." if known else "The dataset has no columns."),
        facts={"column": str(name), "near": near, "columns": known},
    )


_SHOWN = 20
