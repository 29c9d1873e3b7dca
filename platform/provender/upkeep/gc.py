"""Removing from the store what nothing needs any more, beside whoever builds and reads.

What is needed is worked out from the catalog (`gc_reach`); what is not, and is older than a grace
period, is listed with its size and its reason (`gc_items`), and removed where asked to:

- versions one by one, each in a transaction that first looks for leases and aliases, under a claim
  that builds of the dataset wait for;
- everything else in short spells during which no build runs anywhere, under a claim that builds
  wait for; where builds run all the time it is left alone, and the report says so.

Killed at any moment, the next run goes on: a version is marked in the catalog before the first of
its files goes, and all else is removed in whole folders that nothing refers to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.catalog.leases import SWEEP
from provender.catalog.runs import user_name
from provender.errors import CatalogError
from provender.settings import Settings
from provender.store import Store
from provender.upkeep import gc_items
from provender.upkeep.activity import Activity
from provender.upkeep.gc_items import Candidate, Ground, Item

if TYPE_CHECKING:
    from provender.catalog import Catalog, ClaimRecord

GRACE = timedelta(days=7)
"""How long everything is kept at least, unless told otherwise."""

_SPELL_SECONDS = 5.0
"""Longest time that builds are kept waiting at once."""

_WAIT_SECONDS = 30.0
_BUSY = "builds are at work"
_SHARED = "another catalog uses this store, too (see provender doctor)"

Tell = Callable[[Item], None]
Waiting = Callable[["ClaimRecord"], None]


@dataclass(frozen=True, slots=True)
class GcReport:
    """What was found, and what became of it.

    Attributes:
        items: everything that may go, in order.
        applied: whether anything was to be removed.
        left_alone: why a part of the store was not looked at, or ''.
        run_id: the run on record, None for a dry run.
    """

    items: tuple[Item, ...]
    applied: bool
    left_alone: str
    run_id: str | None

    def size(self, state: str | None = None) -> int:
        """Bytes of the items, or of those in one state."""
        return sum(each.size for each in self.items if state in (None, each.state))

    def count(self, state: str) -> int:
        """Items in a state."""
        return sum(each.state == state for each in self.items)

    def to_json(self) -> dict[str, Any]:
        """The report for ``--json``."""
        return {
            "applied": self.applied,
            "left_alone": self.left_alone,
            "run": self.run_id,
            "bytes": self.size("removed" if self.applied else None),
            "items": [asdict(each) for each in self.items],
        }


def collect(
    settings: Settings,
    catalog: Catalog,
    store: Store,
    *,
    grace: timedelta = GRACE,
    keep: int | None = None,
) -> GcReport:
    """Lists what `sweep` would remove; changes nothing.

    Args:
        settings: the project's settings.
        catalog: the open catalog.
        store: the open store.
        grace: what is younger is kept.
        keep: published versions of each dataset that are kept besides those with an alias, those
            somebody reads and those read within the grace period; None keeps all.
    """
    ground = _ground(settings, catalog, store, grace, keep)
    found = [each.item for each in _candidates(ground)]
    busy = "" if Activity.now(catalog).idle else _BUSY
    return GcReport(tuple(found), False, busy or (_SHARED if ground.is_shared else ""), None)


def sweep(
    settings: Settings,
    catalog: Catalog,
    store: Store,
    *,
    grace: timedelta = GRACE,
    keep: int | None = None,
    tell: Tell | None = None,
    on_wait: Waiting | None = None,
) -> GcReport:
    """Removes what nothing needs.

    Args:
        settings: the project's settings.
        catalog: the open catalog.
        store: the open store.
        grace: what is younger is kept.
        keep: as for `collect`.
        tell: told of everything as it is removed or kept.
        on_wait: told of another process that does the same, which is waited for.

    Returns:
        What was removed, and what was kept after all.
    """
    from provender.catalog import claimed

    tell = tell or (lambda _: None)
    with claimed(catalog, "gc/run", on_wait=on_wait, note="gc"):
        asked = {"grace_seconds": grace.total_seconds(), "keep": keep}
        run_id = catalog.begin_run("gc", "", None, None, asked)
        done: list[Item] = []
        try:
            catalog.bury_dead()
            for each in _versions(_ground(settings, catalog, store, grace, keep)):
                done.append(each)
                tell(each)

            def fresh() -> Ground:
                return _ground(settings, catalog, store, grace, keep)

            left_alone = ""
            for step in _in_spells(fresh, catalog):
                if isinstance(step, str):
                    left_alone = step
                    continue
                done.append(step)
                tell(step)
            if not left_alone and fresh().is_shared:
                left_alone = _SHARED
        except BaseException as error:
            summary = {**_summary(done), "error": {"message": repr(error)}}
            interrupted = isinstance(error, KeyboardInterrupt)
            catalog.finish_run(run_id, "interrupted" if interrupted else "failed", summary)
            raise
        catalog.finish_run(run_id, "succeeded", _summary(done))
    return GcReport(tuple(done), True, left_alone, run_id)


def _ground(
    settings: Settings, catalog: Catalog, store: Store, grace: timedelta, keep: int | None
) -> Ground:
    root = store.local()
    base = root if root is not None else settings.scratch
    return Ground(
        catalog=catalog,
        store=store,
        building=base / "building",
        objects=base / "objects",
        home=Path(settings.home),
        grace=grace.total_seconds(),
        keep=keep,
        who=user_name() or "gc",
    )


def _summary(done: list[Item]) -> Mapping[str, Any]:
    removed = [each for each in done if each.state == "removed"]
    return {
        "removed": len(removed),
        "bytes": sum(each.size for each in removed),
        "versions": [each.what for each in removed if each.kind == gc_items.VERSION],
    }


def _candidates(ground: Ground) -> Iterator[Candidate]:
    yield from gc_items.versions(ground)
    yield from _rest(ground)


def _rest(ground: Ground) -> Iterator[Candidate]:
    """What belongs to no version; a folder that two reasons name is listed once."""
    seen: set[str] = set()
    own = () if ground.is_shared else (gc_items.objects, gc_items.work)
    for part in (gc_items.remains, *own):
        for each in part(ground):
            if each.item.where not in seen:
                seen.add(each.item.where)
                yield each


def _versions(ground: Ground) -> Iterator[Item]:
    for candidate in list(gc_items.versions(ground)):
        yield candidate.settle()


def _in_spells(fresh: Callable[[], Ground], catalog: Catalog) -> Iterator[Item | str]:
    """Removes what belongs to no version, a spell at a time; a text says why it was left alone."""
    from provender.catalog import claimed

    settled: set[str] = set()
    waited = 0.0
    while True:
        busy = False
        finished = False
        done: list[Item] = []
        try:
            with claimed(catalog, SWEEP, timeout=0, note="gc"):
                # Both sides claim first and look then, so at least one of them sees the other.
                busy = not Activity.now(catalog).idle
                if not busy:
                    finished = _spell(fresh(), settled, done)
        except CatalogError as error:
            yield error.message
            return
        yield from done
        if finished:
            return
        if busy:
            if waited >= _WAIT_SECONDS:
                yield _BUSY
                return
            waited += 1.0
            time.sleep(1.0)
        else:
            time.sleep(0.2)  # whoever waits gets a turn


def _spell(ground: Ground, settled: set[str], done: list[Item]) -> bool:
    """Removes for some seconds; True when nothing is left to do."""
    began = time.monotonic()
    for candidate in _rest(ground):
        if candidate.item.where in settled:
            continue
        settled.add(candidate.item.where)
        done.append(_settled(candidate))
        if time.monotonic() - began > _SPELL_SECONDS:
            return False
    return True


def _settled(candidate: Candidate) -> Item:
    try:
        return candidate.settle()
    except OSError as error:
        return replace(candidate.item, state="kept", note=str(error))
