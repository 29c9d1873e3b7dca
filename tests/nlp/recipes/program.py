"""Builds in a process of its own, and says what it imported; kills itself where it is told to.

    python program.py FOLDER REFERENCE KILL

KILL is the number of the piece of work (text, tokens or plan) before which to die by SIGKILL, or -1.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.nlp.recipes.conftest import Project

HEAVY = ("tensorflow", "tensorflow_datasets", "provender.nlp.pretraining.builder")


def dying(act: Callable[..., Any], seen: list[int], kill: int) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        if len(seen) == kill:
            os.kill(os.getpid(), signal.SIGKILL)
        seen.append(1)
        return act(*args)

    return run


def main() -> None:
    folder, ref, kill = sys.argv[1:]
    if int(kill) >= 0:
        from provender.nlp.pretraining.work import Work
        from provender.nlp.recipes.text import VersionText

        seen: list[int] = []
        for cls, name in ((VersionText, "write"), (Work, "run")):
            setattr(cls, name, dying(getattr(cls, name), seen, int(kill)))
    built = Project(Path(folder)).build(ref, workers=1)
    heavy = [each for each in HEAVY if each in sys.modules]
    print(json.dumps({"outcome": built.outcome, "heavy": heavy}))


if __name__ == "__main__":
    main()
