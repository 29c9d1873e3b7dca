"""A worker process: reads stage documents on standard input, answers on standard output.

One JSON object a line, both ways:

    -> {"site": {...}, "path": [...]}                    once, first: sys.path is the parent's;
                                                         "more" instead: it is added to the own one
    -> {"op": "part", "args": {...}}
    <- {"progress": {...}}  or  {"log": {...}}           any number
    <- {"result": {...}}  or  {"error": {...}}           exactly one for each operation

The process ends when its input ends, so it never outlives the build that started it. What user
code prints goes to standard error.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from provender.engine.operations import operation
from provender.errors import ProvenderError
from provender.stages.site import Site, Workplace

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serves until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    first = sys.stdin.readline()
    if not first:
        return
    told = json.loads(first)
    sys.path[:] = told.get("path") or [*sys.path, *told["more"]]
    work = Workplace(Site.from_json(told["site"]))
    logging.getLogger().addHandler(_Forward(answers))
    _load_ahead(work)
    for line in sys.stdin:
        _answer(work, json.loads(line), answers)


def _die_with_parent() -> None:
    """Asks Linux to end this process with its parent, however the parent ends."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return


def _load_ahead(work: Workplace) -> None:
    """Imports the builder while the parent is still planning; errors wait for the first call."""
    try:
        _ = work.loaded
    except ProvenderError:
        return


class _Forward(logging.Handler):
    """Sends warnings and worse to the parent, which logs them as its own."""

    def __init__(self, answers: TextIO) -> None:
        super().__init__(logging.WARNING)
        self._answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        said = {"name": record.name, "level": record.levelno, "message": record.getMessage()}
        self._answers.write(json.dumps({"log": said}) + "\n")
        self._answers.flush()


def _answer(work: Workplace, request: Mapping[str, Any], answers: TextIO) -> None:
    last = 0.0

    def say(doc: Mapping[str, Any]) -> None:
        answers.write(json.dumps(doc) + "\n")
        answers.flush()

    def progress(facts: Mapping[str, Any]) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 0.1:
            last = now
            say({"progress": dict(facts)})

    try:
        say({"result": operation(request["op"])(work, request["args"], progress)})
    except ProvenderError as error:
        say({"error": error.to_json()})
    except Exception as error:  # noqa: BLE001 - it travels to the parent, which raises it
        from provender.stages.download import traceback_of

        say(
            {
                "error": {
                    "type": "ProvenderError",
                    "message": f"{type(error).__name__}: {error}",
                    "where": request["op"],
                    "hint": None,
                    "facts": {"traceback": traceback_of(error)},
                }
            }
        )


if __name__ == "__main__":
    main()
