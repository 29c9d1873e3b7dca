"""Column types and small values that every table shares."""

from __future__ import annotations

import json
import math
import uuid
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Integer
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

# SQLite numbers rows by itself only for a column declared exactly INTEGER PRIMARY KEY.
Sequence = BigInteger().with_variant(Integer(), "sqlite")


class UtcTime(TypeDecorator[datetime]):
    """Aware UTC datetimes: ``timestamptz`` in PostgreSQL, ISO text in UTC in SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Moves the value to UTC; SQLite's text has no room for the offset."""
        if value is None:
            return None
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Gives the value back aware, in UTC whatever the session's time zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def new_id() -> str:
    """A fresh id: 32 hex digits."""
    return uuid.uuid4().hex


def utc_now() -> datetime:
    """The time now, aware, in UTC."""
    return datetime.now(UTC)


def to_json(value: Any) -> str:
    """A document as compact JSON that both databases accept.

    JSON has no NaN and no infinity, and PostgreSQL refuses them: they are kept as the texts
    ``"nan"``, ``"inf"`` and ``"-inf"``.
    """
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
