"""The doctor: looks at everything a build stands on and leaves behind, and clears up.

What it removes, nothing can need: every check asks who is at work first, and every removal holds
the claims under which a build would use the thing. Afterwards only published versions and memory
that the next build goes on from are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from provender.errors import ProvenderError
from provender.settings import Settings
from provender.store import Store
from provender.store.neighbours import others
from provender.upkeep import surroundings
from provender.upkeep.activity import Activity, dead_work
from provender.upkeep.findings import Finding, Problem
from provender.upkeep.leftovers import Workshop, leftovers
from provender.upkeep.shelves import shelves
from provender.upkeep.temporary import temporary_files

if TYPE_CHECKING:
    from provender.catalog import Catalog

_OLD = timedelta(days=7)


def examine(
    settings: Settings,
    catalog: Catalog,
    store: Store,
    *,
    fix: bool = False,
    older_than: timedelta = _OLD,
) -> list[Finding]:
    """Looks for what is wrong, and with ``fix`` puts right what can be.

    Args:
        settings: the project's settings.
        catalog: the open catalog.
        store: the open store.
        fix: remove what nothing needs, and close what dead processes left open.
        older_than: unfinished runs that the next build could go on from are kept for so long.

    Returns:
        The findings, in the order of the checks; empty where all is well.
    """
    found: list[Finding] = []

    def take(problems: Iterator[Problem]) -> bool:
        # All are found before the first is mended, for mending one may hide others of its cause.
        settled = [each.settle(fix=fix) for each in list(problems)]
        found.extend(settled)
        return not any(each.level == "error" for each in settled)

    take(surroundings.check_programs())
    take(surroundings.check_manual(settings))
    take(surroundings.check_memory(settings))
    take(surroundings.check_scratch(settings, store))
    usable = take(surroundings.check_catalog(settings, catalog))
    usable = take(_guarded("store", store.url, lambda: surroundings.check_store(store))) and usable
    if usable:
        # Without the catalog nobody can say what is needed; without the store, what is there.
        for check in _checks(settings, catalog, store, older_than.total_seconds()):
            take(_guarded("store", store.url, check))
    return found


def _checks(
    settings: Settings, catalog: Catalog, store: Store, older_than: float
) -> list[Callable[[], Iterator[Problem]]]:
    root = store.local()
    building = root / "building" if root else settings.scratch / "building"
    objects = root / "objects" if root else settings.scratch / "objects"

    def now() -> Activity:
        return Activity.now(catalog)

    return [
        lambda: dead_work(catalog),
        lambda: shelves(catalog, store, now()),
        lambda: temporary_files(
            store=root, building=building, objects=objects, home=Path(settings.home),
            idle=now().idle and not _others(catalog, store),
        ),
        lambda: _work(Workshop(catalog, store, building, objects, now(), older_than)),
    ]  # fmt: skip


def _others(catalog: Catalog, store: Store) -> dict[str, str]:
    return others(store, catalog.identity())


def _work(shop: Workshop) -> Iterator[Problem]:
    """Work in progress that nobody needs, in a store where no other catalog builds.

    Others are asked for after the work was listed: each left its name before it began any.
    """
    found = list(leftovers(shop))
    neighbours = _others(shop.catalog, shop.store)
    if not neighbours:
        yield from found
        return
    named = ", ".join(url or "(unreadable)" for url in neighbours.values())
    files = ", ".join(shop.store.path(rel) for rel in neighbours)
    yield Problem(
        Finding(
            "shared_store",
            f"other catalogs build in this store: {named}. Work in progress is left alone, for "
            "whose it is cannot be told",
            shop.store.url,
            hint=f"Where they are gone for good, remove by hand: {files}",
        )
    )


def _guarded(kind: str, where: str, check: Callable[[], Iterator[Problem]]) -> Iterator[Problem]:
    """The check's problems; one that cannot go on is a finding itself, and the others still run."""
    try:
        yield from check()
    except ProvenderError as error:
        yield Problem(
            Finding(kind, error.message, error.where or where, hint=error.hint or "", level="error")
        )
