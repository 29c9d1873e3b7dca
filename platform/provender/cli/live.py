"""A build on a terminal: one moving line a stage, with bar, rate and time left.

The display begins with the first stage that runs, so that a build with nothing to do never
loads Rich's progress bars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from provender.cli.units import amount_text, seconds_text
from provender.cli.watching import RUNNING, WHOLE, StageView, Watch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_STATES = {"ran": "green", "reused": "green", "failed": "red", RUNNING: "yellow"}


class Live:
    """Draws the stages of a build while they run; leaves nothing behind if all went well.

    Args:
        watch: follows the events.
        console: where to draw.
        verbose: whether each shard has a line of its own.
    """

    def __init__(self, watch: Watch, console: Console, *, verbose: bool) -> None:
        self._watch = watch
        self._console = console
        self._verbose = verbose
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Live:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._progress is not None:
            self._progress.live.transient = kind is None
            self._progress.stop()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Takes in one event of the build."""
        view = self._watch.see(event)
        if view is None or (view.began is None and view.holder is None and view.state != "reused"):
            return
        if self._progress is None:
            self._progress = _progress(self._console)
            self._progress.start()
        if event["event"] == "start" and WHOLE in self._tasks:
            self._progress.remove_task(self._tasks.pop(WHOLE))
        line = self._line(view.key)
        task = self._tasks.get(line)
        if task is None:
            task = self._tasks[line] = self._progress.add_task(
                line, total=None, state="", amount="", pace=""
            )
        self._draw(self._progress, task, line, view)

    def _line(self, key: str) -> str:
        """Shards of one split share a line: a terminal has no room for thousands."""
        if self._verbose or not key.startswith("shards/"):
            return key
        return key.rpartition("/")[0]

    def _draw(self, progress: Progress, task: TaskID, line: str, view: StageView) -> None:
        shown = self._stage(view) if line == view.key else self._shards(line)
        if view.holder:
            shown = replace(shown, state="waiting", amount=f"for {view.holder}", pace="")
        progress.update(
            task,
            completed=shown.done,
            total=shown.total,
            state=f"[{_STATES.get(shown.state, 'dim')}]{shown.state}[/]",
            amount=shown.amount,
            pace=shown.pace,
        )

    def _stage(self, view: StageView) -> _Shown:
        amount = amount_text(view.done, view.unit) if view.unit else ""
        if view.state in ("ran", "reused"):
            return _Shown(view.state, 1, 1, amount, seconds_text(view.seconds))
        rate = view.done / (self._watch.elapsed(view) or 1.0)
        pace = f"{amount_text(rate, view.unit)}/s" if view.done else ""
        if view.total and rate:
            amount = f"{amount} of {amount_text(view.total, view.unit)}"
            pace += f", {seconds_text((view.total - view.done) / rate)} left"
        return _Shown(view.state, view.done, view.total or None, amount, pace)

    def _shards(self, line: str) -> _Shown:
        views = [view for key, view in self._watch.views.items() if key.startswith(f"{line}/")]
        ended = sum(view.state in ("hit", "ran", "reused") for view in views)
        amount = f"{ended} of {len(views)} shards"
        if any(view.state == "failed" for view in views):
            return _Shown("failed", ended, len(views), amount)
        if ended == len(views):
            return _Shown("ran", ended, len(views), amount)
        made = sum(view.state == "ran" for view in views)
        passed = max(self._watch.elapsed(view) for view in views)
        left = f"{seconds_text(passed / made * (len(views) - ended))} left" if made else ""
        return _Shown(RUNNING, ended, len(views), amount, left)


@dataclass(frozen=True)
class _Shown:
    """What one line of the display says."""

    state: str
    done: int
    total: int | None
    amount: str
    pace: str = ""


def _progress(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    return Progress(
        TextColumn("{task.fields[state]}", table_column=Column(min_width=7)),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[amount]}", markup=False, justify="right"),
        TextColumn("{task.fields[pace]}", markup=False),
        console=console,
    )
