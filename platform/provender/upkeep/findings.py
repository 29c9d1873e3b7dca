"""What the doctor reports, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        kind: ``catalog``, ``store``, ``space``, ``program``, ``manual_dir``; ``dead_run``,
            ``dead_stage``, ``dead_claim``; ``temporary``, ``leftover``, ``half_published``,
            ``stale_memory``; ``shared_store``, ``unregistered``, ``damaged_version``, ``changed_version``.
        what: what was found, for people.
        where: path, URL or id.
        fixable: whether the doctor can put it right.
        fixed: whether it did.
        hint: what to do about it.
        level: ``error`` where something needed does not work, else ``warning``.
        size: bytes that mending frees, 0 where it frees none.
    """

    kind: str
    what: str
    where: str
    fixable: bool = False
    fixed: bool = False
    hint: str = ""
    level: str = "warning"
    size: int = 0

    def to_json(self) -> dict[str, Any]:
        """The finding for ``--json``."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding together with its remedy.

    Attributes:
        finding: what is wrong.
        mend: puts it right and says whether it did; it may refuse when it meets a live process.
    """

    finding: Finding
    mend: Callable[[], bool] | None = None

    def settle(self, *, fix: bool) -> Finding:
        """The finding, after mending it where asked to."""
        found = replace(self.finding, fixable=self.mend is not None)
        return replace(found, fixed=self.mend()) if fix and self.mend else found


def size_text(count: int) -> str:
    """A number of bytes as people read it: ``1.5 GiB``."""
    value = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
