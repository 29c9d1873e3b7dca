"""The other side of an announcement: reading exactly the version that woke a DAG.

@task(inlets=[DIGITS])
def train(dag_run=None, triggering_asset_events=None, inlet_events=None):
    told = announced(DIGITS, triggering_asset_events, inlet_events)
    with reading(__file__, told, job_of(dag_run)) as (settings, job):
        data = provender.load(told.name, split="train", settings=settings, job=job)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import StoreError, UnknownReference
from provender.orchestration.airflow.connection import settings_file, settings_for

if TYPE_CHECKING:
    from airflow.sdk import Asset

    from provender.settings import Settings

RECORDED_WITHIN = 60.0
"""Seconds that a task waits in the end for the catalog to learn what it has read."""


@dataclass(frozen=True)
class Announcement:
    """A version, as the event of a dataset's asset names it.

    Attributes:
        name: reference of the version, e.g. ``digits:1.0.0``.
        fingerprint: of its content.
        path: where it lies.
        splits: examples by split name.
    """

    name: str
    fingerprint: str
    path: str
    splits: Mapping[str, int]


def announced(asset: Asset, triggering: Any = None, inlets: Any = None) -> Announcement:
    """The version to read: the newest that woke this run, else the newest that was announced.

    Args:
        asset: the dataset's asset.
        triggering: the task's ``triggering_asset_events``; a run started by hand has none.
        inlets: the task's ``inlet_events``, where the asset is one of its inlets.

    Raises:
        UnknownReference: no version was ever announced.
    """
    newest = _newest(triggering, asset) or _newest(inlets, asset)
    if newest is not None:
        told = newest.extra
        return Announcement(told["name"], told["fingerprint"], told["path"], told["splits"])
    raise UnknownReference(
        f"No version of {asset.name} has been announced yet.",
        where=asset.uri,
        hint="Run the DAG that builds it.",
    )


def _newest(events: Any, asset: Asset) -> Any:
    """The last event of an asset, or None. Of inlets, Airflow fetches only what is asked for."""
    try:
        return events[asset][-1] if events else None
    except (KeyError, IndexError):
        return None


def job_of(dag_run: Any) -> str:
    """The name by which the catalog knows what a DAG run reads: ``DAG/RUN``.

    Args:
        dag_run: the run, as a task's context holds it.
    """
    return f"{dag_run.dag_id}/{dag_run.run_id}"


@contextmanager
def reading(dag_file: str | Path, told: Announcement, job: str) -> Iterator[tuple[Settings, str]]:
    """What `provender.load` needs to read the version that was announced, and no other.

    In the end it waits until the catalog knows what was read: a task's process is not asked whether
    it is done.

    Args:
        dag_file: the DAG file's ``__file__``.
        told: the version.
        job: who reads.

    Yields:
        The project's settings and the job's name.

    Raises:
        UnknownReference: there is no such version (any more).
        StoreError: another content stands under its number by now.
    """
    from provender.catalog import Catalog
    from provender.refs import DatasetRef
    from provender.training.diary import diary
    from provender.upkeep import find_version

    settings = settings_for(settings_file(dag_file), told.name.partition(":")[0].partition("/")[0])
    with Catalog.open(settings.catalog) as catalog:
        standing = find_version(catalog, DatasetRef.parse(told.name))
    if standing.fingerprint != told.fingerprint:
        raise StoreError(
            f"{told.name} is not what was announced: {standing.fingerprint[:12]} stands there, "
            f"{told.fingerprint[:12]} was announced.",
            where=told.path,
            hint="It was retracted and built again. Wait for the event of the new content.",
            facts={"transient": False},
        )
    try:
        yield settings, job
    finally:
        diary(settings.home, settings.catalog).flush(RECORDED_WITHIN)
