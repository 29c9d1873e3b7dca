"""What is told of a version, to whom, and whether it was told before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from provender.engine.staged import Published

_PAGE = 500
_SKEW = timedelta(hours=1)
"""How far the clocks of Airflow and of the catalog may differ."""


def extra_of(version: Published, piece: str | None = None) -> dict[str, Any]:
    """What an asset event carries: enough to read exactly this version.

    Args:
        version: the version.
        piece: the piece of time that it holds, or None.
    """
    return {
        "version": version.version,
        "name": version.name,
        "fingerprint": version.fingerprint,
        "path": version.path,
        "splits": dict(version.splits),
        "examples": sum(version.splits.values()),
        "bytes": version.bytes,
        "changed_splits": list(version.changed_splits),
        "run": version.run_id,
        **({"partition": piece} if piece else {}),
    }


def keys_of(version: Published, piece: str | None = None) -> list[str]:
    """What changed, by the keys of the events that tell of it.

    Args:
        version: the version.
        piece: the piece of time that it holds, or None.

    Returns:
        The piece; without one the splits whose files differ from those of the version before. Where
        no file does and the version is another one for all that (its features, its number), whoever
        reads any split is concerned, and it is all of them.
    """
    if piece:
        return [piece]
    return list(version.changed_splits or version.splits)


def was_announced(events: Any, version: Published, created: datetime) -> bool:
    """Whether an event of this very content was sent before.

    Only events from the version's publication on are looked at, oldest first: its own is among the
    first of them, however many pieces of time were announced since.

    Args:
        events: the task's ``inlet_events`` of the dataset's asset.
        version: the version.
        created: when it was published.
    """
    after: datetime | None = created - _SKEW
    while after is not None:
        page = list(events.after(after.isoformat()).ascending(True).limit(_PAGE))
        if any(_is_of(each.extra or {}, version) for each in page):
            return True
        # The next page begins with the last event of this one: `after` includes its moment.
        newest = page[-1].timestamp if len(page) == _PAGE else None
        after = newest if newest != after else None
    return False


def _is_of(extra: Mapping[str, Any], version: Published) -> bool:
    return (extra.get("name"), extra.get("fingerprint")) == (version.name, version.fingerprint)
