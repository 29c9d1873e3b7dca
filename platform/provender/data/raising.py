"""What a user's function raised, told by a transform: a `TransformError` that is also that."""

from __future__ import annotations

import functools
import sys
from typing import Any, cast

from provender.data.errors import TransformError

_ERROR_FACT = "error"
_OWN = {"message", "where", "hint", "facts"}
_COPIED = ("errno", "strerror", "filename", "filename2", "name", "path")
"""Attributes that built-in exceptions keep outside of their ``__dict__``."""


def also_what_was_raised(error: TransformError) -> TransformError:
    """The error as one that ``except`` clauses for what the function raised catch as well.

    Its class derives from `TransformError` and from the class of its cause; it has the cause's
    attributes, as far as they do not hide its own. Where there can be no such class (another
    layout, a constructor that takes other arguments) it stays what it is.

    Args:
        error: made for a function that raised; its ``__cause__`` is what was raised.
    """
    cause = error.__cause__
    if type(error) is not TransformError or not isinstance(cause, Exception):
        return error
    if error.facts.get(_ERROR_FACT) != type(cause).__name__ or _says_enough(type(cause)):
        return error
    try:
        made = _made(type(cause), error.message, error.where, error.hint, error.facts)
        _take_attributes(made, cause)
    except Exception:  # noqa: BLE001 - classes of users may do anything when derived from or made
        return error
    made.__cause__ = cause
    return made.with_traceback(error.__traceback__)


def _says_enough(kind: type[Exception]) -> bool:
    # Within a generator Python turns a StopIteration into another error.
    return issubclass(TransformError, kind) or issubclass(kind, StopIteration | StopAsyncIteration)


def _take_attributes(made: TransformError, cause: Exception) -> None:
    for name, value in vars(cause).items():
        if name not in _OWN and name != "__notes__":
            setattr(made, name, value)
    for name in _COPIED:
        value = getattr(cause, name, None)
        if value is not None and name not in vars(cause):
            setattr(made, name, value)


@functools.lru_cache(maxsize=256)
def _class_for(kind: Any) -> type[TransformError]:
    """A class that is a `TransformError` and one of this kind.

    Raises:
        TypeError: the two cannot be combined.
    """
    space = {"__module__": TransformError.__module__, "__reduce__": _reduced, "raised": kind}
    doc = f"A transform's function raised {kind.__name__}."
    meta: Any = type(kind)
    made = meta("TransformError", (TransformError, kind), {**space, "__doc__": doc})
    return cast("type[TransformError]", made)


def _made(
    kind: type[Exception], message: str, where: str | None, hint: str | None, facts: Any
) -> TransformError:
    known: Any = kind
    return _class_for(known)(message, where=where, hint=hint, facts=facts)


def _reduced(self: Any) -> tuple[Any, ...]:
    parts = (self.message, self.where, self.hint, self.facts)
    if _importable(self.raised):
        return _again, (self.raised, *parts)
    return _plain, parts


def _again(kind: type[Exception], *parts: Any) -> TransformError:
    return _made(kind, *parts)


def _plain(message: str, where: str | None, hint: str | None, facts: Any) -> TransformError:
    return TransformError(message, where=where, hint=hint, facts=facts)


def _importable(kind: type) -> bool:
    """Whether another process finds the class by its name."""
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind
