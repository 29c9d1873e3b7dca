"""How far a long reading or copying has come: a moving bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provender.cli.invocation import Invocation

Progress = Callable[[int, int], None]
"""Is told bytes done and bytes in all."""


@contextmanager
def byte_bar(call: Invocation, what: str) -> Iterator[Progress | None]:
    """A bar for the time of the block.

    Args:
        call: the invocation.
        what: what is going on, one word.

    Yields:
        Whom to tell, or None where nobody watches.
    """
    if not call.out.is_terminal or call.quiet:
        yield None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
        console=call.out.console,
        transient=True,
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
