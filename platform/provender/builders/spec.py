"""A builder as data: enough to load it again in another process or on another machine.

A `BuilderSpec` is what stages, workers and orchestrators pass around instead of a pickle.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from provender.errors import UnknownReference
from provender.refs import DatasetRef
from provender.settings import Settings

SHIPPED = {
    "digits": "provender.builders.digits:Digits",
    "xsum": "provender.builders.xsum:Xsum",
}
"""Builders that come with Provender, by dataset name. They win over TFDS's own of that name."""


@dataclass(frozen=True)
class BuilderSpec:
    """Names a builder and its arguments.

    Attributes:
        source: ``tfds:NAME``, ``module:Class`` or ``/absolute/file.py:Class``.
        config: config name, or None for the builder's default.
        version: ``x.y.z``, or None for the builder's newest.
        kwargs: JSON-ready keyword arguments for the constructor.
        name: what the project calls the dataset, for a builder that asks for its name (see
            `provender.builders.meanings`); others have one of their own.
    """

    source: str
    config: str | None = None
    version: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict that `from_json` reads."""
        doc = {
            "source": self.source,
            "config": self.config,
            "version": self.version,
            "kwargs": dict(self.kwargs),
        }
        return doc if self.name is None else {**doc, "name": self.name}

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> BuilderSpec:
        """Reads what `to_json` wrote."""
        kwargs = doc.get("kwargs") or {}
        return cls(doc["source"], doc.get("config"), doc.get("version"), kwargs, doc.get("name"))

    def with_(
        self, config: str | None, version: str | None, kwargs: Mapping[str, Any] | None = None
    ) -> BuilderSpec:
        """A copy with what is given replaced and keyword arguments merged."""
        return replace(
            self,
            config=config or self.config,
            version=version or self.version,
            kwargs={**self.kwargs, **(kwargs or {})},
        )


def spec_of(
    ref: DatasetRef, settings: Settings, remembered: Mapping[str, BuilderSpec] | None = None
) -> BuilderSpec:
    """Finds the builder that a reference means.

    Names are looked up in provender.toml, then among the shipped builders, then among builders
    that made earlier versions, and last in the TFDS registry.

    Args:
        ref: the reference; an alias is not a thing that can be built.
        settings: where the project's own names are.
        remembered: dataset name -> the builder that built it before.

    Returns:
        The spec; the builder itself is not loaded.

    Raises:
        UnknownReference: nothing has that name; the message says what comes near.
    """
    if ref.target:
        return BuilderSpec(ref.target, ref.config, ref.version)
    if ref.alias:
        raise UnknownReference(
            f"{ref} names a published version; it cannot be built.",
            where=str(ref),
            hint=f"`provender build {ref.name}` builds, `provender show {ref}` shows.",
        )
    entry = settings.datasets.get(ref.name)
    if entry is not None and entry.builder:
        source = _source(entry.builder)
        base = BuilderSpec(source, entry.config, entry.version, entry.kwargs, ref.name)
        return base.with_(ref.config, ref.version)
    if ref.name in SHIPPED:
        return BuilderSpec(SHIPPED[ref.name], ref.config, ref.version)
    if remembered and ref.name in remembered:
        return remembered[ref.name].with_(ref.config, ref.version)
    names = registered_names()
    if ref.name in names:
        return BuilderSpec(f"tfds:{ref.name}", ref.config, ref.version)
    own = [name for name, each in settings.datasets.items() if each.builder]
    known = [*own, *SHIPPED, *(remembered or ()), *names]
    near = difflib.get_close_matches(ref.name, known, 4, 0.6)
    raise UnknownReference(
        f"There is no dataset {ref.name!r}.",
        where=str(ref),
        hint=(f"Near: {', '.join(near)}. " if near else "")
        + "`provender datasets --all` lists every name; "
        "a class is given as package.module:Class or file.py:Class.",
        facts={"near": near},
    )


def _source(builder: str) -> str:
    """The registry's spelling of a builder: a bare name means a shipped or TFDS builder."""
    return builder if ":" in builder else SHIPPED.get(builder, f"tfds:{builder}")


def registered_names() -> list[str]:
    """Names of every builder of the installed TFDS catalog (imports TFDS, not TensorFlow)."""
    import tensorflow_datasets as tfds

    return list(tfds.list_builders(with_community_datasets=False))
