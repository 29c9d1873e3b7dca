"""Runs `create` in a process of its own, in small pieces, and kills itself where it is told to.

    python program.py VOCAB TEXT OUTPUTS WORKERS KILL OPTIONS

KILL is the number of the report of progress at which to die by SIGKILL, or -1.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from provender.nlp.pretraining import Options, create
from provender.nlp.pretraining.work import Sizes


def main() -> None:
    vocab, text, outputs, workers, kill, options = sys.argv[1:]
    # Many parts and buckets of little text.
    sizes = Sizes(part=4096, task=200, bucket=200)
    seen = 0

    def tell(step: str, done: int, total: int, unit: str) -> None:
        nonlocal seen
        if seen == int(kill):
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1

    asked = Options(vocab_file=vocab, **json.loads(options))
    made = create(text, outputs, asked, workers=int(workers), sizes=sizes, tell=tell)
    print(json.dumps({"records": made.records, "reports": seen}))


if __name__ == "__main__":
    main()
