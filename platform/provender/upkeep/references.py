"""From what a person typed to one version in the catalog."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from provender.errors import UnknownReference
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord

_LATEST = "latest"


def find_version(catalog: Catalog, ref: DatasetRef, *, retracted: bool = False) -> VersionRecord:
    """The version that a reference means.

    Without a number it is the one that the alias ``latest`` points to, else the newest published.
    A number means the published version, else the trial, else the retracted one. Without a config
    it is the builder's default one, else the only one.

    Args:
        catalog: where to look.
        ref: a name, or the class that built it.
        retracted: whether a version that was taken back counts.

    Raises:
        UnknownReference: there is no such dataset, version or alias (the message says what there
            is), or it is retracted (it says who, when, why, and what to use instead).
    """
    every = _of_dataset(catalog, ref)
    here = _of_config(every, ref)
    if ref.alias:
        found = _by_alias(catalog, here, ref)
    elif ref.version:
        found = _by_number(here, ref)
    else:
        found = _newest(catalog, here, ref, retracted=retracted)
    if found.status == "retracted" and not retracted:
        raise _taken_back(catalog, found)
    return found


def _of_dataset(catalog: Catalog, ref: DatasetRef) -> list[VersionRecord]:
    if ref.target:
        built = [v for v in catalog.versions() if _source(v) == ref.target]
        if not built:
            raise UnknownReference(
                f"{ref.target} has not built any version yet.",
                where=str(ref),
                hint=f"`provender build {ref.target}` does.",
            )
        return built
    found = catalog.versions(ref.name)
    if found:
        return found
    names = sorted({each.dataset for each in catalog.datasets()})
    near = difflib.get_close_matches(ref.name, names, 4, 0.6)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif names:
        hint = f"There are: {_some(names)}."
    else:
        hint = "The catalog holds no dataset yet: `provender build NAME` makes one."
    raise UnknownReference(
        f"There is no version of a dataset {ref.name!r}.",
        where=str(ref),
        hint=hint,
        facts={"datasets": names, "near": near},
    )


def _source(version: VersionRecord) -> str | None:
    source: str | None = version.info.get("spec", {}).get("source")
    return source


def _of_config(versions: Sequence[VersionRecord], ref: DatasetRef) -> list[VersionRecord]:
    """The versions of the config that is meant, newest first."""
    configs = list(dict.fromkeys(each.config for each in versions))
    wanted = ref.config
    if wanted is None:
        # A build that names no config records the builder's default under its own name.
        named = [v.config for v in versions if not v.info.get("spec", {}).get("config")]
        choice = named or configs
        if len(set(choice)) == 1:
            wanted = choice[0]
    if wanted is None or wanted not in configs:
        name = versions[0].dataset
        known = sorted(f"{name}/{each}" if each else name for each in configs)
        near = difflib.get_close_matches(f"{name}/{wanted}", known, 1) if wanted else []
        message = f"{name} has no config {wanted!r}." if wanted else f"{name} has several configs."
        raise UnknownReference(
            message,
            where=str(ref),
            hint=f"Did you mean {near[0]}?" if near else f"There are: {_some(known)}.",
            facts={"configs": sorted(configs)},
        )
    return [each for each in versions if each.config == wanted]


def _by_alias(catalog: Catalog, here: Sequence[VersionRecord], ref: DatasetRef) -> VersionRecord:
    dataset, config = here[0].dataset, here[0].config
    found = catalog.version_by_alias(dataset, config, str(ref.alias))
    if found is not None:
        return found
    known = {name: a.version for name, a in catalog.aliases(dataset, config).items() if a.version}
    near = difflib.get_close_matches(str(ref.alias), known, 1)
    shown = ", ".join(f"{name} ({number})" for name, number in sorted(known.items()))
    raise UnknownReference(
        f"{_name(here[0])} has no alias {ref.alias!r}.",
        where=str(ref),
        hint=f"Did you mean @{near[0]}?" if near else f"It has: {shown or 'none'}.",
        facts={"aliases": known},
    )


def _by_number(here: Sequence[VersionRecord], ref: DatasetRef) -> VersionRecord:
    rank = {"published": 0, "trial": 1, "retracted": 2}
    bearers = [each for each in here if each.version == ref.version]
    if bearers:
        return min(bearers, key=lambda each: rank[each.status])  # the newest of equals
    raise UnknownReference(
        f"{_name(here[0])} has no version {ref.version}.",
        where=str(ref),
        hint=_what_there_is(here),
        facts={"versions": _numbers(here)},
    )


def _newest(
    catalog: Catalog, here: Sequence[VersionRecord], ref: DatasetRef, *, retracted: bool
) -> VersionRecord:
    latest = catalog.version_by_alias(here[0].dataset, here[0].config, _LATEST)
    if latest is not None and latest.status == "published":
        return latest
    wanted = ("published", "retracted") if retracted else ("published",)
    for status in wanted:
        for each in here:
            if each.status == status:
                return each
    raise UnknownReference(
        f"{_name(here[0])} has no published version.",
        where=str(ref),
        hint=_what_there_is(here),
        facts={"versions": _numbers(here)},
    )


def _taken_back(catalog: Catalog, version: VersionRecord) -> UnknownReference:
    when = f" on {version.retracted:%Y-%m-%d}" if version.retracted else ""
    who = f" by {version.retracted_by}" if version.retracted_by else ""
    successor = catalog.version_by_id(version.successor_id) if version.successor_id else None
    return UnknownReference(
        f"{version.name} was retracted{who}{when}: {version.retract_reason or 'no reason given'}",
        where=version.uri,
        hint=f"Use {successor.name} instead." if successor else "It has no successor.",
        facts={
            "version_id": version.id,
            "who": version.retracted_by,
            "when": version.retracted.isoformat() if version.retracted else None,
            "reason": version.retract_reason,
            "successor": successor.name if successor else None,
        },
    )


def _name(version: VersionRecord) -> str:
    return f"{version.dataset}/{version.config}" if version.config else version.dataset


def _numbers(here: Sequence[VersionRecord]) -> dict[str, str]:
    """Number -> status, as a reference to the number would be understood."""
    found: dict[str, str] = {}
    for status in ("published", "trial", "retracted"):
        for each in here:
            if each.status == status:
                found.setdefault(each.version, status)
    return found


def _what_there_is(here: Sequence[VersionRecord]) -> str:
    numbers = _numbers(here)
    shown = [
        number if status == "published" else f"{number} ({status})"
        for number, status in sorted(numbers.items(), key=lambda item: _order(item[0]))
    ]
    aliases = sorted({alias for each in here for alias in each.aliases})
    text = f"There are: {_some(shown)}."
    return text + (f" Aliases: {', '.join('@' + a for a in aliases)}." if aliases else "")


def _order(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in number.split(".") if part.isdigit())


def _some(names: Sequence[str], most: int = 12) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
