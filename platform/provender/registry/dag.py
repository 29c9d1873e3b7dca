"""The ``[datasets.NAME.airflow]`` table: how the dataset's DAG is scheduled and who owns it.

It is data alone, so that the command line can check it where Airflow is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from provender.errors import SettingsError
from provender.registry.values import count, flag, refuse_unknown, span, text, texts

MOST_TASKS = 64
"""Most tasks of a mapped stage: each costs Airflow about half a second."""


@dataclass(frozen=True)
class DagSettings:
    """How Airflow runs a dataset's builds.

    Attributes:
        enabled: whether the dataset has a DAG.
        schedule: cron expression or preset such as ``@daily``; None for runs by hand only.
        owner: who is asked when it fails.
        tags: shown and filtered by, besides ``provender``.
        notes: text for the DAG's page, Markdown.
        pool: Airflow pool of all tasks that work.
        download_pool: pool of the download, by default ``pool``.
        queue: Celery queue of all tasks, or None for the default.
        retries: how often a task is tried again after an error that may pass.
        retry_delay: until the first retry; it doubles with each one.
        timeout: longest time one task may take, or None.
        manual_timeout: how long files that people must provide are waited for.
        manual_interval: how often they are looked for.
        max_tasks: most tasks of a mapped stage, up to `MOST_TASKS`.
        parallel: most tasks of one run that work at the same time, or None for Airflow's number.
    """

    enabled: bool = True
    schedule: str | None = None
    owner: str = "provender"
    tags: tuple[str, ...] = ()
    notes: str = ""
    pool: str = "default_pool"
    download_pool: str | None = None
    queue: str | None = None
    retries: int = 3
    retry_delay: timedelta = timedelta(minutes=1)
    timeout: timedelta | None = None
    manual_timeout: timedelta = timedelta(days=7)
    manual_interval: timedelta = timedelta(minutes=1)
    max_tasks: int = MOST_TASKS
    parallel: int | None = None


_TEXTS = ("schedule", "owner", "notes", "pool", "download_pool", "queue")
_SPANS = ("retry_delay", "timeout", "manual_timeout", "manual_interval")


def dag_settings(doc: Any, where: str) -> DagSettings:
    """Reads the table.

    Args:
        doc: what the file holds.
        where: named in errors.

    Raises:
        SettingsError: a key is unknown, or a value has the wrong type.
    """
    if not isinstance(doc, dict):
        message = "The Airflow settings of a dataset are a table."
        raise SettingsError(message, where=where, facts={"key": "airflow"})
    refuse_unknown(doc, tuple(each.name for each in fields(DagSettings)), where)
    found: dict[str, Any] = {}
    for key, value in doc.items():
        if key in _TEXTS:
            found[key] = text(key, value, where)
        elif key in _SPANS:
            found[key] = span(key, value, where)
        elif key == "tags":
            found[key] = texts(key, value, where)
        elif key == "enabled":
            found[key] = flag(key, value, where)
        elif key == "retries":
            found[key] = count(key, value, where)
        else:
            found[key] = count(key, value, where, 1, MOST_TASKS if key == "max_tasks" else None)
    return DagSettings(**found)
