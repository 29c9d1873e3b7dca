"""What a result is made from, as the cache keeps it for people and for the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from provender.fingerprint import Tree

UNNAMED = "unnamed"
"""The dataset of a transform whose source has no name."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a result is made. Only its parents and names count for lineage and for comparison.

    Attributes:
        transform: what is done: ``map``, ``filter``, ``sort``, ``from_csv`` ...
        name: what it is done with, e.g. the function's name; empty where there is nothing.
        dataset: name of the dataset at the root, as the catalog has it; empty takes that of the
            parents.
        config: builder config of that dataset.
        parents: fingerprints of the entries and published versions that it was made from.
        parameters: name -> value as text, for people.
        tree: the named digests behind the fingerprint, or what makes them: it is called only when
            the result has to be computed.
    """

    transform: str
    name: str = ""
    dataset: str = ""
    config: str = ""
    parents: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    tree: Tree | Callable[[], Tree | None] | None = None

    @property
    def title(self) -> str:
        """``map(tokenize)``."""
        return f"{self.transform}({self.name})" if self.name else self.transform

    @property
    def key(self) -> str:
        """The stage key under which the catalog knows it: ``transform/map/tokenize``."""
        parts = ("transform", self.transform, *([self.name] if self.name else []))
        return "/".join(part.replace("/", "_") for part in parts)

    def grown(self) -> Tree | None:
        """The tree, made now if it was not yet."""
        return self.tree() if callable(self.tree) else self.tree

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, without the tree."""
        return {
            "transform": self.transform,
            "name": self.name,
            "dataset": self.dataset,
            "config": self.config,
            "parents": list(self.parents),
            "parameters": dict(self.parameters),
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Recipe:
        """The recipe that `to_json` described."""
        return cls(
            transform=str(doc.get("transform", "")),
            name=str(doc.get("name", "")),
            dataset=str(doc.get("dataset", "")),
            config=str(doc.get("config", "")),
            parents=tuple(doc.get("parents", ())),
            parameters=dict(doc.get("parameters", {})),
        )
