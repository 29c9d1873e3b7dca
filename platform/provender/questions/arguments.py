"""What people give to a question, checked: times, counts, statuses."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import UTC, date, datetime, time

from provender.errors import SettingsError

STATUSES = ("published", "trial", "retracted", "replaced")
LISTED = ("published", "trial", "retracted")
"""The statuses that lists show unless told otherwise; ``replaced`` trials are left out."""


def moment(when: datetime | date | str) -> datetime:
    """A point in time, aware, in UTC.

    Args:
        when: a datetime (without a zone it is UTC), a date (its first moment), or ISO 8601 text.

    Raises:
        SettingsError: the text is neither.
    """
    if isinstance(when, str):
        try:
            when = datetime.fromisoformat(when.strip())
        except ValueError:
            message = f"{when!r} is no time."
            hint = "Give 2026-03-01, '2026-03-01 12:30' or 2026-03-01T12:30:00+01:00."
            raise SettingsError(message, where="time", hint=hint) from None
    if not isinstance(when, datetime):
        when = datetime.combine(when, time())
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def one_more(limit: int | None) -> int | None:
    """One row more than asked for, which tells whether there are more.

    Raises:
        SettingsError: the limit is no whole number of 0 or more.
    """
    return None if limit is None else counted_off(limit, "limit") + 1


def counted_off(value: int, name: str) -> int:
    """The value, if it is a whole number of 0 or more; ``name`` is the argument's.

    Raises:
        SettingsError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SettingsError(f"{value!r} is not a whole number of 0 or more.", where=name)
    return value


def statuses(given: str | Sequence[str]) -> tuple[str, ...]:
    """One status or several, as several.

    Raises:
        SettingsError: there is no such status.
    """
    found = (given,) if isinstance(given, str) else tuple(given)
    for each in found:
        if each not in STATUSES:
            near = difflib.get_close_matches(str(each), STATUSES, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(STATUSES)}."
            raise SettingsError(f"There is no status {each!r}.", where="status", hint=hint)
    return found
