"""From typed rows to pandas."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import UnionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_DERIVED = ("name", "examples", "bytes", "seconds", "stage")
_TIME = "datetime64[ns, UTC]"


def columns_of(kind: type[Any]) -> dict[str, Any]:
    """The columns of a dataclass: fields, then derived properties; name -> type."""
    hints = typing.get_type_hints(kind)
    found = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    for name in _DERIVED:
        known = getattr(kind, name, None)
        if name not in found and isinstance(known, property):
            found[name] = typing.get_type_hints(known.fget).get("return", object)
    return found


def frame(rows: Iterable[Any], kind: type[Any]) -> pd.DataFrame:
    """Rows of one dataclass as a frame; see `provender.questions.rows.Rows.to_frame`."""
    import pandas as pd

    found = list(rows)
    return pd.DataFrame(
        {
            name: _column(pd, [getattr(row, name) for row in found], hint)
            for name, hint in columns_of(kind).items()
        }
    )


def _column(pd: Any, values: Sequence[Any], hint: Any) -> Any:
    plain = _without_none(hint)
    optional = plain is not hint
    if plain is datetime:
        return pd.Series(pd.to_datetime(list(values), utc=True), dtype=_TIME)
    if plain is bool:
        return pd.Series(values, dtype="boolean" if optional else "bool")
    if plain is int:
        return pd.Series(values, dtype="Int64" if optional else "int64")
    if plain is float:
        return pd.Series(values, dtype="float64")
    return pd.Series(list(values), dtype="object")


def _without_none(hint: Any) -> Any:
    """The type without its None; itself where it cannot be None."""
    if typing.get_origin(hint) not in (typing.Union, UnionType):
        return hint
    rest = [each for each in typing.get_args(hint) if each is not type(None)]
    return rest[0] if len(rest) == 1 and len(rest) < len(typing.get_args(hint)) else hint
