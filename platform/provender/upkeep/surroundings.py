"""What every build stands on: catalog, store, space, programs, folders, memory."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from provender.errors import ProvenderError
from provender.settings import Settings
from provender.store import Store
from provender.upkeep.findings import Finding, Problem, size_text

if TYPE_CHECKING:
    from provender.catalog import Catalog

_ENOUGH_BYTES = 1 << 30
_PYTHON = (3, 11)
_TFDS = (4, 9, 9)
_NEEDED = ("tensorflow-datasets", "tensorflow", "numpy", "sqlalchemy", "google-crc32c")


def check_catalog(settings: Settings, catalog: Catalog) -> Iterator[Problem]:
    """Whether the catalog answers and has this code's schema."""
    from provender.catalog import db

    try:
        revision = db.current_revision(settings.catalog)
        catalog.runs(limit=1)
    except ProvenderError as error:
        yield _failed("catalog", error, catalog.url)
        return
    if revision != db.head_revision():
        yield Problem(
            Finding(
                "catalog",
                f"the catalog has revision {revision}, this code works with {db.head_revision()}",
                catalog.url,
                hint="`provender db upgrade` brings an older one up to date.",
                level="error",
            )
        )


def check_store(store: Store) -> Iterator[Problem]:
    """Whether the store takes a file, gives it back, and has room."""
    rel, data = f"building/doctor/{uuid.uuid4().hex}", b"provender"
    try:
        store.write(rel, data)
        intact = store.read(rel) == data
        store.remove(rel)
    except ProvenderError as error:
        yield _failed("store", error, store.url)
        return
    if not intact:
        what = "the store gave back other bytes than it was given"
        yield Problem(Finding("store", what, store.url, level="error"))
    yield from _check_space(store.free_bytes(), store.url)


def check_scratch(settings: Settings, store: Store) -> Iterator[Problem]:
    """Whether there is room to work in, where that is not the store's own."""
    if store.is_local:
        return
    folder = settings.scratch
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    yield from _check_space(shutil.disk_usage(folder).free, str(settings.scratch))


def _check_space(free: int | None, where: str) -> Iterator[Problem]:
    if free is not None and free < _ENOUGH_BYTES:
        hint = "Free some space before the next build."
        yield Problem(
            Finding("space", f"only {size_text(free)} are free", where, hint=hint, level="error")
        )


def _failed(kind: str, error: ProvenderError, where: str) -> Problem:
    return Problem(
        Finding(kind, error.message, error.where or where, hint=error.hint or "", level="error")
    )


def check_programs() -> Iterator[Problem]:
    """Whether Python and the libraries are there, and new enough."""
    if sys.version_info[:2] < _PYTHON:
        what = f"Python {sys.version.split()[0]} is too old"
        hint = f"Use Python {'.'.join(map(str, _PYTHON))} or newer."
        yield Problem(Finding("program", what, sys.executable, hint=hint, level="error"))
    for name in _NEEDED:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            what = f"{name} is not installed"
            yield Problem(Finding("program", what, sys.prefix, level="error"))
            continue
        if name == "tensorflow-datasets" and _numbers(version) < _TFDS:
            what = f"{name} {version} is too old"
            hint = f"Install {'.'.join(map(str, _TFDS))} or newer."
            yield Problem(Finding("program", what, sys.prefix, hint=hint, level="error"))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:3])


def check_manual(settings: Settings) -> Iterator[Problem]:
    """Whether the folders of manual files that were asked for are there."""
    wanted = {
        f"manual_dir of {name}": Path(entry.manual_dir)
        for name, entry in settings.datasets.items()
        if entry.manual_dir
    }
    default = {settings.home / "manual", Path(settings.store) / "manual"}
    if settings.manual_dir not in default or settings.manual_dir.exists():
        wanted["manual_dir"] = settings.manual_dir
    for name, folder in wanted.items():
        if not folder.is_dir():
            what = f"{name} is not a folder" if folder.exists() else f"{name} is not there"
            hint = "Make it, or correct provender.toml."
            yield Problem(Finding("manual_dir", what, str(folder), hint=hint))
        elif not os.access(folder, os.R_OK | os.X_OK):
            yield Problem(Finding("manual_dir", f"{name} cannot be read", str(folder)))


def check_memory(settings: Settings) -> Iterator[Problem]:
    """Remembered builder facts that cannot be read or whose sources are gone.

    Facts of sources that merely changed are written anew when the builder is next used.
    """
    for file in sorted((settings.home / "facts").glob("*.json")):
        try:
            doc = json.loads(file.read_bytes())
            gone = [p for p, known in doc["files"].items() if known and not os.path.exists(p)]
        except (OSError, ValueError, KeyError, AttributeError):
            yield _stale(file, "remembered builder facts that cannot be read")
            continue
        if gone:
            yield _stale(file, f"remembered facts of a builder whose source {gone[0]} is gone")


def _stale(file: Path, what: str) -> Problem:
    def remove() -> bool:
        file.unlink(missing_ok=True)
        return True

    hint = "`provender doctor --fix` removes them; they are worked out anew when needed."
    return Problem(Finding("stale_memory", what, str(file), hint=hint), remove)
