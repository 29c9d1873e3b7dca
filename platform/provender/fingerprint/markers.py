"""Marks that callers put on values and functions to say what counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

FILES_ATTRIBUTE = "__fingerprint_files__"


class ordered(dict[Any, Any]):  # noqa: N801 - reads as a verb where it is used
    """A dict whose order of insertion is part of its fingerprint: ``LABELS = ordered(a=0, b=1)``.

    The order of a plain dict does not count, because most dicts are looked up, not walked.
    """

    __slots__ = ()

    def __init__(self, *args: Mapping[Any, Any] | Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


def depends_on(*paths: str | os.PathLike[str]) -> Callable[[Function], Function]:
    """Decorator: the bytes of these files are part of the function's fingerprint.

    For functions that open a file when they are called, which their code does not show.

    Args:
        paths: files (not folders), read each time the function is hashed. A missing file counts
            as missing, so that its appearance changes the fingerprint.
    """

    def mark(function: Function) -> Function:
        function.__dict__[FILES_ATTRIBUTE] = tuple(os.fspath(path) for path in paths)
        return function

    return mark
