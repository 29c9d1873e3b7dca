"""What a build has said so far, as data: one view a stage, and the rows of its summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from provender.cli.stage_rows import Row, is_part, reason_texts, whole_stage

RUNNING = "running"
WHOLE = "build"
"""The name under which a build waits for another build of the same version."""


@dataclass
class StageView:
    """One stage, its parts taken together.

    Attributes:
        key: stage key.
        state: ``hit``, ``run``, ``wait``, ``running``, ``ran``, ``reused`` or ``failed``.
        why: reasons, one sentence each.
        done: how much is done, in ``unit``.
        total: how much there is, or None where nobody knows.
        unit: ``bytes``, ``examples`` ...
        seconds: work time of the finished stage.
        began: clock reading at its first start.
        holder: who else is at work on it.
        error: message of what ended it.
    """

    key: str
    state: str = "wait"
    why: tuple[str, ...] = ()
    done: int = 0
    total: int | None = None
    unit: str = ""
    seconds: float | None = None
    began: float | None = None
    holder: str | None = None
    error: str | None = None
    parts: dict[str, int] = field(default_factory=dict)


class Watch:
    """Follows the events of a build (`provender.engine.build`).

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.views: dict[str, StageView] = {}
        self._clock = clock

    def see(self, event: Mapping[str, Any]) -> StageView | None:
        """Takes in one event.

        Returns:
            The view it changed; None for a plan, which changes many.
        """
        kind = event["event"]
        if kind == "plan":
            self._plan(event["plan"])
            return None
        key = event["stage"]
        view = self.views.setdefault(whole_stage(key), StageView(whole_stage(key)))
        if kind == "start":
            self._start(view, event["reasons"])
        elif kind == "progress":
            self._progress(view, key, event)
        elif kind == "done":
            self._done(view, key, event)
        elif kind == "failed":
            view.state, view.error = "failed", str(event["error"].get("message", ""))
        elif kind == "wait":
            view.holder = event["holder"]
        elif kind == "reused":
            view.state, view.holder = "reused", None
        return view

    def _plan(self, plan: Any) -> None:
        for step in plan.steps:
            view = self.views.setdefault(step.key, StageView(step.key))
            if view.began is None:
                view.state, view.why = step.state, reason_texts(step.reasons)

    def _start(self, view: StageView, reasons: Iterable[Mapping[str, Any]]) -> None:
        # Whoever held the whole build has let go of it.
        self.views.pop(WHOLE, None)
        if view.began is None:
            view.began, view.seconds = self._clock(), None
        view.state, view.holder, view.error = RUNNING, None, None
        view.why = reason_texts(reasons)

    def _progress(self, view: StageView, key: str, event: Mapping[str, Any]) -> None:
        view.parts[key] = int(event.get("done") or 0)
        view.done = sum(view.parts.values())
        # One part knows its own total only.
        view.total = None if is_part(key) else event.get("total")
        view.unit = str(event.get("unit") or "")

    def _done(self, view: StageView, key: str, event: Mapping[str, Any]) -> None:
        if is_part(key):
            return
        view.state = "ran"
        view.seconds = self._clock() - view.began if view.began is not None else event["seconds"]
        size = _size(event.get("result") or {})
        if size is not None:
            (view.done, view.unit), view.total = size, size[0]

    def elapsed(self, view: StageView) -> float:
        """Seconds since a stage began; 0.0 where it has not."""
        return self._clock() - view.began if view.began is not None else 0.0

    def rows(self, keys: Iterable[str]) -> list[Row]:
        """The summary of a finished build.

        Args:
            keys: the stages of the version, in order.

        Returns:
            One row a stage: those that ran, with why, and hits for the others.
        """
        ended = {key for key, view in self.views.items() if view.state in ("ran", "reused")}
        order = dict.fromkeys([*keys, *(key for key in self.views if key in ended)])
        return [
            Row(key, self.views[key].state, self.views[key].why)
            if key in ended
            else Row(key, "hit")
            for key in order
        ]


def _size(result: Mapping[str, Any]) -> tuple[int, str] | None:
    """What a stage's result amounts to, in the unit that says most."""
    if isinstance(result.get("examples"), int):
        return result["examples"], "examples"
    if isinstance(result.get("bytes"), int) and result["bytes"]:
        return result["bytes"], "bytes"
    return None
