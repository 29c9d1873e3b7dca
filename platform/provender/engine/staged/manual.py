"""Waiting for files that people must put in place."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from provender.engine.staged.documents import RunDoc
from provender.engine.staged.running import reopened
from provender.settings import Settings
from provender.stages import manual

SETTLED = 10.0
"""Seconds for which a file must not have changed to count as whole."""

ANY = "any file"
"""What is missing from an empty folder where the builder names no files."""


@dataclass(frozen=True)
class ManualState:
    """Which files that people must provide are there.

    Attributes:
        ready: whether all of them are there and whole, or none are needed.
        folder: where they are looked for, or None where none are needed.
        instructions: the builder's own words on how to get them.
        missing: names or patterns that nothing was found for.
        growing: files that changed a moment ago, so that they may be half-written.
    """

    ready: bool
    folder: str | None = None
    instructions: str = ""
    missing: tuple[str, ...] = ()
    growing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "missing": list(self.missing), "growing": list(self.growing)}

    def __str__(self) -> str:
        if self.ready:
            return f"All manual files are in {self.folder}." if self.folder else "None are needed."
        lines = [f"Waiting for files in {self.folder}."]
        lines += [f"  missing: {name}" for name in self.missing]
        lines += [f"  still being written: {name}" for name in self.growing]
        return "\n".join([*lines, "How to get them:", self.instructions.strip()])


def look_for_manual(
    doc: RunDoc, settings: Settings | None = None, *, settled: float = SETTLED
) -> ManualState:
    """Looks once; changes nothing, and reads no file's content while one is still growing.

    Args:
        doc: the run.
        settings: the project's settings; by default those that the run names.
        settled: seconds for which a file must not have changed to count as whole.

    Raises:
        ChecksumMismatch: a whole file is not the one that is declared.
    """
    session = reopened(doc, settings)
    with session.catalog:
        need = session.facts.manual
        if not need:
            return ManualState(True)
        place = session.work.site.manual_dir
        missing, files = _look(Path(place or ""), list(need["files"]))
        growing = tuple(_growing(Path(place or ""), files, settled))
        if not missing and not growing:
            manual.look(session.facts, place, session.digests)
        return ManualState(
            not missing and not growing, place, need["instructions"] or "", missing, growing
        )


def _look(folder: Path, declared: list[str]) -> tuple[tuple[str, ...], list[Path]]:
    """The declared names that nothing was found for, and the files found."""
    from provender.builders.download.manual import matches, walk

    if not folder.is_dir():
        return tuple(declared) or (ANY,), []
    if not declared:
        files = list(walk(folder))
        return (() if files else (ANY,)), files
    found = {name: list(matches(folder, name)) for name in declared}
    places = [place for each in found.values() for place in each]
    files = [f for place in places for f in (walk(place) if place.is_dir() else (place,))]
    return tuple(name for name, each in found.items() if not each), files


def _growing(folder: Path, files: Iterable[Path], settled: float) -> Iterator[str]:
    """Files that were written to within the last seconds."""
    now = time.time()
    for path in sorted(files):
        # A time in the future comes from another clock, and says nothing.
        if 0 <= now - path.stat().st_mtime < settled:
            yield path.relative_to(folder).as_posix()
