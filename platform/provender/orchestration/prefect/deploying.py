"""The deployments that Prefect shows: a form for any dataset, one for each of the project, upkeep."""

from __future__ import annotations

from typing import Any

from provender.errors import SettingsError
from provender.orchestration.prefect.preparing import prepare_dataset
from provender.orchestration.prefect.refreshing import refresh_all
from provender.orchestration.prefect.retaining import retention
from provender.registry.deployment import DeploymentSettings
from provender.settings import Settings

TAG = "provender"


def deployments(settings: Settings) -> list[Any]:
    """What ``provender serve-flows`` registers.

    Args:
        settings: the project's settings.

    Returns:
        Prefect runner deployments: ``prepare-dataset/any``, ``prepare-dataset/NAME`` for each
        dataset of the project, with its schedule, ``refresh-all/all`` and ``retention/store``.

    Raises:
        SettingsError: a schedule that cannot be read; it names the dataset.
    """
    file = {"config_file": str(settings.path)} if settings.path else {}
    found = [
        prepare_dataset.to_deployment("any", parameters=file, tags=[TAG]),
        refresh_all.to_deployment("all", parameters=file, tags=[TAG]),
        retention.to_deployment("store", parameters=file, tags=[TAG]),
    ]
    for name, entry in settings.datasets.items():
        told = entry.prefect or DeploymentSettings()
        if told.enabled:
            found.append(_of_dataset(name, told, file))
    return found


def _of_dataset(name: str, told: DeploymentSettings, file: dict[str, str]) -> Any:
    return prepare_dataset.to_deployment(
        name,
        parameters={**file, "dataset": name, "max_tasks": told.max_tasks},
        tags=[TAG, *told.tags],
        description=told.notes or None,
        schedule=_schedule(name, told),
        # One version is built by one run; another one would only wait for it.
        concurrency_limit=1,
    )


def _schedule(name: str, told: DeploymentSettings) -> Any:
    if told.schedule is None:
        return None
    from prefect.schedules import Cron

    try:
        return Cron(told.schedule, timezone=told.timezone)
    except ValueError as error:
        raise SettingsError(
            f"{told.schedule!r} ({told.timezone}) is no schedule: {error}",
            where=f"[datasets.{name}.prefect], schedule",
            hint='Five fields as of cron: schedule = "0 3 * * *" is every night at three.',
        ) from error
