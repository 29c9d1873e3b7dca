"""The ``[datasets.NAME.prefect]`` table: how Prefect's deployment of the dataset is scheduled.

It is data alone, so that the command line can check it where Prefect is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from provender.errors import SettingsError
from provender.registry.values import count, flag, refuse_unknown, text, texts


@dataclass(frozen=True)
class DeploymentSettings:
    """How Prefect runs a dataset's builds.

    Attributes:
        enabled: whether the dataset has a deployment.
        schedule: cron expression; None for runs by hand only.
        timezone: of the schedule, e.g. ``Europe/Berlin``.
        tags: shown and filtered by, besides ``provender``.
        notes: text for the deployment's page, Markdown.
        max_tasks: most tasks of a mapped stage.
    """

    enabled: bool = True
    schedule: str | None = None
    timezone: str = "UTC"
    tags: tuple[str, ...] = ()
    notes: str = ""
    max_tasks: int = 64


def deployment_settings(doc: Any, where: str) -> DeploymentSettings:
    """Reads the table.

    Args:
        doc: what the file holds.
        where: named in errors.

    Raises:
        SettingsError: a key is unknown, or a value has the wrong type.
    """
    if not isinstance(doc, dict):
        message = "The Prefect settings of a dataset are a table."
        raise SettingsError(message, where=where, facts={"key": "prefect"})
    refuse_unknown(doc, tuple(each.name for each in fields(DeploymentSettings)), where)
    found: dict[str, Any] = {}
    for key, value in doc.items():
        if key == "enabled":
            found[key] = flag(key, value, where)
        elif key == "tags":
            found[key] = texts(key, value, where)
        elif key == "max_tasks":
            found[key] = count(key, value, where, 1, 1000)
        else:
            found[key] = text(key, value, where)
    return DeploymentSettings(**found)
