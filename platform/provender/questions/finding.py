"""From a reference, or an id, to a version; quick where it names one, helpful where it does not."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from provender.catalog.records import full_name
from provender.errors import UnknownReference
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import Catalog

_ID = re.compile(r"[0-9a-f]{32}")


def version_id_of(catalog: Catalog, ref: str) -> str:
    """The id of the version that a reference means, retracted ones included.

    A reference that names its config, or a dataset with a single one, costs two or three look-ups
    by index; all others are left to `provender.upkeep.find_version`, which reads every version of
    the dataset and says what there is.

    Args:
        catalog: where to look.
        ref: ``name[/config][:version | @alias]``, a builder class, or a version's id.

    Raises:
        UnknownReference: there is no such version; the message says what there is.
    """
    if is_id(ref):
        return _known_id(catalog, ref)
    asked = DatasetRef.parse(ref)
    if not asked.target:
        found = catalog.find_version_id(
            asked.name, asked.config, alias=asked.alias, number=asked.version
        )
        if found is not None:
            return found
    from provender.upkeep import find_version

    return find_version(catalog, asked, retracted=True).id


def is_id(ref: str) -> bool:
    """Whether something is an id rather than a name: 32 hex digits."""
    return _ID.fullmatch(ref) is not None


def _known_id(catalog: Catalog, id: str) -> str:
    if catalog.summaries_by_id([id]):
        return id
    message = f"There is no version with id {id}."
    raise UnknownReference(message, where=id, hint="List them: provender versions")


def dataset_of(catalog: Catalog, ref: str) -> tuple[str, str]:
    """The dataset and config that a reference means, among those that ever had a version.

    Args:
        catalog: where to look.
        ref: ``name[/config]``; a version or alias behind it is not looked at. Without a config it
            means the only one, or the default one.

    Raises:
        UnknownReference: there is no such dataset (the message says which are near), or it has
            several configs.
    """
    asked = DatasetRef.parse(ref)
    if asked.target:
        found = catalog.summaries_by_id([version_id_of(catalog, ref)])
        (only,) = found.values()
        return only.dataset, only.config
    configs = catalog.configs(asked.name)
    if not configs:
        raise unknown_dataset(catalog, asked.name, ref)
    if asked.config in configs or (asked.config is None and "" in configs):
        return asked.name, asked.config or ""
    if asked.config is None and len(configs) == 1:
        return asked.name, configs[0]
    named = [f"{asked.name}/{each}" if each else each for each in configs]
    near = difflib.get_close_matches(f"{asked.name}/{asked.config}", named, 1)
    has = f"{asked.name} has no config {asked.config!r}."
    raise UnknownReference(
        has if asked.config else f"{asked.name} has several configs.",
        where=ref,
        hint=f"Did you mean {near[0]}?" if near else f"There are: {listed(named)}.",
        facts={"configs": configs},
    )


def unknown_dataset(catalog: Catalog, name: str, ref: str) -> UnknownReference:
    """The error for a dataset that is not there: which ones are near, or which there are."""
    names = catalog.dataset_names()
    near = difflib.get_close_matches(name, names, 4, 0.6)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif names:
        hint = f"There are: {listed(names)}."
    else:
        hint = "The catalog holds no dataset yet: `provender build NAME` makes one."
    return UnknownReference(
        f"There is no version of a dataset {name!r}.", where=ref, hint=hint, facts={"near": near}
    )


def unknown_alias(catalog: Catalog, dataset: str, config: str, alias: str) -> UnknownReference:
    """The error for an alias that a dataset never had: which one is near, or which it had."""
    names = sorted({each.name for each in catalog.alias_history(dataset, config)})
    near = difflib.get_close_matches(alias, names, 1)
    there = f"There were: {listed([f'@{each}' for each in names])}." if names else "It had none."
    return UnknownReference(
        f"{full_name(dataset, config)} never had an alias {alias!r}.",
        where=f"{full_name(dataset, config)}@{alias}",
        hint=f"Did you mean @{near[0]}?" if near else there,
        facts={"near": near},
    )


def unknown_job(catalog: Catalog, job: str) -> UnknownReference:
    """The error for a job that never read anything: which ones are near, or which there are."""
    names = catalog.jobs()
    near = difflib.get_close_matches(job, names, 4, 0.5)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif names:
        hint = f"There are: {listed(names)}."
    else:
        hint = "No job is on record yet; readers that name their job are."
    return UnknownReference(
        f"No job {job!r} ever read a version.", where=job, hint=hint, facts={"near": near}
    )


def listed(names: list[str], most: int = 12) -> str:
    """Some names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
