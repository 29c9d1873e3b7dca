"""Which pieces of a span are to be built, and why the others are not."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from provender.catalog import Catalog, RunRecord, VersionRecord
from provender.errors import SettingsError, UnknownReference
from provender.partitions import Partition, check_grain, span
from provender.settings import Settings

NONE, FAILED, COMPLETED = "none", "failed", "completed"
REPROCESS = (NONE, FAILED, COMPLETED)
"""What is built again, in Airflow's words: nothing that has ended; also what failed; everything."""

WAITING, RUNNING, BUILT, CACHED, BROKEN, LEFT = (
    "waiting", "running", "built", "cached", "failed", "left",
)  # fmt: skip

_WELL = frozenset({"succeeded", "cached", "reused"})
_UNFINISHED = frozenset({"running", "interrupted"})


@dataclass(frozen=True)
class Piece:
    """One piece of a backfill.

    Attributes:
        name: the config, e.g. ``2026-11-29``.
        state: ``waiting`` to be built, ``running``, ``built``, ``cached`` (nothing had to be
            done), ``failed``, or ``left`` as it is.
        why: one sentence for people.
        version: of the version that stands, or None.
        run: id of the run that this is about, or None.
        seconds: that its build took.
    """

    name: str
    state: str
    why: str = ""
    version: str | None = None
    run: str | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    def now(self, state: str, why: str = "", **changes: Any) -> Piece:
        """The same piece in another state."""
        return replace(self, state=state, why=why, **changes)


@dataclass(frozen=True)
class Backfill:
    """A span of a dataset, piece by piece.

    Attributes:
        dataset: its name.
        grain: ``day`` and the like.
        reprocess: one of `REPROCESS`.
        pieces: all of them, in order of time.
    """

    dataset: str
    grain: str
    reprocess: str
    pieces: tuple[Piece, ...]

    @property
    def todo(self) -> tuple[Piece, ...]:
        """The pieces that wait to be built."""
        return tuple(each for each in self.pieces if each.state == WAITING)

    def count(self, state: str) -> int:
        """How many pieces are in a state."""
        return sum(each.state == state for each in self.pieces)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, with the number of pieces in each state."""
        states = dict.fromkeys(each.state for each in self.pieces)
        return {
            "dataset": self.dataset,
            "grain": self.grain,
            "reprocess": self.reprocess,
            "counts": {state: self.count(state) for state in states},
            "pieces": [each.to_json() for each in self.pieces],
        }


def grain_for(dataset: str, settings: Settings, every: str | None = None) -> str:
    """How a dataset is cut.

    Args:
        dataset: its name in the registry.
        settings: the project's settings.
        every: what the user says; by default what the registry says.

    Raises:
        UnknownReference: there is no such dataset; the hint names those that come near.
        SettingsError: nobody says how it is cut, or there is no such grain.
    """
    if every is not None:
        return check_grain(every, "--every")
    entry = settings.datasets.get(dataset)
    if entry is None:
        names = list(settings.datasets)
        near = difflib.get_close_matches(dataset, names, 3) or names[:8]
        raise UnknownReference(
            f"The registry has no dataset {dataset!r}.",
            where=str(settings.path or "provender.toml"),
            hint=(f"It has: {', '.join(near)}. " if near else "")
            + "One that stands nowhere there needs --every day, or another grain.",
            facts={"near": near},
        )
    if entry.partition is not None:
        return entry.partition
    raise SettingsError(
        f"Nothing says how {dataset} is cut by time.",
        where=f"{settings.path or 'provender.toml'}, [datasets.{dataset}]",
        hint='partition = "day", or --every day. Its builder has PARTITIONED_BY = "day" then.',
        facts={"key": "partition"},
    )


def plan_backfill(
    catalog: Catalog, dataset: str, grain: str, first: str, last: str, reprocess: str = NONE
) -> Backfill:
    """Works out what is left to do.

    Args:
        catalog: what was built before.
        dataset: its name.
        grain: how it is cut.
        first: a date, e.g. ``2026-11-01``.
        last: likewise; its piece is included.
        reprocess: one of `REPROCESS`.

    Raises:
        SettingsError: the dates make no sense, or there is no such way of reprocessing.
    """
    if reprocess not in REPROCESS:
        near = difflib.get_close_matches(reprocess, REPROCESS, 1, 0.4)
        raise SettingsError(
            f"{reprocess!r} is no way of reprocessing.",
            where="--reprocess",
            hint=(f"Did you mean {near[0]}? " if near else "") + f"One of {', '.join(REPROCESS)}.",
        )
    pieces = span(first, last, grain)
    versions = {each.config: each for each in reversed(catalog.versions(dataset))}
    last_runs = _last_runs(catalog, dataset)
    found = tuple(_piece(each, versions, last_runs, reprocess) for each in pieces)
    return Backfill(dataset, grain, reprocess, found)


def with_versions(backfill: Backfill, catalog: Catalog) -> Backfill:
    """The same with the versions that stand by now, where somebody else has built them.

    Args:
        backfill: it ended.
        catalog: what was built.
    """
    stand = {each.config: each.name for each in reversed(catalog.versions(backfill.dataset))}
    pieces = tuple(replace(each, version=stand.get(each.name)) for each in backfill.pieces)
    return replace(backfill, pieces=pieces)


def _last_runs(catalog: Catalog, dataset: str) -> dict[str, RunRecord]:
    runs: Sequence[RunRecord] = catalog.runs(dataset, limit=None)
    return {each.config: each for each in reversed(runs) if each.kind == "build"}


def _piece(
    partition: Partition,
    versions: Mapping[str, VersionRecord],
    runs: Mapping[str, RunRecord],
    reprocess: str,
) -> Piece:
    name = partition.name
    run, version = runs.get(name), versions.get(name)
    stands = version.name if version is not None else None
    known = Piece(name, LEFT, version=stands, run=run.id if run else None)
    if run is None:
        return known.now(WAITING, "never built")
    if run.outcome in _UNFINISHED:
        return known.now(WAITING, f"its last run is {run.outcome}")
    if reprocess == COMPLETED:
        return known.now(WAITING, f"asked for again; its last run {_ended(run)}")
    if run.outcome in _WELL:
        if version is None:
            return known.now(WAITING, "it was built, but its version does not stand any more")
        return known.now(CACHED, f"built {_when(run)}")
    if reprocess == FAILED:
        return known.now(WAITING, f"its last run {_ended(run)}")
    return known.now(
        LEFT, f"its last run {_ended(run)}, and only --reprocess failed tries it again"
    )


def _ended(run: RunRecord) -> str:
    outcome = run.outcome if run.outcome in ("failed", "succeeded") else f"ended as {run.outcome}"
    return f"{outcome} {_when(run)}"


def _when(run: RunRecord) -> str:
    return f"{run.finished:%Y-%m-%d %H:%M} UTC" if run.finished else "before"
