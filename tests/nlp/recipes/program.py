"""Builds in a process of its own, and says what it imported; kills itself where it is told to.

    python program.py FOLDER REFERENCE KILL

KILL is the number of the piece of work (tokens or plan) before which to die by SIGKILL, or -1.
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

KILLED = "killed"
"""In the names of datasets whose builds are killed and go on."""
HEAVY = ("tensorflow", "tensorflow_datasets", "provender.nlp.pretraining.builder")


def dying(act: Callable[..., Any], seen: list[int], kill: int) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if len(seen) == kill:
            os.kill(os.getpid(), signal.SIGKILL)
        seen.append(1)
        return act(*args, **kwargs)

    return run


def main() -> None:
    folder, ref, kill = sys.argv[1:]
    seen: list[int] = []
    if int(kill) >= 0 or KILLED in ref:
        from provender.nlp.recipes import bert, text, tokens

        # Pieces of the text below the size at which one is enough.
        text.PIECE = 1_000
        for module, name in ((tokens, "tokenize_part"), (bert, "plan_task")):
            setattr(module, name, dying(getattr(module, name), seen, int(kill)))
    built = Project(Path(folder)).build(ref, workers=1)
    heavy = [each for each in HEAVY if each in sys.modules]
    print(json.dumps({"outcome": built.outcome, "heavy": heavy, "pieces": len(seen)}))


if __name__ == "__main__":
    main()
