"""What the shell offers for a half-typed reference: from settings and catalog, never from TFDS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def complete_job(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of jobs that read a version."""
    return _known(ctx, incomplete, lambda catalog: catalog.jobs())


def complete_tag(ctx: typer.Context, incomplete: str) -> list[str]:
    """The tags that are in use."""
    return _known(ctx, incomplete, lambda catalog: {each.tag for each in catalog.tags()})


def _known(
    ctx: typer.Context, incomplete: str, names: Callable[[Catalog], Iterable[str]]
) -> list[str]:
    try:
        catalog = _existing(_settings(ctx))
        if catalog is None:
            return []
        with catalog:
            return sorted(each for each in names(catalog) if each.startswith(incomplete))
    except Exception:  # noqa: BLE001 - a shell that completes must not print tracebacks
        return []


def complete_stage(incomplete: str) -> list[str]:
    """Kinds of stages; a stage can also be given by its whole key."""
    return [each for each in STAGES if each.startswith(incomplete)]


def _references(ctx: typer.Context, incomplete: str) -> set[str]:
    from provender.builders.spec import SHIPPED

    settings = _settings(ctx)
    names = {*settings.datasets, *SHIPPED}
    catalog = _existing(settings)
    if catalog is None:
        return names
    with catalog:
        for mark in (":", "@"):
            name, found, _ = incomplete.partition(mark)
            if found:
                return {f"{name}{mark}{each}" for each in _below(catalog, name, mark)}
        known = catalog.dataset_keys(incomplete.partition("/")[0])
    return names | {f"{name}/{config}" if config else name for name, config in known}


def _settings(ctx: typer.Context) -> Settings:
    from provender.settings import load_settings

    given: dict[str, Any] = {}
    place: Any = ctx
    # Global options may stand before any part of the command: the innermost wins.
    while place is not None:
        given = {**place.params, **{name: v for name, v in given.items() if v}}
        place = place.parent
    return load_settings(
        store=given.get("store_url"),
        catalog=given.get("catalog_url"),
        file=given.get("config_file"),
    )


def _below(catalog: Catalog, name: str, mark: str) -> Iterable[str]:
    dataset, _, config = name.partition("/")
    if mark == "@":
        return catalog.aliases(dataset, config or None)
    return [each.version for each in catalog.version_summaries(dataset, config=config or None)]


def _existing(settings: Settings) -> Catalog | None:
    """The catalog, unless asking for it would create it."""
    from provender.catalog import Catalog

    file = settings.catalog.removeprefix("sqlite:///")
    if file != settings.catalog and not Path(file).is_file():
        return None
    return Catalog.open(settings.catalog)
