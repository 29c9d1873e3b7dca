"""When a dataset's DAG runs: its schedule, checked, and the interval of time that a run is about."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import pendulum

from provender.errors import SettingsError
from provender.partitions import CRON, partition_of
from provender.registry import DagSettings, DatasetEntry

if TYPE_CHECKING:
    from airflow.sdk.bases.timetable import BaseTimetable

BEGINNING = pendulum.datetime(2025, 1, 1, tz="UTC")
"""Start of the schedule of a dataset that is not cut by time."""

FIRST_PIECE = pendulum.datetime(1970, 1, 1, tz="UTC")
"""Start of the schedule of one that is: no piece before it can be filled in by Airflow."""

_ONCE = "@once"
_PRESETS = frozenset({_ONCE, "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"})
_LOOKED_AT = 400
"""Times of a schedule that are looked at: a year of days, and whatever a schedule repeats."""


def timetable(name: str, entry: DatasetEntry) -> str | BaseTimetable | None:
    """The schedule of a dataset's DAG.

    That of a dataset which is cut by time has an interval of time for each run, and the run builds
    the piece that the interval begins in: the run of 30 November 00:00 builds the 29th. By default
    it runs as soon as a piece is over.

    Args:
        name: the dataset.
        entry: its table.

    Raises:
        SettingsError: Airflow's scheduler could not read the schedule later, or it runs twice in
            one piece.
    """
    schedule = (entry.airflow or DagSettings()).schedule
    if schedule is not None:
        _check_readable(name, schedule, entry)
    if entry.partition is None:
        return schedule
    # Said outright, since Airflow's usual timetable of a cron expression has no intervals.
    from airflow.sdk import CronDataIntervalTimetable

    if schedule is None:
        return CronDataIntervalTimetable(CRON[entry.partition], timezone="UTC")
    _check_pace(name, schedule, entry, entry.partition)
    return CronDataIntervalTimetable(schedule, timezone="UTC")


def _check_readable(name: str, schedule: str, entry: DatasetEntry) -> None:
    from croniter import croniter

    if schedule not in _PRESETS and not croniter.is_valid(schedule):
        raise _refused(
            name,
            entry,
            f"schedule is no cron expression and no preset, got {schedule!r}.",
            f"Write a cron expression, or one of {', '.join(sorted(_PRESETS))}.",
        )


def _check_pace(name: str, schedule: str, entry: DatasetEntry, grain: str) -> None:
    """Refuses a schedule that would build a piece that is not over, or one several times."""
    usual = f"The usual is {CRON[grain]!r}: as soon as a {grain} is over."
    if schedule == _ONCE:
        raise _refused(name, entry, f"{_ONCE} does not run {grain} by {grain}.", usual)
    times = islice(_times(schedule), _LOOKED_AT)
    for one, two in pairwise(times):
        if partition_of(one, grain) == partition_of(two, grain):
            raise _refused(
                name,
                entry,
                f"schedule {schedule!r} runs twice in one {grain}: {one:%Y-%m-%d %H:%M} and "
                f"{two:%Y-%m-%d %H:%M}.",
                usual,
            )


def _times(schedule: str) -> Iterator[datetime]:
    from croniter import croniter

    # The one preset of Airflow's that croniter does not know.
    cron = "0 0 1 */3 *" if schedule == "@quarterly" else schedule
    yield from croniter(cron, datetime(2026, 1, 1, tzinfo=UTC), ret_type=datetime)


def _refused(name: str, entry: DatasetEntry, message: str, hint: str) -> SettingsError:
    facts: dict[str, Any] = {"key": "schedule"}
    where = f"{entry.file}, [datasets.{name}.airflow]"
    return SettingsError(message, where=where, facts=facts, hint=hint)
