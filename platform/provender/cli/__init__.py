"""The command line. `main` is the console script ``provender``.

Importing this package, and asking for help, loads neither the catalog, the store nor the engine:
every command imports what it needs when it runs.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import NoReturn


def main() -> None:
    """Runs the command line with the process's arguments and ends the process."""
    # Importing makes many objects and no garbage: looking for some costs a tenth of the start.
    gc.set_threshold(50_000, 10, 10)
    try:
        from provender.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    _end(code)


def _end(code: int) -> NoReturn:
    """Ends the process without taking its modules apart, which after a build is half a second.

    What was registered to run at exit still runs, and output is flushed.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Nobody reads any more; the exit code says so already.
            continue
    os._exit(code)
