"""The command line. `main` is the console script ``provender``.

Importing this package, and asking for help, loads neither the catalog, the store nor the engine:
every command imports what it needs when it runs.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line with the process's arguments and ends the process."""
    try:
        from provender.cli.app import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
