"""``runs`` and ``stages``: what was done, by whom, and how it ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.completion import complete_reference
from provender.cli.invocation import Invocation
from provender.cli.stage_rows import Row, grouped, is_part, named, reason_texts, why_text
from provender.cli.tables import Column, state_style
from provender.cli.units import seconds_text, short_id, time_text
from provender.errors import SettingsError
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import RunRecord, StageRecord

_ID = re.compile(r"[0-9a-f]{4,32}")
_STAGE_COLUMNS = (
    Column("stage"),
    Column("state", style=state_style),
    Column("started (UTC)"),
    Column("time", right=True),
    Column("tries", right=True),
    Column("host"),
    Column("why", wraps=True),
)


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "runs", "provender runs xsum --limit 5", "provender runs 3f0c9a12")(runs)
    command(app, "stages", "provender stages xsum", "provender stages --run 3f0c9a12")(stages)


def runs(
    call: Invocation,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[REF|ID]",
            help="Only this dataset or version; or one run in detail, by its id or the first "
            "digits of it.",
            autocompletion=complete_reference,
            show_default=False,
        ),
    ] = None,
    limit: p.Limit = 20,
) -> None:
    """List runs, newest first, or show one in detail."""
    if what is not None and _ID.fullmatch(what) and not _is_dataset(call, what):
        _one_run(call, call.catalog.run(what))
        return
    if what is None:
        found = call.catalog.runs(limit=limit)
    else:
        found = _runs_of(call, what, limit)
    if call.json:
        call.out.document(found)
        return
    if not found:
        call.out.remark("There was no run yet.")
        return
    columns = [
        Column("run"),
        Column("kind"),
        Column("of"),
        Column("outcome", style=state_style),
        Column("started (UTC)"),
        Column("time", right=True),
        Column("user"),
        Column("host"),
    ]
    rows = [
        (
            short_id(each.id),
            each.kind,
            _name(each),
            each.outcome,
            time_text(each.started),
            seconds_text(each.seconds),
            each.user,
            each.host,
        )
        for each in found
    ]
    call.out.table(columns, rows)


def _runs_of(call: Invocation, ref: str, limit: int) -> list[RunRecord]:
    """The runs of a dataset; of one version, where the reference has a number or an alias."""
    from provender.cli.references import known_dataset, version_of

    dataset, config = known_dataset(call, ref)
    asked = DatasetRef.parse(ref)
    number = version_of(call, ref).version if asked.alias else asked.version
    found = call.catalog.runs(dataset, limit=limit, config=config, version=number)
    if number and not found:
        # Says which versions there are. A build that failed has a run and no version.
        version_of(call, ref)
    return found


def _is_dataset(call: Invocation, name: str) -> bool:
    """Whether something that looks like an id (``cafe``) is a dataset's name."""
    return bool(call.catalog.runs(name, limit=1))


def _name(run: RunRecord) -> str:
    name = f"{run.dataset}/{run.config}" if run.config else run.dataset
    return f"{name}:{run.version}" if run.version else name


def _one_run(call: Invocation, run: RunRecord) -> None:
    records = _of_run(call, run.id)
    if call.json:
        call.out.document({"run": run, "stages": [_document(*each) for each in records]})
        return
    error = run.summary.get("error") or {}
    orchestrator = ", ".join(f"{k} {v}" for k, v in (run.orchestrator or {}).items())
    reused = call.catalog.version_by_id(run.reused_version_id) if run.reused_version_id else None
    call.out.line(f"{run.kind} of {_name(run)}  {run.outcome}", style="bold")
    call.out.pairs(
        [
            ("run", run.id),
            ("started", f"{time_text(run.started)} UTC"),
            ("time", seconds_text(run.seconds)),
            ("by", f"{run.user} on {run.host}, process {run.pid}"),
            ("options", ", ".join(f"{name}={value}" for name, value in run.params.items())),
            ("orchestrator", orchestrator),
            ("reused", reused.name if reused else ""),
            ("gave", str(run.summary.get("version") or "")),
            ("error", " ".join(str(error.get("message", "")).split())),
        ]
    )
    if records:
        call.out.line()
        _table(call, records)


def stages(call: Invocation, ref: p.OptionalRef = None, run: p.Run = None) -> None:
    """List the stages of a dataset, of the run that made a version, or of any run.

    Of a dataset, the latest execution of each.
    """
    if (ref is None) == (run is None):
        raise SettingsError(
            "Give a dataset or a run.",
            where="stages",
            hint="`provender stages REF`, or `provender stages --run ID`.",
        )
    if run is not None:
        records = _of_run(call, call.catalog.run(run).id)
    else:
        records = _of_dataset(call, str(ref))
    if call.json:
        call.out.document([_document(*each) for each in records])
        return
    _table(call, records)


_Listed = tuple["StageRecord", str]
"""An execution, and its state as the list shows it."""


def _of_run(call: Invocation, run_id: str) -> list[_Listed]:
    hits = [(each, "hit") for each in call.catalog.hits(run_id)]
    own = call.catalog.stages(run_id=run_id, limit=None)[::-1]
    return [*hits, *((each, each.state) for each in own)]


def _of_dataset(call: Invocation, ref: str) -> list[_Listed]:
    from provender.cli.references import known_dataset, version_of

    asked = DatasetRef.parse(ref)
    if asked.version or asked.alias:
        version = version_of(call, ref)
        return _of_run(call, version.run_id) if version.run_id else []
    dataset, config = known_dataset(call, ref)
    latest = dict(call.catalog.last_stages(dataset, config))
    # The newest success is what counts, unless something newer failed or is at work now.
    for state in ("failed", "running"):
        for each in call.catalog.stages(dataset=dataset, config=config, state=state, limit=1000):
            known = latest.get(each.key)
            if known is None or known.started < each.started:
                latest[each.key] = each
    ordered = sorted(latest.values(), key=lambda each: (each.started, each.key))
    return [(each, each.state) for each in ordered]


def _document(record: StageRecord, state: str) -> dict[str, Any]:
    from provender.cli.documents import plain

    return {**plain(record), "state": state, "why": list(reason_texts(record.reason))}


def _table(call: Invocation, records: list[_Listed]) -> None:
    rows = []
    for record, state in records:
        if is_part(record.key) and not call.verbose and state == "succeeded":
            continue
        why = reason_texts(record.reason)
        if record.error and state == "failed":
            why = (*why, f"failed: {record.error.get('message', '')}")
        rows.append(Row(record.key, state, why, record))
    groups = grouped(rows, verbose=call.verbose)
    call.out.table(_STAGE_COLUMNS, [_cells(call, group) for group in groups])


def _cells(call: Invocation, group: list[Row]) -> tuple[str, ...]:
    """A stage, or a range of shards: when the first began, their times added up."""
    records = [row.record for row in group if row.record]
    seconds = [each.seconds for each in records if each.seconds is not None]
    return (
        *named(group),
        time_text(min(each.started for each in records)),
        seconds_text(sum(seconds)) if seconds else "",
        str(max(each.attempts for each in records)),
        ", ".join(sorted({each.host for each in records})),
        why_text(group[0].why, verbose=call.verbose),
    )
