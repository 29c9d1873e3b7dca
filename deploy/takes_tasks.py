"""A health check: whether a Celery worker answers.  python deploy/takes_tasks.py worker-1@provender

``celery inspect ping`` with Airflow's application imports Airflow, for two seconds of processor time each
time; the queue's address is enough to ask.
"""

from __future__ import annotations

import os
import sys

from celery import Celery
from kombu.exceptions import OperationalError


def main() -> int:
    """0 where the worker of that name does, and not another one."""
    queue = Celery(broker=os.environ["AIRFLOW__CELERY__BROKER_URL"])
    try:
        answers = queue.control.inspect(destination=[sys.argv[1]], timeout=5, limit=1).ping()
    except OperationalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if sys.argv[1] in (answers or {}) else 1


if __name__ == "__main__":
    sys.exit(main())
