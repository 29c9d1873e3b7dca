"""Runs, the stages of one as a time chart, and one execution of a stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from markupsafe import Markup

from provender.catalog import RunRecord
from provender.catalog.records import full_name
from provender.questions import StageRun, VersionSummary
from provender.ui import plots, text, units
from provender.ui.parameters import PageNumber, Text, Viewing
from provender.ui.reading import STAGES, Page
from provender.ui.view import View

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class RunRow:
    """A run as a list shows it."""

    id: str
    kind: str
    dataset: str
    of: str
    outcome: str
    started: datetime
    seconds: float | None
    user: str
    host: str
    orchestrator: str


@dataclass(frozen=True)
class Bar:
    """A stage as the time chart shows it."""

    id: str
    key: str
    state: str
    span: Markup
    seconds: float | None
    why: tuple[str, ...]
    error: str | None
    run_id: str | None
    started: datetime


@router.get("/runs")
def runs(at: Viewing, dataset: Text = "", config: Text = "", page: PageNumber = 1) -> Response:
    """Runs, newest first."""
    if dataset:
        at.check(dataset)
    found = at.library.runs(page, dataset or None, config if dataset else None)
    rows = Page([_row(each) for each in found.items], found.number, found.more)
    return at.page(
        "runs.html",
        dataset=dataset,
        config=config,
        dataset_name=full_name(dataset, config),
        page=at.seen(rows),
        address=lambda number: at.link.runs(dataset=dataset, config=config, page=number),
    )


@router.get("/runs/{id}")
def run(at: Viewing, id: str, page: PageNumber = 1) -> Response:
    """One run with its stages."""
    details = at.library.run_details(id)
    found = details.record
    at.check(found.dataset)
    stages = sorted(details.stages, key=lambda each: (each.state != "hit", each.started))
    begin, total = _extent(found, stages)
    shown = Page.of(stages, page, STAGES)
    error = found.summary.get("error")
    return at.page(
        "run.html",
        run=found,
        of=_name(found),
        dataset_name=full_name(found.dataset, found.config),
        rows=_facts(at, found, details.version),
        error=error if isinstance(error, dict) else None,
        counts=dict(Counter(each.state for each in stages)),
        marks=plots.ticks(total),
        page=Page([_bar(each, begin, total) for each in shown.items], page, shown.more),
        reused=details.version if found.reused_version_id else None,
        address=lambda number: at.link.run(found.id, page=number),
    )


@router.get("/stages/{id}")
def stage(at: Viewing, id: str) -> Response:
    """One execution of a stage."""
    found = at.library.stage(id)
    at.check(found.dataset)
    parents, children = at.library.beside(found.id)
    return at.page(
        "stage.html",
        stage=found,
        dataset_name=full_name(found.dataset, found.config),
        machine=Markup("{}, process {}").format(text.shown(found.host, 60), found.pid),
        why=at.library.why(found.id).why,
        parents=parents,
        children=children,
    )


def _name(run: RunRecord) -> str:
    name = full_name(run.dataset, run.config)
    return f"{name}:{run.version}" if run.version else name


def _row(run: RunRecord) -> RunRow:
    return RunRow(
        id=run.id,
        kind=run.kind,
        dataset=run.dataset,
        of=_name(run),
        outcome=run.outcome,
        started=run.started,
        seconds=run.seconds,
        user=run.user,
        host=run.host,
        orchestrator=", ".join(f"{k} {v}" for k, v in (run.orchestrator or {}).items()),
    )


def _facts(at: View, run: RunRecord, version: VersionSummary | None) -> list[tuple[str, Any]]:
    gave: Any = ""
    if version is not None:
        gave = Markup('<a href="{}">{}</a>').format(
            at.link.version(version.id), text.shown(version.name)
        )
    by = Markup("{} on {}, process {}").format(
        text.shown(run.user, 60), text.shown(run.host, 60), run.pid
    )
    options = ", ".join(f"{name}={value}" for name, value in run.params.items())
    asked = ", ".join(f"{name} {value}" for name, value in (run.orchestrator or {}).items())
    return [
        ("run", Markup("<code>{}</code>").format(run.id)),
        ("started", units.moment(run.started)),
        ("time", units.seconds(run.seconds)),
        ("by", by),
        ("options", text.shown(options, 300) if options else ""),
        ("orchestrator", text.shown(asked, 300) if asked else ""),
        ("found ready" if run.reused_version_id else "gave", gave),
    ]


def _extent(run: RunRecord, stages: list[StageRun]) -> tuple[datetime, float]:
    """When the chart begins, and how many seconds it is wide."""
    own = [each for each in stages if each.state != "hit"]
    begin = min([run.started, *(each.started for each in own)])
    ends = [each.finished or datetime.now(UTC) for each in own]
    end = max([run.finished or run.started, *ends])
    return begin, max((end - begin).total_seconds(), 0.001)


def _bar(stage: StageRun, begin: datetime, total: float) -> Bar:
    if stage.state == "hit":
        drawn = plots.no_span()
    else:
        start = (stage.started - begin).total_seconds()
        took = stage.seconds
        end = start + took if took is not None else total
        drawn = plots.span(start, max(end, start), total, text.plain(stage.state, 20))
    return Bar(
        id=stage.id,
        key=stage.key,
        state=stage.state,
        span=drawn,
        seconds=stage.seconds,
        why=stage.why,
        error=stage.error,
        run_id=stage.run_id,
        started=stage.started,
    )
