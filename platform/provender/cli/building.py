"""``plan`` and ``build``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.stage_rows import COLUMNS, Row, cells, reason_texts
from provender.cli.units import bytes_text, counted, seconds_text, short_id

if TYPE_CHECKING:
    from provender.catalog import VersionRecord
    from provender.cli.lines import Lines
    from provender.cli.live import Live
    from provender.cli.watching import Watch
    from provender.engine.build import Built
    from provender.engine.plan import Plan
    from provender.engine.session import Session


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(
        app,
        "plan",
        "provender plan xsum --manual-dir ~/xsum",
        "provender plan digits --json",
        options=p.BUILD,
    )(plan)
    command(
        app,
        "build",
        "provender build digits",
        "provender build my_set.py:MySet --workers 4 --max-examples 1000",
        'provender build xsum --allow max_drift --reason "new source, checked by hand"',
        options=p.PUBLISH,
    )(build)


def open_build(
    call: Invocation, ref: str, config: str | None, version: str | None, options: Mapping[str, Any]
) -> Session:
    """Opens the session that a reference and the options of the command line mean.

    Raises:
        SettingsError: an option makes no sense.
        UnknownReference: there is no such builder, config or version.
    """
    from provender.engine.session import Options, open_session
    from provender.refs import DatasetRef

    several = {name: tuple(options.get(name) or ()) for name in ("force", "allow", "beam_option")}
    asked = Options(**{**options, **several})
    wanted = DatasetRef.parse(ref).with_(config=config, version=version)
    return open_session(wanted, call.settings, asked, catalog=call.catalog)


def plan(
    call: Invocation,
    ref: p.Ref,
    config: p.Config = None,
    version: p.Version = None,
    **options: Any,
) -> int:
    """Say which stages a build would reuse, run or wait for, and why. Changes nothing."""
    from provender.engine.decide import decide

    session = open_build(call, ref, config, version, options)
    found = decide(session)
    facts = session.facts
    if call.json:
        about = {"dataset": facts.name, "config": facts.config, "number": facts.version}
        call.out.document({**about, **found.to_json()})
    else:
        call.out.remark(f"{facts.ref}:{facts.version}", style="bold")
        call.out.table(COLUMNS, cells(plan_rows(found), verbose=call.verbose))
        if found.done:
            call.out.remark("Nothing to do.")
    if found.conflict is None:
        return 0
    if call.json:
        return found.conflict.exit_code
    raise found.conflict


def build(
    call: Invocation,
    ref: p.Ref,
    config: p.Config = None,
    version: p.Version = None,
    **options: Any,
) -> None:
    """Build a version and publish it. Only stages whose inputs changed run.

    Interrupted or killed at any moment, the same command goes on from the finished pieces.
    """
    from provender.cli.watching import Watch
    from provender.engine.build import build as run_build

    call.resumes = True
    session = open_build(call, ref, config, version, options)
    watch = Watch()
    with _teller(call, watch) as tell:
        built = run_build(session, tell)
    if call.json:
        call.out.document(built.to_json())
    elif call.quiet:
        call.out.line(built.version.uri)
    else:
        _summarise(call, watch, built)


def _teller(call: Invocation, watch: Watch) -> Lines | Live:
    """Whoever shows the events: a moving display, lines, or nobody."""
    from provender.cli.lines import Lines

    if call.out.is_terminal and not call.quiet:
        from provender.cli.live import Live

        return Live(watch, call.out.console, verbose=call.verbose)
    silent = call.json or call.quiet
    return Lines(watch, (lambda _: None) if silent else call.out.line, verbose=call.verbose)


def plan_rows(found: Plan) -> list[Row]:
    """A plan as table rows."""
    return [Row(step.key, step.state, reason_texts(step.reasons)) for step in found.steps]


def _summarise(call: Invocation, watch: Watch, built: Built) -> None:
    stages = built.version.info.get("stages", {})
    rows = watch.rows(stages) if built.outcome == "succeeded" else plan_rows(built.plan)
    call.out.table(COLUMNS, cells(rows, verbose=call.verbose))
    call.out.line()
    version = built.version
    call.out.line(f"{version.name}  {version.status}", style="bold")
    call.out.pairs(
        [
            ("path", version.uri),
            ("holds", holdings(version)),
            ("checks", _checks(call, built)),
            ("time", f"{seconds_text(built.seconds)}, {_outcome(built)}"),
            ("run", short_id(built.run_id)),
        ]
    )


def _checks(call: Invocation, built: Built) -> str:
    """``6 passed, 1 allowed``; empty where none were made."""
    if built.outcome != "succeeded":
        return ""
    states = [each.state for each in call.catalog.checks(run_id=built.run_id)]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))


def holdings(version: VersionRecord) -> str:
    """``25 examples (train 20, test 5), 1.2 KiB``."""
    splits = ", ".join(f"{each.name} {each.examples:,}" for each in version.splits)
    return f"{counted(version.examples, 'example')} ({splits}), {bytes_text(version.bytes)}"


def _outcome(built: Built) -> str:
    if built.outcome == "cached":
        return "nothing to do"
    if built.outcome == "reused":
        return "built by another process meanwhile"
    return f"{counted(len(built.ran), 'stage')} ran"
