"""The deployments that Prefect shows: a form for any dataset, one for each of the project, upkeep."""

from __future__ import annotations

from typing import Any

from prefect.deployments.runner import EntrypointType

from provender.errors import SettingsError
from provender.orchestration.prefect.backfilling import backfill
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
        dataset of the project, with its schedule, ``backfill/any``, ``refresh-all/all`` and
        ``retention/store``.

    Raises:
        SettingsError: a schedule that cannot be read; it names the dataset.
    """
    file = {"config_file": str(settings.path)} if settings.path else {}
    common: dict[str, Any] = {
        "parameters": file,
        "tags": [TAG],
        # The package is installed wherever the flow runs; a file's path may differ there.
        "entrypoint_type": EntrypointType.MODULE_PATH,
    }
    found = [
        prepare_dataset.to_deployment("any", **common),
        backfill.to_deployment("any", **common),
        refresh_all.to_deployment("all", **common),
        retention.to_deployment("store", **common),
    ]
    for name, entry in settings.datasets.items():
        told = entry.prefect or DeploymentSettings()
        if told.enabled:
            found.append(_of_dataset(name, told, common))
    return found


def _of_dataset(name: str, told: DeploymentSettings, common: dict[str, Any]) -> Any:
    parameters = {**common["parameters"], "dataset": name, "max_tasks": told.max_tasks}
    return prepare_dataset.to_deployment(
        name,
        **{**common, "parameters": parameters, "tags": [TAG, *told.tags]},
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
