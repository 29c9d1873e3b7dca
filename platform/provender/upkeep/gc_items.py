"""What may be removed, each thing with the reason and the way to remove it safely.

Nothing here decides alone: every removal looks again, under the claim that keeps others away, at
what it was listed for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.catalog.leases import REMOVAL
from provender.catalog.records import full_name
from provender.errors import CatalogError, ConflictError
from provender.store import Store, remove_directory
from provender.store.neighbours import others
from provender.upkeep.activity import Activity
from provender.upkeep.findings import Problem
from provender.upkeep.gc_reach import Reach, freed, local_age, reach, stored_age
from provender.upkeep.leftovers import Workshop, leftovers
from provender.upkeep.shelves import strays
from provender.upkeep.temporary import newest_change, remove_local, size_of, temporary_files

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.catalog.standing import Standing

VERSION, OBJECT, WORK, LEFTOVER = "version", "object", "work", "leftover"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to remove.

    Attributes:
        kind: ``version``, ``object`` (a download, plan or statistics), ``work`` (pieces of builds),
            ``leftover`` (what killed processes left).
        what: what it is, for people.
        where: path or URL.
        why: why it may go.
        files: files in it.
        size: bytes that removing it frees.
        state: ``listed``, ``removed``, or ``kept`` where it turned out to be in use.
        note: why it was kept.
    """

    kind: str
    what: str
    where: str
    why: str
    files: int
    size: int
    state: str = "listed"
    note: str = ""


@dataclass(frozen=True)
class Candidate:
    """An item and how it is removed: the function gives the reason why it was kept, or ''."""

    item: Item
    remove: Callable[[], str]

    def settle(self) -> Item:
        """Removes it, and says what became of it."""
        note = self.remove()
        return replace(self.item, state="kept" if note else "removed", note=note)


@dataclass
class Ground:
    """The places that are looked at, and how.

    Attributes:
        catalog: what is recorded.
        store: where bytes lie.
        building: local folder of work in progress.
        objects: local folder of downloads.
        home: local folder of memory.
        grace: seconds that everything is kept at least.
        keep: published versions of a dataset that are kept besides those with an alias; None
            keeps all.
        who: who removes.
    """

    catalog: Catalog
    store: Store
    building: Path
    objects: Path
    home: Path
    grace: float
    keep: int | None
    who: str

    @cached_property
    def versions(self) -> list[Standing]:
        """All versions, newest first."""
        return self.catalog.standings()

    @cached_property
    def standing(self) -> frozenset[str]:
        """Folders of the versions whose files are there."""
        return frozenset(each.path for each in self.versions if each.removed is None)

    @cached_property
    def is_shared(self) -> bool:
        """Whether another catalog builds or has versions here, whose needs are not known."""
        if others(self.store, self.catalog.identity()):
            return True
        found = strays(self.catalog, self.store, Activity.now(self.catalog))
        return any(each.finding.kind == "unregistered" for each in found)

    @cached_property
    def leased(self) -> frozenset[str]:
        """Ids of the versions that somebody reads."""
        return frozenset(each.version_id for each in self.catalog.leases())

    @cached_property
    def doomed(self) -> Mapping[str, str]:
        """Version id -> why its files may go."""
        return dict(_doomed(self))

    @cached_property
    def reach(self) -> Reach:
        """What must be kept when the doomed versions are gone."""
        return reach(self.catalog, self.doomed)

    def seconds_since(self, when: Any) -> float:
        """Seconds since a time that the catalog recorded."""
        return time.time() - when.timestamp() if when is not None else 0.0


# -- versions -------------------------------------------------------------------------------------------


def _doomed(ground: Ground) -> Iterator[tuple[str, str]]:
    seen: dict[tuple[str, str], int] = {}
    for version in ground.versions:
        key = (version.dataset, version.config)
        if version.status == "published":
            seen[key] = seen.get(key, 0) + 1
        if version.removed or version.id in ground.leased:
            continue
        why = _why_doomed(ground, version, seen.get(key, 0))
        if why:
            yield version.id, why


def _why_doomed(ground: Ground, version: Standing, rank: int) -> str:
    """Why a version's files may go, or ''."""
    if version.status == "retracted":
        if ground.seconds_since(version.retracted) > ground.grace:
            return f"retracted {version.retracted:%Y-%m-%d}: {version.retract_reason}"
        return ""
    if ground.seconds_since(version.created) <= ground.grace or version.aliased:
        return ""
    if version.status == "trial":
        return "" if _was_read(ground, version) else "a trial that nobody reads"
    if version.status == "published" and ground.keep is not None and rank > ground.keep:
        return "" if _was_read(ground, version) else f"not among the {ground.keep} newest"
    return ""


def _was_read(ground: Ground, version: Standing) -> bool:
    """Whether a job has read it within the grace period."""
    return any(
        ground.seconds_since(each.started) <= ground.grace
        for each in ground.catalog.consumptions(version_id=version.id, limit=1)
    )


def versions(ground: Ground) -> Iterator[Candidate]:
    """Versions whose files may go, and what is left of those that were being removed."""
    for version in ground.versions:
        why = ground.doomed.get(version.id, "")
        if not why and version.removed is not None and version.path not in ground.standing:
            why = "its removal was interrupted"
        if not why or (not ground.store.list(version.path) and version.removed is not None):
            continue
        files, size = freed(ground.store, version.path)
        item = Item(VERSION, f"{version.name} ({version.status})", version.uri, why, files, size)
        yield Candidate(item, _version_remover(ground, version, why))


def _version_remover(ground: Ground, version: Standing, why: str) -> Callable[[], str]:
    catalog, store = ground.catalog, ground.store
    ref = full_name(version.dataset, version.config)

    def at_work() -> bool:
        # A build of the same dataset may be about to take shards from this very version.
        return any(each.key.startswith(f"build/{ref}:") for each in catalog.claims("build/"))

    def remove() -> str:
        from provender.catalog import claimed

        try:
            with claimed(catalog, f"{REMOVAL}{ref}/{version.id}", timeout=0, note="gc"):
                held = catalog.take_away(
                    version.id,
                    reason=f"Its files were removed: {why}.",
                    who=ground.who,
                    blocked_by=at_work,
                )
                if held:
                    return f"read by {held[0].owner}"
                now = catalog.version_by_id(version.id)
                if now.path != version.path or _is_taken(catalog, version):
                    return "its folder was moved meanwhile"
                remove_directory(store, version.path)
                return ""
        except (ConflictError, CatalogError) as error:
            return error.message

    return remove


def _is_taken(catalog: Catalog, version: Standing) -> bool:
    """Whether another version lies in its folder now."""
    return any(
        each.id != version.id and each.removed is None
        for each in catalog.standings(version.path, dataset=version.dataset)
    )


# -- objects --------------------------------------------------------------------------------------------


def objects(ground: Ground) -> Iterator[Candidate]:
    """Downloads, plans and statistics that no version and no next build needs."""
    store, needed = ground.store, ground.reach.objects
    for outer in store.list("objects"):
        if not outer.is_dir or outer.name.startswith("."):
            continue
        for entry in store.list(outer.rel):
            if not entry.is_dir or entry.name.startswith(".") or entry.name in needed:
                continue
            yield from _object(ground, entry.rel, entry.name)
    if not store.is_local:
        yield from _local_copies(ground)


def _object(ground: Ground, rel: str, digest: str) -> Iterator[Candidate]:
    store = ground.store
    inside = store.list(rel, recursive=True)
    ages = [stored_age(store, each.rel) for each in inside]
    if not inside or any(age is None or age <= ground.grace for age in ages):
        return
    files, size = freed(store, rel)
    names = ", ".join(sorted(each.name for each in inside)[:2])
    item = Item(
        OBJECT, names, store.path(rel), "no version and no next build needs it", files, size
    )

    def remove() -> str:
        store.remove_tree(rel)
        return ""

    yield Candidate(item, remove)


def _local_copies(ground: Ground) -> Iterator[Candidate]:
    """Downloads that lie in the store too."""
    for folder in sorted(ground.objects.glob("[0-9a-f][0-9a-f]/*")):
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        inside = [each for each in folder.iterdir() if not each.name.startswith(".")]
        ages = [local_age(each) for each in inside]
        if not inside or any(age is None or age <= ground.grace for age in ages):
            continue
        rel = f"objects/{folder.parent.name}/{folder.name}"
        there = all(ground.store.stat(f"{rel}/{each.name}") for each in inside if each.is_file())
        if there or folder.name not in ground.reach.objects:
            why = "a local copy of what the store has" if there else "nothing needs it"
            item = Item(OBJECT, inside[0].name, str(folder), why, len(inside), size_of(folder))
            yield Candidate(item, _local_remover(folder))


# -- work in progress ------------------------------------------------------------------------------------


def work(ground: Ground) -> Iterator[Candidate]:
    """Runs of examples, and shards that no version has, of builds that ended long ago."""
    root = ground.building / "examples"
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.is_dir() and time.time() - newest_change(folder) > ground.grace:
            why = "merged into shards long ago, or given up; can be made again"
            item = Item(WORK, "runs of examples", str(folder), why, 0, size_of(folder))
            yield Candidate(item, _local_remover(folder))
    for entry in ground.store.list("building/shards"):
        if not entry.is_dir or entry.name in ground.reach.stages:
            continue
        inside = ground.store.list(entry.rel, recursive=True)
        ages = [stored_age(ground.store, each.rel) for each in inside]
        if any(age is None or age <= ground.grace for age in ages):
            continue
        files, size = freed(ground.store, entry.rel)
        why = "made for a version that was never published"
        item = Item(WORK, "a shard", ground.store.path(entry.rel), why, files, size)
        yield Candidate(item, _stored_remover(ground.store, entry.rel))


def _local_remover(folder: Path) -> Callable[[], str]:
    def remove() -> str:
        remove_local(folder)
        return ""

    return remove


def _stored_remover(store: Store, rel: str) -> Callable[[], str]:
    def remove() -> str:
        store.remove_tree(rel)
        return ""

    return remove


# -- what killed processes left -----------------------------------------------------------------------------


def remains(ground: Ground) -> Iterator[Candidate]:
    """What the doctor would remove too: it proves by claims and locks that nobody needs it."""
    activity = Activity.now(ground.catalog)
    shop = Workshop(
        ground.catalog, ground.store, ground.building, ground.objects, activity, ground.grace
    )
    yield from map(_of_problem, _mendable(strays(ground.catalog, ground.store, activity)))
    if not ground.is_shared:
        yield from map(_of_problem, _mendable(leftovers(shop)))
    root = ground.store.local()
    found = temporary_files(
        store=root,
        building=ground.building,
        objects=ground.objects,
        home=ground.home,
        idle=activity.idle and not ground.is_shared,
    )
    yield from map(_of_problem, _mendable(found))


def _mendable(found: Iterator[Problem]) -> Iterator[Problem]:
    return (each for each in list(found) if each.mend is not None)


def _of_problem(problem: Problem) -> Candidate:
    finding = problem.finding
    item = Item(LEFTOVER, finding.what, finding.where, "nobody needs it", 0, finding.size)

    def remove() -> str:
        mended = problem.mend is not None and problem.mend()
        return "" if mended else "a live process uses it"

    return Candidate(item, remove)
