"""The documents of an entry: what it consists of, and why it was computed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provender.data.cache.files import read_json, write_json, write_whole
from provender.data.cache.layout import Segment
from provender.data.cache.recipe import Recipe
from provender.fingerprint import Tree

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
WHY = "why.json"
DAMAGE = "damage.json"
# A later format must lie in another folder: two releases can share a cache.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a complete entry is. It names no path, so that entries can be moved and copied.

    Attributes:
        fingerprint: of the result.
        recipe: what it was made from, without the tree.
        segments: in order, from input row 0 to ``total``.
        total: input rows.
        rows: rows.
        schema: the Arrow schema, serialised.
        features: the features as a JSON-ready document, or None.
        facts: what else the transform wants kept, JSON-ready.
        created: seconds since the epoch.
        seconds: how long the last part of the computation took.
        host: where that was.
    """

    fingerprint: str
    recipe: Recipe
    segments: tuple[Segment, ...]
    total: int
    rows: int
    schema: bytes
    features: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    created: float = 0.0
    seconds: float = 0.0
    host: str = ""

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(each.size for each in self.segments)

    @property
    def digest(self) -> str:
        """Digest of the content: of the segments' digests in order."""
        text = "\n".join(each.digest for each in self.segments)
        return hashlib.blake2b(text.encode() + self.schema, digest_size=20).hexdigest()

    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema."""
        import pyarrow as pa

        return pa.ipc.read_schema(pa.py_buffer(self.schema))

    def write(self, folder: str) -> None:
        """Writes it whole; from then on the entry is complete."""
        doc = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "recipe": self.recipe.to_json(),
            "segments": [[e.start, e.stop, e.rows, e.size, e.digest] for e in self.segments],
            "total": self.total,
            "rows": self.rows,
            "schema": base64.b64encode(self.schema).decode(),
            "features": self.features,
            "facts": dict(self.facts),
            "created": self.created,
            "seconds": self.seconds,
            "host": self.host,
        }
        body = json.dumps(doc, ensure_ascii=False, separators=(",", ":")).encode()
        write_whole(os.path.join(folder, MANIFEST), body + b"\n" + _check(body) + b"\n")

    @classmethod
    def read(cls, folder: str, fingerprint: str) -> Manifest | None:
        """The manifest in an entry's folder; None where it is missing or not what was written."""
        try:
            with open(os.path.join(folder, MANIFEST), "rb") as file:
                body, _, check = file.read().rstrip(b"\n").rpartition(b"\n")
        except OSError:
            return None
        if check != _check(body):
            return None
        try:
            found = cls._from_json(json.loads(body))
        except (KeyError, TypeError, ValueError):
            return None
        # The names must be those of segments: they are opened, and removed when damaged.
        whole = all(Segment.from_file(each.file) == each for each in found.segments)
        return found if whole and found.fingerprint == fingerprint else None

    @classmethod
    def _from_json(cls, doc: Mapping[str, Any]) -> Manifest:
        if doc["format"] != _FORMAT:
            raise ValueError(doc["format"])
        return cls(
            fingerprint=doc["fingerprint"],
            recipe=Recipe.from_json(doc["recipe"]),
            segments=tuple(Segment(*each) for each in doc["segments"]),
            total=doc["total"],
            rows=doc["rows"],
            schema=base64.b64decode(doc["schema"]),
            features=doc["features"],
            facts=doc["facts"],
            created=doc["created"],
            seconds=doc["seconds"],
            host=doc["host"],
        )


def _check(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=20).hexdigest().encode()


@dataclass(frozen=True, slots=True)
class Why:
    """Why an entry was computed, and what is behind its fingerprint.

    Attributes:
        reasons: one JSON document a cause, as for stages.
        compared: fingerprint of the result that it was compared with, or None.
        tree: the named digests, or None where they are not known.
        recipe: what it is made from, without the tree; told of before there is a manifest.
    """

    reasons: tuple[Mapping[str, Any], ...] = ()
    compared: str | None = None
    tree: Tree | None = None
    recipe: Recipe | None = None

    def write(self, folder: str) -> None:
        """Writes it beside the segments."""
        doc = {
            "reasons": [dict(each) for each in self.reasons],
            "compared": self.compared,
            "tree": self.tree.to_json() if self.tree else None,
            "recipe": self.recipe.to_json() if self.recipe else None,
        }
        write_json(os.path.join(folder, WHY), doc)

    @classmethod
    def read(cls, folder: str) -> Why | None:
        """What `write` left; None where nothing readable is there."""
        doc = read_json(os.path.join(folder, WHY))
        try:
            if doc is None:
                return None
            tree = Tree.from_json(doc["tree"]) if doc["tree"] else None
            recipe = Recipe.from_json(doc["recipe"]) if doc["recipe"] else None
            return cls(tuple(doc["reasons"]), doc["compared"], tree, recipe)
        except (KeyError, TypeError):
            return None
