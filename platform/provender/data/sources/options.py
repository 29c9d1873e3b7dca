"""How sources of files read: what to do with damage, how far ahead, through which cache."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from provender.data.sources.access import DataFile, RangeReader, content_of, open_reader
from provender.errors import DamageError, InputError, ProvenderError, SettingsError, StoreError

OnError = Literal["raise", "skip"]


class Skipped:
    """What was passed over, counted in this process by kind; shared by sources made of one another."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, what: str, count: int = 1) -> None:
        """Counts."""
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + count

    def __getstate__(self) -> dict[str, Any]:
        return {"counts": dict(self.counts)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.counts = state["counts"]
        self._lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read; none of this changes what rows there are.

    Attributes:
        on_error: what to do with a damaged record or shard, or a missing one: raise, or count it
            and go on behind it.
        ahead: most bytes that one open stream requests before they are wanted.
        cache: keep remote shards in the local shard cache and read them from there.
        quick: for the identity, sample large local files instead of reading them whole.
        digests: folder in which digests of local files are remembered.
        skipped: where what is skipped is counted.
    """

    on_error: OnError = "raise"
    ahead: int = 8 << 20
    cache: bool = False
    quick: bool = True
    digests: Path | None = None
    skipped: Skipped = field(default_factory=Skipped, compare=False)

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise SettingsError(
                f"on_error cannot be {self.on_error!r}.",
                where="on_error",
                hint="Use raise or skip.",
            )
        if self.ahead < 0:
            raise SettingsError(
                f"read_ahead cannot be {self.ahead}.",
                where="read_ahead",
                hint="Give bytes, e.g. 8 << 20.",
            )

    def open(self, file: DataFile) -> RangeReader:
        """A reader of a file, through the shard cache where it is on and the file is remote."""
        if self.cache:
            from provender.data.sources.access.cached import open_cached

            return open_cached(file)
        return open_reader(file)

    def content(self, file: DataFile) -> str:
        """What stands for a file's content; see `content_of`."""
        memory = None
        if self.digests is not None:
            from provender.builders.download import DigestMemory

            memory = DigestMemory(self.digests)
        return content_of(file, quick=self.quick, memory=memory)

    def forgives(self, error: BaseException, what: str) -> bool:
        """Counts an error that is to be passed over; False where it has to be raised.

        Args:
            error: what was raised.
            what: the kind of thing that is lost: ``shards``, ``records`` ...
        """
        if self.on_error != "skip" or not isinstance(error, (DamageError, InputError, StoreError)):
            return False
        if isinstance(error, StoreError) and "missing" not in error.facts:
            return False  # the network is down: skipping would lose everything
        self.skipped.add(what)
        _log(error, what)
        return True


def _log(error: ProvenderError, what: str) -> None:
    import logging

    logging.getLogger("provender.data").warning(
        "skipped (%s): %s [%s]", what, error.message, error.where
    )
