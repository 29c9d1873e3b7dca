"""The functions of a dataset's tasks: each makes one call of `provender.engine.staged`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from provender.catalog import Catalog
from provender.engine import staged
from provender.engine.staged import Published, RunDoc, Unit
from provender.orchestration.airflow.announcing import extra_of, keys_of, was_announced
from provender.orchestration.airflow.assets import changes_asset
from provender.orchestration.airflow.connection import settings_of
from provender.orchestration.airflow.telling import Told, watcher
from provender.refs import DatasetRef
from provender.settings import Settings
from provender.upkeep import find_version

_log = logging.getLogger("airflow.task")

Json = Mapping[str, Any]


def download(run: Json) -> Told:
    """Fetches every URL; of a builder that cannot be taken apart, makes everything."""
    doc = RunDoc.from_json(run)
    settings = settings_of(doc)
    outcome = staged.run_stage(doc, "download", settings, tell=watcher(_log))
    return Told((outcome,), outcome.to_json(), run=doc, settings=settings)


def plan_splits(run: Json, limit: int) -> Told:
    """Plans the splits, and cuts their examples into units; gives the units."""
    doc = RunDoc.from_json(run)
    settings = settings_of(doc)
    outcome = staged.run_stage(doc, "splits", settings, tell=watcher(_log))
    units = staged.pieces(doc, "examples", settings, limit=limit)
    return Told((outcome,), [each.to_json() for each in units], run=doc, settings=settings)


def run_unit(run: Json, unit: Json) -> Told:
    """Encodes parts of splits, or writes shards."""
    doc, work = RunDoc.from_json(run), Unit.from_json(unit)
    settings = settings_of(doc)
    outcomes = staged.run_pieces(doc, work, settings, tell=watcher(_log))
    counts = {"stages": len(outcomes), "cached": sum(each.hit for each in outcomes)}
    return Told(outcomes, counts, work.label, doc, settings)


def plan_shards(run: Json, limit: int) -> Told:
    """Joins the parts of each split, and cuts its shards into units; gives the units."""
    doc = RunDoc.from_json(run)
    settings = settings_of(doc)
    outcomes = staged.collect(doc, settings, tell=watcher(_log))
    units = staged.pieces(doc, "shards", settings, limit=limit)
    return Told(outcomes, [each.to_json() for each in units], "examples", doc, settings)


def register(run: Json) -> Told:
    """Checks and publishes the version; gives what stands now."""
    doc = RunDoc.from_json(run)
    settings = settings_of(doc)
    version = staged.register_version(doc, settings, tell=watcher(_log))
    return _published(doc, settings, version)


def publish(
    run: Json, cut: bool = False, inlet_events: Any = None, outlet_events: Any = None
) -> Told:
    """Announces the version, once: the only task that wakes whoever waits for the dataset.

    What was announced is asked of Airflow itself, so that a version which was built elsewhere, or by
    a run that died before it could tell, is announced too.

    Args:
        run: the run.
        cut: whether the dataset is cut by time.
        inlet_events: of the dataset's asset.
        outlet_events: of that, and of the asset whose events name one change each.

    Raises:
        AirflowSkipException: the version has been announced already, or is a trial.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    doc = RunDoc.from_json(run)
    settings = settings_of(doc)
    version = staged.published(doc, settings)
    if version.status != "published":
        raise AirflowSkipException(f"{version.name} is a trial: nobody is told.")
    [asset] = list(inlet_events)
    if was_announced(inlet_events[asset], version, _created(version, settings)):
        raise AirflowSkipException(f"{version.name} has not changed since it was announced.")
    piece = version.dataset.partition("/")[2] if cut else None
    extra, keys = extra_of(version, piece), keys_of(version, piece)
    outlet_events[asset].extra = extra
    changes = outlet_events[changes_asset(asset.name)]
    changes.extra = extra
    changes.add_partitions(keys)
    _log.info("%s is announced, with %s: %s", version.name, ", ".join(keys), extra)
    return _published(doc, settings, version)


def _created(version: Published, settings: Settings) -> datetime:
    with Catalog.open(settings.catalog) as catalog:
        return find_version(catalog, DatasetRef.parse(version.name)).created


def _published(doc: RunDoc, settings: Settings, version: Published) -> Told:
    state = staged.RAN if version.changed else staged.CACHED
    why = {"cached": "nothing had to be done", "reused": "another run made it meanwhile"}
    outcome = staged.Outcome(
        "register",
        state,
        version.fingerprint,
        (why.get(version.outcome, f"{version.name} is {version.status}"),),
        counts={"examples": sum(version.splits.values()), "bytes": version.bytes},
    )
    return Told((outcome,), version.to_json(), version.name, doc, settings, version)
