"""What a task tells of its work: in the log, as its label, and in its storage tab."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provender.engine.plan import reason_text
from provender.engine.staged import ABSENT, Outcome, Published, RunDoc, state_of
from provender.errors import SettingsError
from provender.partitions import parse_partition
from provender.settings import Settings

SHOWN = 20
"""Stages of a task that its storage tab lists; of more it tells the number."""

_PROGRESS_SECONDS = 20.0


@dataclass(frozen=True)
class Told:
    """What a stage's function returns.

    Attributes:
        outcomes: how the stages stand.
        value: what later tasks receive, JSON-ready.
        label: what the task works on, e.g. ``train-00002``; by default the first stage's key.
        run: the run, for the lineage.
        settings: where its catalog is. Lineage is told from a forked process, which cannot ask
            Airflow for a connection.
        published: the version that stands, for the lineage.
    """

    outcomes: Sequence[Outcome] = ()
    value: Any = None
    label: str = ""
    run: RunDoc | None = None
    settings: Settings | None = None
    published: Published | None = None

    @property
    def state(self) -> str:
        """One word: ``cached``, ``ran``, ``2 of 5 cached``."""
        return state_of(self.outcomes)

    @property
    def title(self) -> str:
        """The label with its state: ``train-00002 [cached]``."""
        label = self.label or next((o.stage for o in self.outcomes), "")
        if self.run is not None:
            label = titled(self.run.dataset, label)
        return f"{label} [{self.state}]"


def as_told(said: Any) -> Told:
    """What a function returned, as `Told`: an outcome, several, or anything else as a value."""
    if isinstance(said, Told):
        return said
    if isinstance(said, Outcome):
        return Told((said,), said.to_json())
    if isinstance(said, Iterable) and not isinstance(said, (str, bytes, Mapping)):
        outcomes = list(said)
        if outcomes and all(isinstance(each, Outcome) for each in outcomes):
            return Told(outcomes, [each.to_json() for each in outcomes])
        said = outcomes
    return Told((), said)


def titled(dataset: str, label: str) -> str:
    """A label that begins with the piece of time that is built, where the dataset is cut by time.

    Args:
        dataset: ``name[/config]``.
        label: of the task.
    """
    config = dataset.partition("/")[2]
    try:
        return f"{parse_partition(config)} {label}"
    except SettingsError:
        return label


def storage(told: Told) -> dict[str, Any]:
    """What the task's storage tab shows: the state, and the reason of each hit or miss."""
    shown = told.outcomes[:SHOWN]
    doc: dict[str, Any] = {
        "state": told.state,
        "label": told.title,
        "stages": [_shown(each) for each in shown],
    }
    if len(told.outcomes) > len(shown):
        doc["more"] = len(told.outcomes) - len(shown)
    if told.run is not None:
        doc["run"] = told.run.run_id
    return doc


def _shown(outcome: Outcome) -> dict[str, Any]:
    doc = outcome.to_json()
    return {key: value for key, value in doc.items() if value not in (None, [], {}, 0.0)}


def lines(outcomes: Iterable[Outcome]) -> list[str]:
    """A line a stage, for the log."""
    return [_line(each) for each in outcomes]


def _line(each: Outcome) -> str:
    if each.state == ABSENT:
        return f"{each.stage}: {'; '.join(each.why)}"
    text = f"{each.stage} [{each.state}]: {'; '.join(each.why)}"
    if each.waited_for:
        text += f"; waited for {each.waited_for}"
    counts = ", ".join(f"{number:,} {what}" for what, number in each.counts.items())
    took = f"{each.seconds:.2f} s" if not each.hit else ""
    return " · ".join(filter(None, (text, took, counts)))


def watcher(log: logging.Logger) -> Callable[[Mapping[str, Any]], None]:
    """Follows a stage in the task's log: its start and why, now and then how far it is, its end."""
    last = 0.0

    def tell(event: Mapping[str, Any]) -> None:
        nonlocal last
        kind, stage = event["event"], event.get("stage")
        if kind == "start":
            log.info("%s: begins: %s", stage, "; ".join(map(reason_text, event["reasons"])))
        elif kind == "wait":
            log.info("%s: waits for %s", stage, event["holder"])
        elif kind == "progress" and time.monotonic() - last > _PROGRESS_SECONDS:
            last = time.monotonic()
            total = f" of {event['total']:,}" if event.get("total") else ""
            log.info("%s: %s%s %s", stage, f"{event.get('done', 0):,}", total, event.get("unit"))

    return tell
