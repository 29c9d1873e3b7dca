"""Calling the functions of `map` and `filter`: their arguments, and what went wrong in them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provender.data.errors import ReturnError, unknown_column
from provender.data.stream.formats import PLAIN, Format, Shaper

AT_ONCE = 1000
"""How many calls of an async function run at the same time."""


@dataclass(frozen=True)
class Call:
    """A user's function and how it is called.

    Attributes:
        function: the function.
        with_indices: the numbers of the rows are given after the row or the columns.
        input_columns: give these columns one by one instead of the row.
        kwargs: further arguments.
        format: what rows and batches are given as.
    """

    function: Callable[..., Any]
    with_indices: bool = False
    input_columns: tuple[str, ...] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    format: Format = PLAIN

    def parameters(self) -> Any:
        """What counts for the fingerprint; the function itself is the first."""
        return (
            self.function,
            self.with_indices,
            self.input_columns,
            dict(self.kwargs),
            self.format.type,
            dict(self.format.kwargs),
        )

    def shaper(self) -> Shaper:
        """What makes its arguments."""
        return Shaper(self.format)

    @property
    def title(self) -> str:
        """The function's name."""
        return function_name(self.function)

    def inputs(self, given: Any) -> Sequence[Any]:
        """The columns asked for of a row or batch.

        Raises:
            ColumnError: there is no such column.
        """
        assert self.input_columns is not None
        for name in self.input_columns:
            if name not in given:
                names = getattr(given, "column_names", None) or list(given)
                raise unknown_column(name, names, "input_columns")
        return [given[name] for name in self.input_columns]

    def simple(self) -> Callable[[Any], Any] | None:
        """The function itself, where it takes a row and nothing else."""
        if self.with_indices or self.input_columns is not None or self.kwargs:
            return None
        return self.function

    def __call__(self, given: Any, index: Any = None) -> Any:
        """Calls it with a row, or a batch and a list of numbers."""
        arguments = [given] if self.input_columns is None else list(self.inputs(given))
        if self.with_indices:
            arguments.append(index)
        return self.function(*arguments, **self.kwargs)


def awaited(answer: Any) -> Any:
    """What a function returned, waited for where the function is ``async``."""
    return asyncio.run(_one(answer)) if inspect.isawaitable(answer) else answer


def all_awaited(answers: list[Any]) -> tuple[list[Any], Exception | None]:
    """What a function returned for several rows; that of ``async`` ones at the same time.

    Returns:
        the answers, up to the first that is an error, and that error.
    """
    if not any(hasattr(kind, "__await__") for kind in set(map(type, answers))):
        return answers, None
    return asyncio.run(_all(answers))


async def _one(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


async def _all(answers: list[Any]) -> tuple[list[Any], Exception | None]:
    given: list[Any] = []
    for begin in range(0, len(answers), AT_ONCE):
        part = answers[begin : begin + AT_ONCE]
        for found in await asyncio.gather(*map(_one, part), return_exceptions=True):
            if isinstance(found, Exception):
                for answer in answers[begin + AT_ONCE :]:
                    if inspect.iscoroutine(answer):
                        answer.close()
                return given, found
            if isinstance(found, BaseException):
                raise found
            given.append(found)
    return given, None


def function_name(function: Any) -> str:
    """What to call a function in messages."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__qualname__", type(inner).__name__))


def noted(error: BaseException, what: str, title: str, row: int, count: int = 1) -> BaseException:
    """The error of a user's function, with a note that says for which row it was called."""
    rows = f"row {row}" if count == 1 else f"rows {row} to {row + count - 1}"
    error.add_note(f"In {what}({title}), called for {rows} of this pass.")
    return error


def wrong_return(what: str, title: str, row: int, found: Any, hint: str) -> ReturnError:
    """The error for a function that returned something else than it should."""
    kind = "nothing (None)" if found is None else type(found).__name__
    return ReturnError(
        f"{title} returned {kind}.",
        where=f"{what}, row {row}",
        hint=hint,
        facts={"row": row, "function": title, "found": type(found).__name__},
    )
