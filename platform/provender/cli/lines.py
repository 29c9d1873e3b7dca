"""A build told line by line, for logs and pipes: no control codes, every line flushed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from provender.cli.stage_rows import is_part
from provender.cli.units import amount_text, seconds_text
from provender.cli.watching import StageView, Watch

EVERY = 10.0
"""Seconds between two progress lines of one stage."""

_STATE = 9
_STAGE = 28


class Lines:
    """Writes one line for every start, end, failure and wait, and progress now and then.

    Args:
        watch: follows the events.
        write: takes one line.
        verbose: whether parts of splits have lines of their own.
    """

    def __init__(self, watch: Watch, write: Callable[[str], None], *, verbose: bool) -> None:
        self._watch = watch
        self._write = write
        self._verbose = verbose
        self._said: dict[str, float] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Takes in one event of the build."""
        key = event.get("stage", "")
        known = self._watch.views.get(key.rpartition("/part-")[0] if is_part(key) else key)
        had_begun = known is not None and known.began is not None
        view = self._watch.see(event)
        if view is None:
            return
        shown = key if self._verbose else view.key
        if is_part(key) and not self._verbose and event["event"] in ("done", "reused"):
            return
        if event["event"] == "start" and had_begun and not self._verbose:
            return
        text = self._text(event, view)
        if text is not None:
            word = event["event"] if event["event"] != "done" else "ran"
            self._write(f"{word:<{_STATE}} {shown:<{_STAGE}} {text}".rstrip())

    def _text(self, event: Mapping[str, Any], view: StageView) -> str | None:
        kind = event["event"]
        if kind == "start":
            self._said[view.key] = time.monotonic()
            return "; ".join(view.why)
        if kind == "progress":
            return self._progress(view)
        if kind == "done":
            amount = amount_text(view.done, view.unit) if view.unit else ""
            return f"{seconds_text(event['seconds'] if is_part(event['stage']) else view.seconds)}  {amount}"
        if kind == "failed":
            return view.error or ""
        if kind == "wait":
            return f"{view.holder} is at work on it"
        return "another process has finished it"

    def _progress(self, view: StageView) -> str | None:
        now = time.monotonic()
        if now - self._said.get(view.key, now) < EVERY:
            return None
        self._said[view.key] = now
        text = amount_text(view.done, view.unit)
        if view.total:
            text += f" of {amount_text(view.total, view.unit)} ({view.done * 100 // view.total} %)"
        passed = self._watch.elapsed(view)
        return f"{text}, {amount_text(view.done / passed, view.unit)}/s" if passed else text
