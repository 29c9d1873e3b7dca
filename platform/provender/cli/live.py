"""A build on a terminal: one moving line a stage, with bar, rate and time left.

The display begins with the first stage that runs, so that a build with nothing to do never
loads Rich's progress bars.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from provender.cli.units import amount_text, seconds_text
from provender.cli.watching import RUNNING, StageView, Watch

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
        line = self._line(view.key)
        task = self._tasks.get(line)
        if task is None:
            task = self._tasks[line] = self._progress.add_task(
                line, total=None, state="", amount="", rate=""
            )
        self._draw(self._progress, task, line, view)

    def _line(self, key: str) -> str:
        """Shards of one split share a line: a terminal has no room for thousands."""
        if self._verbose or not key.startswith("shards/"):
            return key
        return key.rpartition("/")[0]

    def _draw(self, progress: Progress, task: TaskID, line: str, view: StageView) -> None:
        if line == view.key:
            done, total, state = view.done, view.total, view.state
            amount, rate = amount_text(done, view.unit) if view.unit else "", ""
            passed = self._watch.elapsed(view)
            if view.state == RUNNING and passed and done:
                rate = f"{amount_text(done / passed, view.unit)}/s"
        else:
            done, total, state, amount = self._shards(line)
            rate = ""
        if state in ("ran", "reused"):
            done = total = max(done, total or 0, 1)
            rate = seconds_text(view.seconds) if line == view.key else ""
        if view.holder:
            state, amount = "waiting", f"for {view.holder}"
        progress.update(
            task,
            completed=done,
            total=total or None,
            state=f"[{_STATES.get(state, 'dim')}]{state}[/]",
            amount=amount,
            rate=rate,
        )

    def _shards(self, line: str) -> tuple[int, int, str, str]:
        views = [view for key, view in self._watch.views.items() if key.startswith(f"{line}/")]
        states = [view.state for view in views]
        ended = sum(state in ("hit", "ran", "reused") for state in states)
        state = next((s for s in ("failed", RUNNING) if s in states), "ran")
        if ended < len(states) and state == "ran":
            state = RUNNING
        return ended, len(views), state, f"{ended} of {len(views)} shards"


def _progress(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    return Progress(
        TextColumn("{task.fields[state]}", table_column=Column(min_width=7)),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[amount]}", markup=False, justify="right"),
        TextColumn("{task.fields[rate]}", markup=False, justify="right"),
        TimeRemainingColumn(compact=True),
        console=console,
    )
