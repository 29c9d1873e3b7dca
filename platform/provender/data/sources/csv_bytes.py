"""CSV as bytes and texts: where quotes open, and what stands for numbers and truth values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

TRUE, FALSE = ("True", "TRUE", "true"), ("False", "FALSE", "false")
_LINE_FEED, _RETURN = 0x0A, 0x0D


_PYTHON_TYPES = {"str": "large_string", "object": "large_string", "string": "large_string",
                 "int": "int64", "float": "float64"}  # fmt: skip


def given_types(dtype: Any) -> Any:
    """What ``dtype`` says, as Arrow types: a dict of them by column, or one for every column.

    Raises:
        FeatureTypeError: there is no such type.
    """
    if isinstance(dtype, Mapping):
        return {str(name): _given_type(each) for name, each in dtype.items()}
    return _given_type(dtype)


def _given_type(dtype: Any) -> pa.DataType:
    import numpy as np

    from provender.data.features import Features, Value, type_of

    if isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        dtype = np.dtype(dtype).name
    elif isinstance(dtype, type):
        dtype = dtype.__name__
    if isinstance(dtype, str):
        name = dtype if dtype in _PYTHON_TYPES else dtype.lower()  # pandas has Int64, Float32
        dtype = Value(_PYTHON_TYPES.get(name, name))
    return type_of(Features({"x": dtype})["x"])


def types_of(given: Any, names: Sequence[str]) -> Mapping[str, pa.DataType]:
    """The types given for columns, by name.

    Args:
        given: what `given_types` made, or None.
        names: of the columns that there are.

    Raises:
        ColumnError: there is no such column.
    """
    from provender.data.sources.base import check_columns

    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    check_columns(list(given), list(names))
    return given


def one_char(name: str, value: str) -> str:
    """The value of an option, which is one character.

    Raises:
        InputError: it is not.
    """
    if len(value) != 1 or not value.isascii():
        raise InputError(
            f"{name} must be one ASCII character, not {value!r}.",
            where=name,
            hint='For example ";".',
        )
    return value


def quoted(values: Any, quote: int, sep: int) -> Any:
    """Which bytes of some records stand in quotes.

    A quote opens only where a value begins, and a doubled one inside stands for itself. Where that
    comes to the same, counting quotes is enough: an odd one opens, an even one closes.

    Args:
        values: the bytes, uint8, from the beginning of a record on.
        quote: the quote.
        sep: what stands between values.

    Returns:
        bool, of the same shape.
    """
    import numpy as np

    marks = values == quote
    at = np.flatnonzero(marks)
    if not len(at):
        return np.zeros(len(values), bool)
    before = np.where(at == 0, _LINE_FEED, values[at - 1])
    begins = (before == sep) | (before == _LINE_FEED) | (before == _RETURN)
    opening = begins | (before == quote)
    if opening[::2].all():
        return np.logical_xor.accumulate(marks)
    inside = np.zeros(len(values), bool)
    number, places = 0, at.tolist()
    while number < len(places):
        start = places[number]
        if not begins[number]:  # a quote in the middle of a value
            number += 1
            continue
        number += 1
        while number + 1 < len(places) and places[number + 1] == places[number] + 1:
            number += 2
        stop = places[number] if number < len(places) else len(values)
        inside[start:stop] = True
        number += 1
    return inside


def unescaped(values: Any, escape: int) -> Any:
    """The bytes with every escaped one made harmless."""
    import numpy as np

    if not (values == escape).any():
        return values
    out = values.copy()
    skip = -1
    for at in np.flatnonzero(values == escape).tolist():
        if at == skip:
            continue
        if at + 1 < len(out):
            out[at + 1] = 0
            skip = at + 1
    return out


def digits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers as pyarrow wants them: without blanks around and without a plus sign."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    return pc.replace_substring_regex(trimmed, r"^\+", "")


def fits(value: str, kind: pa.DataType) -> bool:
    """Whether a text stands for a value of a type."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return value in (*TRUE, *FALSE)
    try:
        digits(pa.chunked_array([[value]])).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def unique(names: list[str]) -> list[str]:
    """Names made different as pandas does: ``a``, ``a.1``, ``a.2``."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        out.append(f"{name}.{count}" if count else name)
    return out


def numbers_or_names(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Labels as numbers where all of them are, else as they are written."""
    import pyarrow as pa

    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
