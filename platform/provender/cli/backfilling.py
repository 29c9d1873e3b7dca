"""``backfill``: a dataset that is cut by time, built for a span of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column, state_style
from provender.cli.units import counted, seconds_text
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.orchestration.backfill import Backfill, Piece

_VIA = ("local", "airflow")
_STYLED = {"built": "succeeded", "left": "skipped"}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(
        app,
        "backfill",
        "provender backfill news --from 2026-11-01 --to 2026-11-30",
        "provender backfill news --from 2026-11-01 --to 2026-11-30 --dry-run",
        "provender backfill news --from 2026-10 --to 2026-11 --reprocess failed --max-parallel 4",
        "provender backfill news --from 2026-11-01 --to 2026-11-30 --via airflow",
    )(backfill)


def backfill(
    call: Invocation,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A dataset of provender.toml that is cut by time.")
    ],
    first: Annotated[
        str, typer.Option("--from", metavar="DATE", help="Its first piece: 2026-11-01, 2026-11.")
    ],
    last: Annotated[
        str, typer.Option("--to", metavar="DATE", help="Its last piece, which is included.")
    ],
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="GRAIN", help="hour, day, week, month or year; else as registered."
        ),
    ] = None,
    max_parallel: Annotated[
        int, typer.Option("--max-parallel", min=1, metavar="N", help="Pieces at the same time.")
    ] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be built, and why.")
    ] = False,
    reprocess: Annotated[
        str,
        typer.Option(
            "--reprocess",
            metavar="none|failed|completed",
            help="Build again: nothing that has ended, also what failed, or everything.",
        ),
    ] = "none",
    via: Annotated[
        str,
        typer.Option("--via", metavar="local|airflow", help="Who builds: this machine or Airflow."),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, metavar="N", help="Worker processes of each build, here."),
    ] = None,
    airflow_url: Annotated[
        str | None,
        typer.Option(
            "--airflow-url", metavar="URL", help="Airflow's address, else AIRFLOW_API_URL."
        ),
    ] = None,
) -> int:
    """Build every piece of a span of time that is not built yet.

    Interrupted or killed at any moment, the same command goes on: what is built is read from the
    catalog. A piece that fails stops no other; the exit code is 1 then.
    """
    from provender.orchestration.backfill import plan_backfill
    from provender.orchestration.backfill.planning import grain_for

    if via not in _VIA:
        raise SettingsError(
            f"Nobody called {via!r} builds.", where="--via", hint=f"One of {', '.join(_VIA)}."
        )
    _check_suits(via, workers, airflow_url)
    call.resumes = True
    grain = grain_for(name, call.settings, every)
    plan = plan_backfill(call.catalog, name, grain, first, last, reprocess)
    if dry_run or not plan.todo:
        return _show(call, plan)
    told = _Teller(call, plan)
    if via == "local":
        return _show(call, told.ended(_here(call, plan, max_parallel, workers, told)))

    from provender.orchestration.backfill import with_versions
    from provender.orchestration.backfill.address import Address
    from provender.orchestration.backfill.through_airflow import AirflowBackfill

    address = Address.of_environment(airflow_url)
    done = AirflowBackfill(address, plan, max_parallel, told).run()
    return _show(call, with_versions(told.ended(done), call.catalog))


def _check_suits(via: str, workers: int | None, airflow_url: str | None) -> None:
    """Refuses an option that is meant for the other builder."""
    if via == "airflow" and workers is not None:
        raise SettingsError(
            "--workers is for builds on this machine.",
            where="--workers",
            hint="Airflow takes the number from `workers` in its provender.toml.",
        )
    if via == "local" and airflow_url is not None:
        raise SettingsError(
            "--airflow-url is for builds by Airflow.", where="--airflow-url", hint="--via airflow"
        )


def _here(
    call: Invocation, plan: Backfill, parallel: int, workers: int | None, tell: _Teller
) -> list[Piece]:
    from provender.orchestration.backfill.local import LocalBackfill

    given = {
        "--config-file": str(call.settings.path) if call.settings.path else None,
        "--store": call.store_url,
        "--catalog": call.catalog_url,
    }
    options = [word for name, value in given.items() if value for word in (name, value)]
    build = ["--workers", str(workers)] if workers else []
    return LocalBackfill(plan.dataset, options, build, parallel, tell).run(plan.todo)


class _Teller:
    """Shows every change as a line, with how many are done and the time that is left."""

    def __init__(self, call: Invocation, plan: Backfill) -> None:
        self._call = call
        self._plan = plan
        self._ended = 0
        self._seconds = 0.0

    def __call__(self, piece: Piece) -> None:
        """Is told a piece whose state has changed."""
        if self._call.json or self._call.quiet or piece.state == "waiting":
            return
        if piece.state == "running":
            self._call.out.line(f"{piece.name}  running  {piece.why}".rstrip())
            return
        self._ended += 1
        self._seconds += piece.seconds
        total = len(self._plan.todo)
        left = (total - self._ended) * self._seconds / self._ended
        pace = f", about {seconds_text(left)} of work left" if left >= 1 else ""
        self._call.out.line(
            f"{piece.name}  {piece.state}  {piece.why}  ({self._ended} of {total}{pace})"
        )

    def ended(self, done: list[Piece]) -> Backfill:
        """The plan with what has become of its pieces."""
        from dataclasses import replace

        now = {each.name: each for each in done}
        pieces = tuple(now.get(each.name, each) for each in self._plan.pieces)
        return replace(self._plan, pieces=pieces)


def _show(call: Invocation, plan: Backfill) -> int:
    failed = plan.count("failed")
    if call.json:
        call.out.document(plan.to_json())
        return 1 if failed else 0
    columns = [
        Column("piece"),
        Column("state", style=_state_style),
        Column("why", wraps=True),
        Column("version"),
    ]
    rows = [(each.name, each.state, each.why, each.version or "") for each in plan.pieces]
    call.out.table(columns, rows)
    states = dict.fromkeys(each.state for each in plan.pieces)
    counts = ", ".join(f"{plan.count(state)} {state}" for state in states)
    call.out.remark(f"{counted(len(plan.pieces), plan.grain)}: {counts}")
    return 1 if failed else 0


def _state_style(state: str) -> str:
    return state_style(_STYLED.get(state, state))
