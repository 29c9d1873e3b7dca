"""Work in progress that nothing will ever use again.

A folder under ``building/`` is named after a stage's fingerprint, so the catalog says what it is:
what a finished stage refers to is memory, what an unfinished stage would go on from is kept for a
while, and the rest is rubbish. A folder is removed only while the doctor holds the claims under
which a build would fill it, and after a second look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.store import Store
from provender.upkeep.activity import Activity, held, stage_key
from provender.upkeep.findings import Finding, Problem, size_text
from provender.upkeep.temporary import newest_change, remove_local, size_of

if TYPE_CHECKING:
    from provender.catalog import Catalog, StageRecord

_PARTS = "parts-"


@dataclass
class Workshop:
    """The places where builds work, and what the catalog knows of them.

    Attributes:
        catalog: the catalog.
        store: the store.
        building: local folder of work in progress.
        objects: local folder of downloads.
        activity: who is at work.
        older_than: seconds after which unfinished runs are not waited for any more.
    """

    catalog: Catalog
    store: Store
    building: Path
    objects: Path
    activity: Activity
    older_than: float

    @cached_property
    def parts(self) -> Mapping[str, frozenset[str]]:
        """Fingerprint of a split's examples -> those of the parts that were ever begun."""
        begun = [
            each.fingerprint
            for each in self.catalog.stages(key="examples", limit=None)
            if "/part-" in each.key
        ]
        found: dict[str, set[str]] = {}
        for fingerprint, tree in self.catalog.trees(begun).items():
            for digest in _digests(tree):
                found.setdefault(digest, set()).add(fingerprint)
        return {digest: frozenset(each) for digest, each in found.items()}

    @cached_property
    def inputs(self) -> frozenset[str]:
        """sha256 of every download and manual file that a finished stage recorded."""
        found: set[str] = set()
        for stage in self.catalog.stages(key="download", state="succeeded", limit=None):
            found.update(each["sha256"] for each in stage.result.get("records", ()))
        for stage in self.catalog.stages(key="manual", state="succeeded", limit=None):
            found.update(each["sha256"] for each in stage.result.get("files", {}).values())
        return frozenset(found)


def _digests(tree: Mapping[str, Any]) -> Iterator[str]:
    for child in tree.get("c", ()):
        yield child["d"]


def leftovers(shop: Workshop) -> Iterator[Problem]:
    """Folders of work in progress that no build needs."""
    yield from _examples(shop)
    yield from _made_files(shop, "shards", _is_shard_needed)
    yield from _made_files(shop, "prepared", lambda record, folder: record is not None)
    yield from _made_files(shop, "beam", lambda record, folder: record is not None)
    yield from _made_files(shop, "publish", lambda record, folder: False)
    yield from _replaced(shop)
    yield from _extracted(shop)


# -- runs -----------------------------------------------------------------------------------------


def _examples(shop: Workshop) -> Iterator[Problem]:
    folders = _folders(shop.building / "examples")
    if not folders or shop.activity.builds:
        # Which runs a build is going to need cannot be told before it has planned.
        return
    names = [each.name for each in folders]
    finished, known = shop.catalog.find_stages(names), shop.catalog.trees(names)
    for folder in folders:
        name = folder.name
        keys = [stage_key(each) for each in (name, *shop.parts.get(name, ()))]
        if record := finished.get(name):
            used = f"{_PARTS}{record.result['parts']}"
            for other in _folders(folder):
                if other.name != used:
                    why = "runs of a build that was cut into other parts"
                    yield _local(shop, other, keys, why, _unchanged)
        elif name not in known and name not in shop.parts:
            why = "runs that the catalog knows nothing of"
            yield _local(shop, folder, keys, why, _unchanged)
        elif time.time() - newest_change(folder) > shop.older_than:
            why = "runs of a build that was given up"
            yield _local(shop, folder, keys, why, partial(_unfinished, shop.catalog, name))


def _unfinished(catalog: Catalog, fingerprint: str) -> bool:
    return not catalog.find_stages([fingerprint])


def _unchanged() -> bool:
    return True


# -- shards, folders of opaque builders, staging ----------------------------------------------------

_Needed = Callable[["StageRecord | None", str], bool]


def _is_shard_needed(record: StageRecord | None, folder: str) -> bool:
    """Whether a finished stage's shard still lies where it was made."""
    outputs = record.outputs if record else ()
    return any(each.uri.startswith(f"{folder}/") for each in outputs)


def _made_files(shop: Workshop, kind: str, needed: _Needed) -> Iterator[Problem]:
    root = f"building/{kind}"
    names = [entry.name for entry in shop.store.list(root) if entry.is_dir]
    finished = shop.catalog.find_stages(names) if names else {}
    for name in names:
        folder = f"{root}/{name}"
        if name in shop.activity.stages or needed(finished.get(name), folder):
            continue
        yield _stored(shop, folder, name, needed)
    if shop.store.is_local:
        return
    # A remote store's files are made in scratch and then brought there.
    for place in _folders(shop.building / kind):
        if place.name not in shop.activity.stages:
            why = f"{kind} that never reached the store"
            yield _local(shop, place, [stage_key(place.name)], why, _unchanged)


def _stored(shop: Workshop, folder: str, name: str, needed: _Needed) -> Problem:
    def remove() -> bool:
        with held(shop.catalog, [stage_key(name)]) as ours:
            if not ours or needed(shop.catalog.find_stages([name]).get(name), folder):
                return False
            shop.store.remove_tree(folder)
            return True

    size = sum(e.identity.size for e in shop.store.list(folder, recursive=True) if e.identity)
    why = {
        "shards": "shards of no finished stage",
        "prepared": "files of a builder that did not finish",
        "beam": "shards of a Beam pipeline that did not finish",
        "publish": "a version that was being put together",
    }[folder.split("/")[1]]
    return Problem(_finding(why, size, shop.store.path(folder)), remove)


def _replaced(shop: Workshop) -> Iterator[Problem]:
    """Trials that others took the place of; one that still stands was only moved out of the way."""
    if shop.activity.builds:
        return
    for entry in shop.store.list("building/replaced"):
        if entry.is_dir and not _still_stands(shop.catalog, entry.name):
            yield _aside(shop, entry.rel, entry.name)


def _still_stands(catalog: Catalog, fingerprint: str) -> bool:
    version = catalog.version_by_fingerprint(fingerprint)
    return version is not None and version.status == "trial"


def _aside(shop: Workshop, folder: str, fingerprint: str) -> Problem:
    def remove() -> bool:
        if shop.catalog.claims("build/") or _still_stands(shop.catalog, fingerprint):
            return False
        shop.store.remove_tree(folder)
        return True

    size = sum(e.identity.size for e in shop.store.list(folder, recursive=True) if e.identity)
    return Problem(_finding("a trial that was replaced", size, shop.store.path(folder)), remove)


# -- archives ---------------------------------------------------------------------------------------


def _extracted(shop: Workshop) -> Iterator[Problem]:
    if shop.activity.builds:
        return
    root = shop.building / "extracted"
    for outer in _folders(root):
        for folder in _folders(outer):
            rel = f"{outer.name}/{folder.name}"
            owned = folder.name in shop.inputs or any((shop.objects / rel).glob("[!.]*"))
            if not owned and not (not shop.store.is_local and shop.store.exists(f"objects/{rel}")):
                yield _local(shop, folder, [], "an unpacked archive of no download", _unchanged)


# -- common -----------------------------------------------------------------------------------------


def _local(
    shop: Workshop, folder: Path, keys: list[str], why: str, still: Callable[[], bool]
) -> Problem:
    def remove() -> bool:
        with held(shop.catalog, keys) as ours:
            if not ours or not still() or shop.catalog.claims("build/"):
                return False
            remove_local(folder)
            return True

    return Problem(_finding(why, size_of(folder), str(folder)), remove)


def _finding(why: str, size: int, where: str) -> Finding:
    hint = "`provender doctor --fix` removes it."
    return Finding("leftover", f"{why} ({size_text(size)})", where, hint=hint, size=size)


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
