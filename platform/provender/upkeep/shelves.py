"""The folders of versions against the catalog's rows, both ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from provender.store import Store, remove_directory
from provender.training.contents import MANIFEST, MARKER
from provender.upkeep.activity import Activity, build_key, held
from provender.upkeep.findings import Finding, Problem
from provender.upkeep.verification import CHANGED, EXTRA, VerifyReport, verify

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord

_NUMBER = re.compile(r"\d+\.\d+\.\d+")
_LISTED = ("published", "trial", "retracted", "replaced")
_SHOWN = 3


def shelves(catalog: Catalog, store: Store, activity: Activity) -> Iterator[Problem]:
    """Folders without a row, and rows whose files are missing or changed.

    Args:
        catalog: the rows.
        store: the folders.
        activity: who is at work; what is being published is left alone.
    """
    yield from strays(catalog, store, activity)
    versions = catalog.versions(include=_LISTED)
    standing = [v for v in versions if v.status in ("published", "trial")]
    standing = [v for v in standing if v.name not in activity.builds]

    def check(version: VersionRecord) -> VerifyReport:
        return verify(catalog, store, version, deep=False)

    if standing:
        with ThreadPoolExecutor(4) as pool:
            for version, report in zip(standing, pool.map(check, standing), strict=True):
                yield from _about(version, report)


def strays(catalog: Catalog, store: Store, activity: Activity) -> Iterator[Problem]:
    """Folders of versions that the catalog does not know."""
    rows = {each.path for each in catalog.standings()}
    for folder in _version_folders(store):
        name = _name(folder)
        if folder not in rows and name not in activity.builds:
            yield _without_row(catalog, store, folder, name)


def _version_folders(store: Store) -> Iterator[str]:
    """Every folder under ``datasets/`` and ``trials/`` whose name is a version number."""
    for top in ("datasets", "trials"):
        todo = [entry.rel for entry in store.list(top) if entry.is_dir]
        while todo:
            folder = todo.pop()
            if _NUMBER.fullmatch(folder.rsplit("/", 1)[-1]):
                yield folder
            else:
                todo += [entry.rel for entry in store.list(folder) if entry.is_dir]


def _name(folder: str) -> str:
    """``name[/config]:version`` of ``datasets/...`` or ``trials/<how much>/...``."""
    parts = folder.split("/")
    parts = parts[2:] if parts[0] == "trials" else parts[1:]
    return f"{'/'.join(parts[:-1])}:{parts[-1]}"


def _without_row(catalog: Catalog, store: Store, folder: str, name: str) -> Problem:
    """A folder of no version: removed only where this catalog's own build must have left it.

    Another catalog may know it, and so may the next build of a catalog that was restored from an
    older copy: neither may lose a version to the doctor.
    """

    def remove() -> bool:
        with held(catalog, [build_key(name)]) as ours:
            if not ours or _has_row(catalog, folder):
                return False
            remove_directory(store, folder)
            return True

    where = store.path(folder)
    if store.stat(f"{folder}/{MARKER}") is None:
        what = f"{name} was never finished: it has no {MARKER}"
        if _was_built_here(catalog, name):
            hint = "`provender doctor --fix` removes it; the next build makes it again."
            return Problem(Finding("half_published", what, where, hint=hint), remove)
        hint = "This catalog has never built it. Remove it by hand if nobody else needs it."
        return Problem(Finding("half_published", what, where, hint=hint))
    if _was_begun(catalog, store, folder):
        what = f"{name} lies in the store, but its build died before the catalog knew of it"
        hint = "`provender doctor --fix` removes it; building it again is quick."
        return Problem(Finding("half_published", what, where, hint=hint), remove)
    what = f"{name} lies in the store, but this catalog does not know it"
    hint = "Is this the right catalog for that store? Building it here adopts equal files."
    return Problem(Finding("unregistered", what, where, hint=hint))


def _has_row(catalog: Catalog, folder: str) -> bool:
    return bool(catalog.standings(folder))


def _was_built_here(catalog: Catalog, name: str) -> bool:
    dataset, _, config = name.partition(":")[0].partition("/")
    return bool(catalog.stages(dataset=dataset, config=config, key="register", limit=1))


def _was_begun(catalog: Catalog, store: Store, folder: str) -> bool:
    """Whether this catalog has begun to register exactly this content."""
    try:
        manifest = json.loads(store.read(f"{folder}/{MANIFEST}"))
        fingerprint = str(manifest["fingerprint"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    return catalog.tree(fingerprint) is not None


def _about(version: VersionRecord, report: VerifyReport) -> Iterator[Problem]:
    """Findings on a version whose files do not look as they did."""
    bad = [f"{each.name}: {each.detail}" for each in report.problems if each.state != CHANGED]
    new = [each.name for each in report.problems if each.state == CHANGED]
    if bad:
        extra_only = all(each.state in (CHANGED, EXTRA) for each in report.problems)
        yield Problem(
            Finding(
                "damaged_version",
                f"{version.name}: {_some(bad)}",
                version.uri,
                hint="Look at the extra files, and remove them."
                if extra_only
                else f"`provender build {version.name}` puts back what is missing or damaged.",
                level="warning" if extra_only else "error",
            )
        )
    if new:
        yield Problem(
            Finding(
                "changed_version",
                f"{version.name}: {len(new)} files were written anew since: {_some(new)}",
                version.uri,
                hint=f"`provender verify {version.name}` reads them and says whether they hold "
                "what was published.",
            )
        )


def _some(items: list[str]) -> str:
    rest = len(items) - _SHOWN
    return "; ".join(items[:_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
