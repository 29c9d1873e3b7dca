"""What the shell offers for a half-typed reference: from settings and catalog, never from TFDS."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.settings import Settings

STAGES = ("all", "manual", "download", "splits", "examples", "shards", "prepare", "register")


def complete_reference(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names, and after a colon or an at sign the versions or aliases of the name before it."""
    try:
        return sorted(each for each in _references(ctx, incomplete) if each.startswith(incomplete))
    except Exception:  # noqa: BLE001 - a shell that completes must not print tracebacks
        return []


def complete_stage(incomplete: str) -> list[str]:
    """Kinds of stages; a stage can also be given by its whole key."""
    return [each for each in STAGES if each.startswith(incomplete)]


def _references(ctx: typer.Context, incomplete: str) -> set[str]:
    from provender.builders.spec import SHIPPED
    from provender.settings import load_settings

    given = {**(ctx.parent.params if ctx.parent else {}), **ctx.params}
    settings = load_settings(
        store=given.get("store_url"),
        catalog=given.get("catalog_url"),
        file=given.get("config_file"),
    )
    names = {*settings.datasets, *SHIPPED}
    catalog = _existing(settings)
    if catalog is None:
        return names
    with catalog:
        for mark in (":", "@"):
            name, found, _ = incomplete.partition(mark)
            if found:
                return {f"{name}{mark}{each}" for each in _below(catalog, name, mark)}
        known = catalog.datasets()
    return names | {
        f"{each.dataset}/{each.config}" if each.config else each.dataset for each in known
    }


def _below(catalog: Catalog, name: str, mark: str) -> Iterable[str]:
    dataset, _, config = name.partition("/")
    if mark == "@":
        return catalog.aliases(dataset, config or None)
    return [each.version for each in catalog.versions(dataset, config=config or None)]


def _existing(settings: Settings) -> Catalog | None:
    """The catalog, unless asking for it would create it."""
    from provender.catalog import Catalog

    file = settings.catalog.removeprefix("sqlite:///")
    if file != settings.catalog and not Path(file).is_file():
        return None
    return Catalog.open(settings.catalog)
