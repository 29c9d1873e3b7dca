"""Catalog records as JSON: every field, and the properties that people ask for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any

from provender.cli.units import iso

_PROPERTIES = ("name", "examples", "bytes", "stage", "seconds")


def plain(value: Any) -> Any:
    """Makes a value JSON-ready.

    Args:
        value: JSON values, dataclasses, datetimes and paths, nested in mappings and sequences.

    Returns:
        The same with dataclasses as dicts (their derived ``name``, ``examples``, ``bytes``,
        ``stage`` and ``seconds`` included), times as ISO 8601 in UTC, and text for all else.
    """
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, datetime):
        return iso(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _record(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, PurePath):
        return str(value)
    return repr(value)


def _record(value: Any) -> dict[str, Any]:
    doc = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    kind = type(value)
    for name in _PROPERTIES:
        if name not in doc and isinstance(getattr(kind, name, None), property):
            doc[name] = plain(getattr(value, name))
    return doc
