"""How far a long command has come: a bar for each step on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from provender.cli.units import amount_text, seconds_text

if TYPE_CHECKING:
    from provender.cli.invocation import Invocation

Tell = Callable[[str, int, int, str], None]
"""Is told a step, how much is done, how much there is, and in what unit."""

_SECONDS = 60.0
"""Between lines of a step that goes on."""


@contextmanager
def steps(call: Invocation) -> Iterator[Tell]:
    """Whom to tell for the time of the block.

    Args:
        call: the invocation; under ``--json`` and ``--quiet`` nothing is shown.
    """
    if call.json or call.quiet:
        yield lambda step, done, total, unit: None
    elif call.out.is_terminal:
        with _bars(call) as tell:
            yield tell
    else:
        yield _Lines(call.out.line)


@contextmanager
def _bars(call: Invocation) -> Iterator[Tell]:
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[amount]}", markup=False, justify="right"),
        TextColumn("{task.fields[pace]}", markup=False),
        console=call.out.console,
        transient=True,
    ) as bar:
        tasks: dict[str, Any] = {}
        paces: dict[str, _Pace] = {}

        def tell(step: str, done: int, total: int, unit: str) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total, amount="", pace="")
                paces[step] = _Pace(done)
            amount = f"{amount_text(done, unit)} of {amount_text(total, unit)}"
            pace = paces[step].text(done, total, unit)
            bar.update(tasks[step], completed=done, total=total, amount=amount, pace=pace)

        yield tell


class _Pace:
    """Rate and time left of a step; what an earlier run had done does not count."""

    def __init__(self, done: int) -> None:
        self._before = done
        self._began = time.monotonic()

    def text(self, done: int, total: int, unit: str) -> str:
        """``1.2 MiB/s, 14 s left``."""
        passed = time.monotonic() - self._began
        if done >= total:
            return seconds_text(passed)
        if done <= self._before or passed <= 0:
            return ""
        rate = (done - self._before) / passed
        return f"{amount_text(rate, unit)}/s, {seconds_text((total - done) / rate)} left"


class _Lines:
    """A line for each step that is finished, and one a minute for a step that takes long."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._paces: dict[str, _Pace] = {}
        self._said = time.monotonic()

    def __call__(self, step: str, done: int, total: int, unit: str) -> None:
        pace = self._paces.setdefault(step, _Pace(done))
        now = time.monotonic()
        if done >= total:
            self._write(f"{step}  {amount_text(total, unit)}  {pace.text(total, total, unit)}")
        elif now - self._said >= _SECONDS:
            amount = f"{amount_text(done, unit)} of {amount_text(total, unit)}"
            self._write(f"{step}  {amount}  {pace.text(done, total, unit)}".rstrip())
        else:
            return
        self._said = now
