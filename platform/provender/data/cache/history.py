"""What was computed before, and so: why something is computed now."""

# ruff: noqa: PTH208

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provender.data.cache.files import read_json, remove, write_json
from provender.data.cache.recipe import Recipe
from provender.errors import ProvenderError
from provender.fingerprint import Change, Tree, explain

KEPT = 8
"""So many earlier results of one dataset and name are remembered, also after they were evicted."""


@dataclass(frozen=True, slots=True)
class Past:
    """An earlier result.

    Attributes:
        fingerprint: its fingerprint.
        tree: the named digests behind it, or None.
        when: seconds since the epoch.
    """

    fingerprint: str
    tree: Tree | None
    when: float


class History:
    """The last few results of each dataset and transform name.

    Args:
        folder: the cache's folder of such records.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def add(self, fingerprint: str, recipe: Recipe, tree: Tree | None, when: float) -> None:
        """Remembers a result; forgets the oldest of its kind above `KEPT`."""
        place = self._place(recipe)
        doc = {"recipe": recipe.to_json(), "tree": tree.to_json() if tree else None, "when": when}
        try:
            os.makedirs(place, exist_ok=True)
            write_json(os.path.join(place, f"{fingerprint}.json"), doc)
        except (ProvenderError, OSError):
            return  # only an explanation is lost; what matters reports a full disk itself
        for each in self.of(recipe)[KEPT:]:
            remove(os.path.join(place, f"{each.fingerprint}.json"))

    def of(self, recipe: Recipe) -> list[Past]:
        """The results of the same dataset and name, newest first."""
        place = self._place(recipe)
        try:
            names = os.listdir(place)
        except OSError:
            return []
        found: list[Past] = []
        for name in names:
            doc = read_json(os.path.join(place, name))
            if doc is None or not name.endswith(".json"):
                continue
            try:
                tree = Tree.from_json(doc["tree"]) if doc["tree"] else None
                found.append(Past(name.removesuffix(".json"), tree, float(doc["when"])))
            except (KeyError, TypeError, ValueError):
                continue
        return sorted(found, key=lambda each: each.when, reverse=True)

    def _place(self, recipe: Recipe) -> str:
        key = "\0".join((recipe.dataset, recipe.config, recipe.transform, recipe.name))
        return os.path.join(self._folder, hashlib.blake2b(key.encode(), digest_size=16).hexdigest())


def changes(
    fingerprint: str, tree: Tree | None, past: list[Past]
) -> tuple[list[Mapping[str, Any]], str | None]:
    """Why a result that is not there has to be computed.

    Args:
        fingerprint: of the result.
        tree: behind it, or None.
        past: results of the same dataset and name.

    Returns:
        Reasons, one JSON document a cause, and the fingerprint of the earlier result that it was
        compared with: the one from which the least changed.
    """
    if any(each.fingerprint == fingerprint for each in past):
        return [{"kind": "missing", "what": "its cache entry"}], fingerprint
    if not past:
        return [{"kind": "first"}], None
    known = [(each, explain(each.tree, tree)) for each in past if each.tree and tree]
    if not known:
        both = Change(("fingerprint",), "changed", past[0].fingerprint, fingerprint)
        return [both.to_json()], past[0].fingerprint
    nearest, found = min(known, key=lambda pair: len(pair[1]))
    return [each.to_json() for each in found], nearest.fingerprint
