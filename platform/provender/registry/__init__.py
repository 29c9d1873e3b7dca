"""The datasets of a project, as provender.toml and the files that it includes name them."""

from __future__ import annotations

from provender.registry.dag import DagSettings
from provender.registry.entries import Checks, DatasetEntry
from provender.registry.reading import Problem, Registry, placed, read_registry

__all__ = [
    "Checks",
    "DagSettings",
    "DatasetEntry",
    "Problem",
    "Registry",
    "placed",
    "read_registry",
]
