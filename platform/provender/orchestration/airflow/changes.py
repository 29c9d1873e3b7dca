"""DAGs that run once for each split that changed, or each piece of time of a dataset cut by time.

@dag(schedule=on_each_change("digits"), ...)
def train():
    @task(inlets=[changes_asset("digits")])
    def one(dag_run=None, triggering_asset_events=None, inlet_events=None):
        change = changed("digits", dag_run, triggering_asset_events, inlet_events)
        with reading(__file__, change.version, job_of(dag_run)) as (settings, job):
            data = provender.load(change.version.name, split=change.split, settings=settings, job=job)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provender.errors import UnknownReference
from provender.orchestration.airflow.assets import changes_asset
from provender.orchestration.airflow.consuming import Announcement

if TYPE_CHECKING:
    from airflow.sdk import PartitionedAssetTimetable


@dataclass(frozen=True)
class Change:
    """What a run is about.

    Attributes:
        version: the version that was announced.
        key: the split or the piece of time, e.g. ``train`` or ``2026-11-29``; the run's partition.
        piece: whether it is a piece of time.
    """

    version: Announcement
    key: str
    piece: bool

    @property
    def split(self) -> str | None:
        """The split that changed; None with a piece of time, of which all splits are new."""
        return None if self.piece else self.key


def on_each_change(dataset: str) -> PartitionedAssetTimetable:
    """The schedule of a DAG that runs once for each changed split or piece of time.

    The run's partition key names it. A version in which two splits changed starts two runs, one in
    which nothing did starts none. A new version of a piece of time starts a run for that piece.

    Args:
        dataset: name in the registry.
    """
    from airflow.sdk import PartitionedAssetTimetable

    return PartitionedAssetTimetable(assets=changes_asset(dataset))


def changed(dataset: str, dag_run: Any, triggering: Any = None, inlets: Any = None) -> Change:
    """What a run of such a DAG is about.

    Args:
        dataset: name in the registry.
        dag_run: the run, as a task's context holds it.
        triggering: the task's ``triggering_asset_events``; a run started by hand has none.
        inlets: the task's ``inlet_events``, where `changes_asset` is one of its inlets.

    Raises:
        UnknownReference: the run has no partition key, or no version with that split or piece was
            ever announced.
    """
    key = dag_run.partition_key
    asset = changes_asset(dataset)
    if key is None:
        raise UnknownReference(
            f"The run does not say which split or piece of time of {dataset} it is about.",
            where=f"{dag_run.dag_id}/{dag_run.run_id}",
            hint="Start it with a partition key: a split such as train, or a piece such as 2026-11-29.",
        )
    for events in (triggering, inlets):
        try:
            found = list(events[asset]) if events else []
        except KeyError:
            continue
        if newest := next((e for e in reversed(found) if e.partition_key == key), None):
            told = newest.extra
            version = Announcement(told["name"], told["fingerprint"], told["path"], told["splits"])
            return Change(version, key, "partition" in told)
    raise UnknownReference(
        f"No version of {dataset} with {key} has been announced yet.",
        where=asset.uri,
        hint="Run the DAG that builds it.",
    )
