"""A health check: whether a URL answers with 200, or one part of Airflow is well.

    python deploy/answers.py URL [PART]

With PART the answer is Airflow's ``/api/v2/monitor/health``, and PART one of its keys: ``scheduler``,
``dag_processor``, ``triggerer``. `airflow jobs check` asks the same and takes fifty times as long.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Sequence


def well(url: str, part: str | None = None) -> bool:
    """Whether it is; raises OSError where nothing answers, ValueError where the answer is no JSON."""
    with urllib.request.urlopen(url, timeout=8) as answer:
        if part is None or answer.status != 200:
            return bool(answer.status == 200)
        found = json.load(answer)
    return (found.get(part) or {}).get("status") == "healthy"


def main(arguments: Sequence[str]) -> int:
    """0 where it is well."""
    try:
        return 0 if well(*arguments) else 1
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
