"""Reading single values of a TOML table, and refusing what makes no sense by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from provender.errors import SettingsError

_SPAN = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+)", re.IGNORECASE)
_SECONDS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "min": 60,
    "minute": 60,
    "m": 60,
    "h": 3600,
    "hour": 3600,
}
_SECONDS |= {"d": 86400, "day": 86400, "w": 604800, "week": 604800}


def refuse_unknown(doc: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuses keys that nothing reads.

    Args:
        doc: the table.
        known: the keys that are read.
        where: named in the error.

    Raises:
        SettingsError: a key is unknown; it says what comes near. ``facts['key']`` is the key.
    """
    for key in doc:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(known)}."
            message = f"Unknown key {key!r}."
            raise SettingsError(message, where=where, hint=hint, facts={"key": key})


def folder(value: Any, base: Path) -> Path | None:
    """A path, relative to ``base`` where it is relative; None for nothing."""
    if value in (None, ""):
        return None
    return base / Path(str(value)).expanduser()


def text(key: str, value: Any, where: str) -> str:
    """A text that is not empty.

    Raises:
        SettingsError: it is something else.
    """
    if isinstance(value, str) and value.strip():
        return value
    raise _wrong(key, "a text", value, where)


def texts(key: str, value: Any, where: str) -> tuple[str, ...]:
    """A list of texts.

    Raises:
        SettingsError: it is something else.
    """
    if isinstance(value, list) and all(isinstance(each, str) and each for each in value):
        return tuple(value)
    raise _wrong(key, "a list of texts", value, where)


def count(key: str, value: Any, where: str, least: int = 0, most: int | None = None) -> int:
    """A whole number within bounds.

    Raises:
        SettingsError: it is something else.
    """
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if good and (most is None or value <= most):
        return int(value)
    span = f"of {least} or more" if most is None else f"from {least} to {most}"
    raise _wrong(key, f"a whole number {span}", value, where)


def flag(key: str, value: Any, where: str) -> bool:
    """True or false.

    Raises:
        SettingsError: it is something else.
    """
    if isinstance(value, bool):
        return value
    raise _wrong(key, "true or false", value, where)


def span(key: str, value: Any, where: str) -> timedelta:
    """A length of time: a number of seconds, or a text such as ``"90 min"`` or ``"7 days"``.

    Raises:
        SettingsError: it is something else.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return timedelta(seconds=value)
    found = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = found["unit"].lower() if found else ""
    seconds = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
    if found and seconds and float(found["number"]) > 0:
        return timedelta(seconds=float(found["number"]) * seconds)
    raise _wrong(key, 'a length of time, such as 30 (seconds), "10 min" or "7 days"', value, where)


def _wrong(key: str, wanted: str, value: Any, where: str) -> SettingsError:
    message = f"{key} must be {wanted}, got {value!r}."
    return SettingsError(message, where=where, facts={"key": key})
