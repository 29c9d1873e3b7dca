"""Progress of long transforms, on a terminal only."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Any, Self

_SHOWN_AFTER = 0.5
_enabled = True


def disable_progress_bars() -> None:
    """Shows no progress bars; so does the environment variable ``PROVENDER_NO_PROGRESS=1``."""
    global _enabled
    _enabled = False


def enable_progress_bars() -> None:
    """Shows progress bars on terminals; so it is from the start."""
    global _enabled
    _enabled = True


disable_progress_bar = disable_progress_bars
enable_progress_bar = enable_progress_bars


def are_progress_bars_enabled() -> bool:
    """Whether progress bars are shown on terminals."""
    return _enabled and os.environ.get("PROVENDER_NO_PROGRESS", "") in ("", "0")


class Progress:
    """A bar that counts rows, shown once the work takes longer than half a second.

    Args:
        text: what is done.
        total: rows, where known.
        done: rows that were done before.
    """

    def __init__(self, text: str, total: int | None, done: int = 0) -> None:
        self._text = text
        self._total = total
        self._done = done
        self._began = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._wanted = are_progress_bars_enabled() and _is_terminal()

    def advance(self, rows: int) -> None:
        """Counts rows."""
        self._done += rows
        if not self._wanted:
            return
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)
        elif time.monotonic() - self._began > _SHOWN_AFTER:
            self._show()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(self._text, total=self._total, completed=self._done)
        self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def tell(text: str) -> None:
    """One line about a wait, to someone at a terminal."""
    if are_progress_bars_enabled() and _is_terminal():
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):
        return False
