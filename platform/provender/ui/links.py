"""Addresses of the pages, all in one place and all below the place where the pages are mounted."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

STATIC = Path(__file__).parent / "static"
LONGEST = 1_000
"""Names longer than that do not fit into an address."""

_SIMPLE = re.compile(r"[\w-][\w.~-]*")


class Links:
    """Makes addresses.

    Args:
        root: where the pages are mounted, e.g. ``/provender``; empty at the root of a server.
    """

    def __init__(self, root: str = "") -> None:
        self.root = root.rstrip("/")

    def to(self, path: str, **query: Any) -> str:
        """An address below the mount; parameters that are None or empty are left out.

        Args:
            path: begins with a slash; quoted already.
            query: the parameters; a list gives one for each of its values.
        """
        pairs: list[tuple[str, str]] = []
        for name, value in query.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            pairs += [(name, _text(each)) for each in values if each not in (None, "")]
        return f"{self.root}{path}" + (f"?{urlencode(pairs)}" if pairs else "")

    def home(self, page: int | None = None) -> str:
        """All datasets."""
        return self.to("/", page=page)

    def dataset(self, name: str, config: str = "", of: str | None = None, **query: Any) -> str:
        """A dataset's versions.

        Args:
            name: dataset name.
            config: builder config.
            of: id of one of its versions, which names it where its own name cannot.
            query: page, and the like.
        """
        if len(name) + len(config) > LONGEST:
            return self.to("/dataset", of=of, **query) if of else self.home()
        if _SIMPLE.fullmatch(name) and name.isascii():
            return self.to(f"/datasets/{name}", config=config, **query)
        return self.to("/dataset", name=name, config=config, **query)

    def version(self, id: str, part: str = "", **query: Any) -> str:
        """A version, or a part of its page: ``files``, ``examples``, ``consumers``."""
        return self.to(f"/versions/{_quoted(id)}" + (f"/{part}" if part else ""), **query)

    def image(self, version_id: str, split: str, number: int, feature: str, item: int) -> str:
        """One image of one example."""
        return self.version(
            version_id, "image", split=split, example=number, feature=feature, item=item
        )

    def lineage(self, id: str, **query: Any) -> str:
        """The lineage around a version, a stage execution or an artifact."""
        return self.to(f"/lineage/{_quoted(id)}", **query)

    def node(self, kind: str, id: str) -> str:
        """The page of a node of the lineage."""
        if kind == "version":
            return self.version(id)
        return self.stage(id) if kind == "stage" else self.lineage(id, direction="both")

    def runs(self, **query: Any) -> str:
        """Runs, newest first."""
        return self.to("/runs", **query)

    def run(self, id: str, **query: Any) -> str:
        """A run and its stages."""
        return self.to(f"/runs/{_quoted(id)}", **query)

    def stage(self, id: str) -> str:
        """One execution of a stage."""
        return self.to(f"/stages/{_quoted(id)}")

    def diff(self, a: str | None = None, b: str | None = None, **query: Any) -> str:
        """The difference of two versions, or the form that asks for it."""
        return self.to("/diff", a=a, b=b, **query)

    def search(self, words: str | None = None) -> str:
        """What matches some words, or the form that asks for them."""
        return self.to("/search", q=words)

    def jobs(self, **query: Any) -> str:
        """Jobs that read versions."""
        return self.to("/jobs", **query)

    def job(self, name: str, **query: Any) -> str:
        """What a job has read."""
        return self.to("/jobs", name=name, **query) if len(name) <= LONGEST else self.jobs()

    def go(self, ref: str) -> str:
        """Leads to what a reference means, e.g. ``xsum@golden``."""
        return self.to("/go", ref=ref)

    def api(self, path: str = "", **query: Any) -> str:
        """The JSON twin of a page."""
        return self.to(f"/api{path}", **query)

    def static(self, name: str) -> str:
        """A file that came with the program; its address changes with its content."""
        return self.to(f"/static/{name}", v=_version_of(name))


@lru_cache
def _version_of(name: str) -> str:
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:10]


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="")


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode("utf-8")
