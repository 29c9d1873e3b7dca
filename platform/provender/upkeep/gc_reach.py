"""What the store must keep: everything that can be reached from versions, and from the next build.

- The folder of every version that stands, and of every one that somebody reads.
- Of the stages behind those versions, and of the newest success of every stage of every dataset
  (what the next build goes on from): the downloads, plans and statistics that they recorded, and
  the shards that lie where they were made.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.store import Store

if TYPE_CHECKING:
    from provender.catalog import Catalog

_TIMES = ("updated", "timeCreated", "mtime", "LastModified", "last_modified", "created")


@dataclass(frozen=True)
class Reach:
    """What must be kept.

    Attributes:
        stages: fingerprints of the stages that count.
        objects: digests, names of folders ``objects/<aa>/<digest>``.
    """

    stages: frozenset[str]
    objects: frozenset[str]


def reach(catalog: Catalog, gone: Container[str]) -> Reach:
    """Works out what is needed.

    Args:
        catalog: what was recorded.
        gone: ids of the versions whose files do not stay.
    """
    objects: set[str] = set()

    def see(result: Mapping[str, Any]) -> None:
        objects.update(_objects(result))

    stages = catalog.stages_behind(gone)
    catalog.see_results(stages, see)
    stages |= catalog.stages_to_go_on_from(see)
    stages.update(each.fingerprint for each in catalog.stages(state="running", limit=None))
    return Reach(frozenset(stages), frozenset(objects))


def _objects(result: Mapping[str, Any]) -> Iterable[str]:
    """Digests of the objects that a stage's result names."""
    for record in result.get("records") or ():
        yield str(record.get("object", "//")).split("/")[1]
        yield str(record["sha256"])
    for rel in (result.get("plan"), result.get("statistics")):
        if isinstance(rel, str) and rel.startswith("objects/"):
            yield rel.split("/")[2]


def stored_age(store: Store, rel: str) -> float | None:
    """Seconds since a file of the store was last written or linked; None where it does not tell."""
    local = store.local(rel)
    if local is not None:
        return local_age(local)
    try:
        info = store.fs.info(store.path(rel))
    except (OSError, ValueError):
        return None
    for name in _TIMES:
        when = _seconds(info.get(name))
        if when is not None:
            return time.time() - when
    return None


def local_age(path: Path) -> float | None:
    """Seconds since a file was last changed, moved or linked; None where it is gone."""
    try:
        # A link and a move keep the modification time.
        return time.time() - path.lstat().st_ctime
    except OSError:
        return None


def _seconds(value: Any) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return None


def freed(store: Store, folder: str) -> tuple[int, int]:
    """Files below a folder, and the bytes that removing them frees.

    A file that has another name on the same disk (a shard that two versions share) frees nothing.
    """
    entries = [each for each in store.list(folder, recursive=True) if each.identity]
    total = 0
    for each in entries:
        local = store.local(each.rel)
        shared = False
        if local is not None:
            try:
                shared = local.stat().st_nlink > 1
            except OSError:
                shared = False
        total += 0 if shared or each.identity is None else each.identity.size
    return len(entries), total
