"""Runs `create` in a process of its own, in small pieces, and kills itself where it is told to.

    python program.py VOCAB TEXT OUTPUTS WORKERS KILL OPTIONS

KILL is the number of the report of progress at which to die by SIGKILL, or -1.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from provender.nlp.pretraining import Options, create
from provender.nlp.pretraining.work import Sizes


def main() -> None:
    vocab, text, outputs, workers, kill, options = sys.argv[1:]
    asked = json.loads(options)
    # Many parts and buckets of little text.
    sizes = Sizes(**asked.pop("sizes", {"part": 4096, "task": 200, "bucket": 200}))
    seen = 0

    def tell(step: str, done: int, total: int, unit: str) -> None:
        nonlocal seen
        if seen == int(kill):
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1

    how = Options(vocab_file=vocab, **asked)
    made = create(text, outputs, how, workers=int(workers), sizes=sizes, tell=tell)
    # What getrusage says counts from before this program was loaded.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({"records": made.records, "reports": seen, "peak": peak}))


if __name__ == "__main__":
    main()
