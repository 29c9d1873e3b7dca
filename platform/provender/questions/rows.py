"""Rows of an answer: a tuple of typed values that can become a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas as pd

T_co = TypeVar("T_co", covariant=True)


class Rows(tuple[T_co, ...]):
    """A tuple of frozen values of one kind.

    Attributes:
        kind: the type of the values, known even where there are none.
        more: whether a limit cut further rows off.
    """

    kind: type[T_co]
    more: bool

    def __new__(cls, values: Iterable[T_co], kind: type[T_co], *, more: bool = False) -> Rows[T_co]:
        """Collects the values.

        Args:
            values: all of type ``kind``, a dataclass.
            kind: their type.
            more: whether a limit cut further rows off.
        """
        made = super().__new__(cls, values)
        made.kind = kind
        made.more = more
        return made

    @classmethod
    def cut(cls, values: Iterable[T_co], kind: type[T_co], limit: int | None) -> Rows[T_co]:
        """The first ``limit`` of the values, where one more than that was asked for."""
        found = tuple(values)
        more = limit is not None and len(found) > limit
        return cls(found[:limit] if more else found, kind, more=more)

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas frame; loads pandas.

        Returns:
            One column a field, in the order of the fields, then the derived properties
            (``name``, ``examples``, ``bytes``, ``seconds``, ``stage``). Times are
            ``datetime64[ns, UTC]``, and columns have the same dtypes in an empty frame. Nested
            values (splits, facts) stay Python objects.
        """
        from provender.questions.frames import frame

        return frame(self, self.kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rows, (tuple(self), self.kind, self.more))

    def __repr__(self) -> str:
        shown = f"{len(self)}+" if self.more else str(len(self))
        return f"<{shown} rows of {self.kind.__name__}>"


def _rows(values: tuple[Any, ...], kind: type[Any], more: bool) -> Rows[Any]:
    return Rows(values, kind, more=more)
