"""What a build left behind, in the store and in the catalog, and what it should have left."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

from tests.e2e.conftest import Project

from provender.catalog import Catalog
from provender.store import Store
from provender.upkeep import Finding, examine

MARKER = "dataset_info.json"


def tree(folder: Path) -> dict[str, str]:
    """Relative path -> sha256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def store_root(project: Project) -> Path:
    return Path(project.settings.store)


def visible(project: Project) -> list[Path]:
    """The folders that a reader would take for versions."""
    shelves = ("datasets", "trials")
    return [p.parent for top in shelves for p in store_root(project).glob(f"{top}/**/{MARKER}")]


def check_nothing_partial(project: Project, whole: dict[str, str]) -> None:
    """Whatever a reader can find is the whole version, and the catalog promises nothing else."""
    for folder in visible(project):
        assert tree(folder) == whole, folder
    shelf = store_root(project) / "datasets"
    loose = [path for path in shelf.rglob("*") if path.is_file()]
    assert all(any(path.is_relative_to(each) for each in visible(project)) for path in loose)
    with Catalog.open(project.settings.catalog) as catalog:
        for version in catalog.versions():
            assert tree(store_root(project) / version.path) == whole, version.name


def succeeded(project: Project) -> Counter[str]:
    """Fingerprint -> successful executions, of the stages that are memory.

    Parts are not; nor is a registration whose version the kill kept out of the catalog, which has
    to be done again (and meets its own files).
    """
    with Catalog.open(project.settings.catalog) as catalog:
        stages = catalog.stages(state="succeeded", limit=None)
        versions = {each.fingerprint for each in catalog.versions()}
    return Counter(
        each.fingerprint
        for each in stages
        if "/part-" not in each.key and (each.stage != "register" or each.fingerprint in versions)
    )


def doctor(project: Project) -> list[Finding]:
    """Runs ``doctor --fix``."""
    with Catalog.open(project.settings.catalog) as catalog:
        return examine(project.settings, catalog, Store.open(project.settings.store), fix=True)


_INCOMING = re.compile(r"objects/\.incoming/\w+/(last\.json|lock)")
"""What a URL gave last, and whose turn it is to fetch it."""


def unaccounted(project: Project) -> set[str]:
    """Files in a local store that nothing in the catalog accounts for.

    May stay: versions; recorded downloads, plans, statistics and what is remembered of them; runs of finished
    splits; the catalog itself, and its name. Empty lock files of the store hold no data.
    """
    root = store_root(project)
    with Catalog.open(project.settings.catalog) as catalog:
        stages = catalog.stages(state="succeeded", limit=None)
        versions = [each.path for each in catalog.versions()]
        known = {each.fingerprint for each in stages if each.key.startswith("examples/")}
    objects = {
        f"objects/{record['object']}"
        for each in stages
        if each.key == "download"
        for record in each.result["records"]
    }
    objects |= {each.result["plan"] for each in stages if each.key == "splits"}
    objects |= {each.result["statistics"] for each in stages if each.result.get("statistics")}

    def accounted(rel: str, path: Path) -> bool:
        parts = rel.split("/")
        return (
            rel.startswith(("catalog.db", ".catalogs/"))
            or any(rel.startswith(f"{each}/") for each in versions)
            or rel in objects
            or (rel.startswith("objects/.digests/") and path.suffix != ".part")
            or _INCOMING.fullmatch(rel) is not None
            or (parts[:2] == ["building", "examples"] and parts[2] in known)
            or (path.suffix == ".lock" and path.stat().st_size == 0)
        )

    files = {str(p.relative_to(root)): p for p in root.rglob("*") if p.is_file()}
    return {rel for rel, path in files.items() if not accounted(rel, path)}
