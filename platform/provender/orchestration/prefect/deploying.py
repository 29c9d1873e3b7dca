"""The deployments that Prefect shows: a form for any dataset, one for each of the project, upkeep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from prefect.deployments.runner import EntrypointType

from provender.errors import ProvenderError, SettingsError
from provender.orchestration.prefect.backfilling import backfill
from provender.orchestration.prefect.preparing import prepare_dataset
from provender.orchestration.prefect.refreshing import refresh_all
from provender.orchestration.prefect.retaining import retention
from provender.registry import DatasetEntry, placed, read_registry
from provender.registry.deployment import DeploymentSettings
from provender.settings import Settings, read_file

TAG = "provender"

ANY = "any"
"""The name of the deployments whose form asks for the dataset."""


@dataclass(frozen=True)
class Deployments:
    """What there is to serve.

    Attributes:
        found: Prefect runner deployments.
        problems: what is wrong with datasets that have none; each names file, line and key.
    """

    found: tuple[Any, ...]
    problems: tuple[SettingsError, ...] = ()


def deployments(settings: Settings) -> Deployments:
    """What ``provender serve-flows`` registers.

    Args:
        settings: the project's settings; the datasets are read from its file.

    Returns:
        ``prepare-dataset/any``, ``prepare-dataset/NAME`` for each dataset of the project, with its
        schedule, ``backfill/any``, ``refresh-all/all`` and ``retention/store``. A table that makes
        no sense costs its own deployment only.
    """
    file = {"config_file": str(settings.path)} if settings.path else {}
    common: dict[str, Any] = {
        "parameters": file,
        "tags": [TAG],
        # The package is installed wherever the flow runs; a file's path may differ there.
        "entrypoint_type": EntrypointType.MODULE_PATH,
    }
    found = [
        prepare_dataset.to_deployment(ANY, **common),
        backfill.to_deployment(ANY, **common),
        refresh_all.to_deployment("all", **common),
        retention.to_deployment("store", **common),
    ]
    if settings.path is None:
        return Deployments(tuple(found))
    registry = read_registry(read_file(settings.path), settings.path)
    problems = [each.error for each in registry.problems]
    for name, entry in registry.entries.items():
        if entry.prefect is not None and not entry.prefect.enabled:
            continue
        try:
            found.append(_of_dataset(name, entry, common))
        except Exception as error:  # noqa: BLE001 - whatever Prefect refuses, it costs one deployment
            problems.append(_problem(name, entry, error))
    return Deployments(tuple(found), tuple(problems))


def _problem(name: str, entry: DatasetEntry, error: Exception) -> SettingsError:
    if not isinstance(error, SettingsError):
        said = error.message if isinstance(error, ProvenderError) else str(error)
        error = SettingsError(
            f"Prefect refuses the deployment of {name!r}: {said}", where=_where(name, entry)
        )
    return placed(error, name, entry.file)


def _where(name: str, entry: DatasetEntry) -> str:
    return f"{entry.file}, [datasets.{name}.prefect]"


def _of_dataset(name: str, entry: DatasetEntry, common: dict[str, Any]) -> Any:
    if name == ANY:
        raise SettingsError(
            f"prepare-dataset/{ANY} is the deployment whose form asks for the dataset.",
            where=f"{entry.file}, [datasets.{name}]",
            hint="Rename the dataset, or set `enabled = false` in its table for Prefect.",
        )
    told = entry.prefect or DeploymentSettings()
    parameters = {**common["parameters"], "dataset": name, "max_tasks": told.max_tasks}
    return prepare_dataset.to_deployment(
        name,
        **{**common, "parameters": parameters, "tags": [TAG, *told.tags]},
        description=told.notes or None,
        schedule=_schedule(name, entry, told),
        # One version is built by one run; another one would only wait for it.
        concurrency_limit=1,
    )


def _schedule(name: str, entry: DatasetEntry, told: DeploymentSettings) -> Any:
    if told.schedule is None:
        return None
    from prefect.schedules import Cron

    try:
        ZoneInfo(told.timezone)
    except (LookupError, ValueError, OSError) as error:
        raise SettingsError(
            f"There is no time zone {told.timezone!r}.",
            where=_where(name, entry),
            hint='As of the time zone database: timezone = "Europe/Berlin".',
            facts={"key": "timezone"},
        ) from error
    try:
        return Cron(told.schedule, timezone=told.timezone)
    except ValueError as error:
        raise SettingsError(
            f"{told.schedule!r} is no schedule: {error}",
            where=_where(name, entry),
            hint='Five fields as of cron: schedule = "0 3 * * *" is every night at three.',
            facts={"key": "schedule"},
        ) from error
