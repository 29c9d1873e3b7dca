"""Trees of named digests, and what changed between two of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

_DEFINITION: Final = re.compile(
    r"(global|function|method|class attribute|class|module|distribution|file) "
)

CODE: Final = "code"
"""Kind of a part whose value is a listing of source lines."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A fingerprint with its named parts.

    The digest of the root is the fingerprint. Digests further down say whether that part itself
    changed: what a part merely refers to is listed beside it, once, so that one edit is one change.

    Attributes:
        name: what the part is called, e.g. ``global helpers.THRESHOLD``.
        kind: type or role, e.g. ``int``, ``function``, ``distribution``.
        digest: hexadecimal, 40 characters.
        value: short text of a leaf for people, without secrets, at most 200 characters; of a
            function's body its source lines, at most 8000.
        children: the parts.
    """

    name: str
    kind: str
    digest: str
    value: str | None = None
    children: tuple[Tree, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, with keys of one letter: n(ame), k(ind), d(igest), v(alue), c(hildren)."""
        doc: dict[str, Any] = {"n": self.name, "k": self.kind, "d": self.digest}
        if self.value is not None:
            doc["v"] = self.value
        if self.children:
            doc["c"] = [child.to_json() for child in self.children]
        return doc

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Tree:
        """The tree that `to_json` described."""
        return cls(
            doc["n"],
            doc["k"],
            doc["d"],
            doc.get("v"),
            tuple(cls.from_json(child) for child in doc.get("c", ())),
        )


@dataclass(frozen=True)
class Change:
    """One difference between two fingerprints.

    Attributes:
        path: names from below the root to the part.
        kind: ``changed``, ``added`` or ``removed``.
        old: short text of the old value, where there is one.
        new: short text of the new value.
    """

    path: tuple[str, ...]
    kind: Literal["changed", "added", "removed"]
    old: str | None = None
    new: str | None = None

    def __str__(self) -> str:
        """One line, e.g. ``global helpers.THRESHOLD: 1 -> 2``."""
        start = max((i for i, name in enumerate(self.path) if _DEFINITION.match(name)), default=0)
        names = [name.removeprefix("distribution ") for name in self.path[start:]]
        if self.kind == "changed" and names[-1] == "body" and len(names) > 1:
            return f"{' -> '.join(names[:-1])}: {self._lines()}"
        subject = " -> ".join(names)
        if self.kind != "changed":
            value = self.new if self.kind == "added" else self.old
            return f"{subject}: {self.kind}" + (f" ({value})" if value is not None else "")
        if self.old is None or self.new is None or self.old == self.new:
            return f"{subject}: changed"
        return f"{subject}: {self.old} -> {self.new}"

    def _lines(self) -> str:
        if self.old is not None and self.new is not None:
            return f"{self.old} -> {self.new}"
        if self.old is not None:
            return f"removed {self.old}"
        return f"added {self.new}" if self.new is not None else "body changed"

    def to_json(self) -> dict[str, Any]:
        """JSON-ready: ``path, kind, old, new``."""
        return {"path": list(self.path), "kind": self.kind, "old": self.old, "new": self.new}

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Change:
        """The change that `to_json` described."""
        return cls(tuple(doc["path"]), doc["kind"], doc.get("old"), doc.get("new"))


def explain(old: Tree, new: Tree) -> list[Change]:
    """Why two fingerprints differ; empty when they do not.

    When no part that the trees show has changed (they show a bounded part of large data), the
    answer is one change of the root.
    """
    if old.digest == new.digest:
        return []
    return _compare(old, new, ()) or [Change((new.name,), "changed", old.value, new.value)]


def _compare(old: Tree, new: Tree, path: tuple[str, ...]) -> list[Change]:
    before, after = _by_name(old), _by_name(new)
    changes: list[Change] = []
    for key, part in before.items():
        other = after.get(key)
        here = (*path, part.name)
        if other is None:
            changes.append(Change(here, "removed", part.value, None))
        elif part.digest != other.digest:
            changes += _compare(part, other, here) or [_changed(here, part, other)]
    for key, part in after.items():
        if key not in before:
            changes.append(Change((*path, part.name), "added", None, part.value))
    return changes


def _changed(path: tuple[str, ...], old: Tree, new: Tree) -> Change:
    if old.kind == new.kind == CODE:
        from provender.fingerprint.listing import changed_lines

        return Change(path, "changed", *changed_lines(old.value, new.value))
    return Change(path, "changed", old.value, new.value)


def _by_name(tree: Tree) -> dict[tuple[str, int], Tree]:
    found: dict[tuple[str, int], Tree] = {}
    for child in tree.children:
        number = 0
        while (child.name, number) in found:
            number += 1
        found[child.name, number] = child
    return found
