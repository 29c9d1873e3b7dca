"""What people see of a run in Prefect: logs, a table of the stages, links, progress."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from provender.engine.plan import reason_text
from provender.engine.staged import Outcome, Published, RunDoc

PAGES_VARIABLE = "PROVENDER_UI_URL"
"""Environment variable: where ``provender ui`` serves the pages, as people's browsers reach it."""

PAGES = "http://127.0.0.1:8420"

_FIRST_SECONDS = 3.0
_EVERY_SECONDS = 2.0


def artifact_key(kind: str, name: str) -> str:
    """An artifact's key: Prefect allows lower-case letters, digits and dashes.

    Args:
        kind: ``stages``, ``lineage``.
        name: a dataset, ``name[/config]``.
    """
    return re.sub(r"[^a-z0-9]+", "-", f"{kind}-{name}".lower()).strip("-")


def page(path: str) -> str:
    """The address of a page of the catalog.

    Args:
        path: begins with a slash.
    """
    return os.environ.get(PAGES_VARIABLE, PAGES).rstrip("/") + path


def show_stages(doc: RunDoc, outcomes: Sequence[Outcome], end: str) -> None:
    """Leaves the table of a run's stages, each with hit or miss and why.

    Args:
        doc: the run.
        outcomes: the stages.
        end: how the run ended, one sentence.
    """
    from prefect.artifacts import create_table_artifact

    create_table_artifact(
        key=artifact_key("stages", doc.dataset),
        table=[_row(each) for each in outcomes],
        description=f"**{doc.name}**: {end}",
    )


def _row(outcome: Outcome) -> dict[str, Any]:
    waited = f" (waited for {outcome.waited_for})" if outcome.waited_for else ""
    return {
        "stage": outcome.stage,
        "state": outcome.state + waited,
        "why": "; ".join(outcome.why),
        "seconds": round(outcome.seconds, 2),
        "examples": outcome.counts.get("examples", ""),
        "fingerprint": (outcome.fingerprint or "")[:12],
    }


def show_links(doc: RunDoc) -> None:
    """Leaves links to the run and its lineage in the catalog's pages.

    Args:
        doc: the run.
    """
    from prefect.artifacts import create_link_artifact

    create_link_artifact(
        key=artifact_key("lineage", doc.dataset),
        link=page(f"/runs/{doc.run_id}"),
        link_text=f"Stages and lineage of {doc.name}",
        description=f"The run in the catalog, and from there each version's lineage. Pages are "
        f"served by `provender ui`; {PAGES_VARIABLE} says where.",
    )


def plan_table(dataset: str, plan: Any) -> list[dict[str, Any]]:
    """Leaves the table of a dry run, and gives its rows.

    Args:
        dataset: as it was asked for.
        plan: a `provender.engine.plan.Plan`.
    """
    from prefect.artifacts import create_table_artifact

    rows = [
        {"stage": s.key, "state": s.state, "why": "; ".join(map(reason_text, s.reasons))}
        for s in plan.steps
    ]
    conflict = f" It would be refused: {plan.conflict.message}" if plan.conflict else ""
    create_table_artifact(
        key=artifact_key("plan", dataset),
        table=rows,
        description=f"What a build of **{dataset}** would do.{conflict}",
    )
    return rows


def summary(published: Published) -> str:
    """How a run ended, one sentence.

    Args:
        published: the version that stands.
    """
    splits = ", ".join(f"{name} {count:,}" for name, count in published.splits.items())
    how = {
        "cached": "nothing had changed",
        "reused": "another process built it meanwhile",
    }.get(published.outcome, "built")
    return f"{published.name}, {how}; examples: {splits}"


class Watcher:
    """Passes on what a stage tells: to the task's log, and long work to a progress artifact.

    Args:
        logger: the run's logger.
        name: what the task does, for people.
    """

    def __init__(self, logger: Any, name: str) -> None:
        self._logger = logger
        self._name = name
        self._began = time.monotonic()
        self._last = 0.0
        self._artifact: Any = None

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Is told an event, see `provender.engine.build`."""
        kind, stage = event["event"], event.get("stage", "")
        if kind == "start":
            why = "; ".join(reason_text(each) for each in event["reasons"])
            self._logger.info("%s runs: %s", stage, why)
        elif kind == "done":
            self._logger.info("%s done in %.1f s", stage, event["seconds"] or 0)
            self._progress(100.0)
        elif kind == "wait":
            self._logger.info("%s waits: %s is at work on it", stage, event["holder"])
        elif kind == "reused":
            self._logger.info("%s was finished by another process, and is reused", stage)
        elif kind == "progress" and event.get("total"):
            self._progress(100.0 * event["done"] / event["total"])

    def _progress(self, percent: float) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        now = time.monotonic()
        if self._artifact is None:
            # Short work would only leave litter.
            if percent < 100 and now - self._began >= _FIRST_SECONDS:
                self._artifact = create_progress_artifact(percent, description=self._name)
                self._last = now
        elif percent >= 100 or now - self._last >= _EVERY_SECONDS:
            update_progress_artifact(self._artifact, min(percent, 100.0))
            self._last = now
