"""A health check: whether a URL answers with 200.  python deploy/answers.py URL"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request


def main() -> int:
    """0 where it does."""
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=8) as answer:
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
