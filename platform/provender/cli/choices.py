"""Options that take one word out of a few."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from provender.errors import SettingsError


def chosen(value: str, known: Sequence[str], option: str) -> str:
    """The value, if it is one of those known.

    Args:
        value: as it was typed.
        known: what can be given.
        option: the option, for the message.

    Raises:
        SettingsError: it is none of them; the message says which is near.
    """
    if value in known:
        return value
    near = difflib.get_close_matches(value, known, 1)
    every = f"There are: {', '.join(known)}."
    hint = f"Did you mean {near[0]}? {every}" if near else every
    raise SettingsError(f"{option} cannot be {value!r}.", where=option, hint=hint)
