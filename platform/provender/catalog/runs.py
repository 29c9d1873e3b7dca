"""Runs: who asked for what, and how it ended."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.columns import new_id, utc_now
from provender.catalog.processes import this_process
from provender.catalog.records import RunRecord
from provender.catalog.session import Session, insert_missing
from provender.errors import UnknownReference

Document = Mapping[str, Any]


class Runs(Session):
    """The part of the catalog that remembers runs."""

    def begin_run(
        self,
        kind: str,
        dataset: str,
        config: str | None,
        version: str | None,
        params: Document | None = None,
        orchestrator: Document | None = None,
    ) -> str:
        """Opens a run of this process.

        Args:
            kind: ``build``, ``plan``, ``verify``, ``retract`` ...
            dataset: dataset name.
            config: builder config; None and "" both mean the default.
            version: number that was asked for, or None.
            params: what was asked for, JSON-ready; never secrets.
            orchestrator: ids of the Airflow or Prefect run, JSON-ready.

        Returns:
            The run's id.
        """
        row = run_row(kind, dataset, config, version, params, orchestrator)
        self._write(lambda conn: conn.execute(t.run.insert(), row))
        return row["id"]

    def finish_run(self, run_id: str, outcome: str, summary: Document | None = None) -> None:
        """Closes a run.

        Args:
            run_id: from `begin_run`.
            outcome: ``succeeded``, ``failed``, ``cached``, ``refused``, ``died`` ...
            summary: what came out, JSON-ready.

        Raises:
            UnknownReference: there is no such run.
        """
        done = (
            t.run.update()
            .where(t.run.c.id == run_id)
            .values(outcome=outcome, summary=dict(summary or {}), finished_at=utc_now())
        )
        if self._write(lambda conn: conn.execute(done).rowcount) == 0:
            raise _unknown_run(run_id)

    def record_noop_run(
        self,
        kind: str,
        dataset: str,
        config: str | None,
        version: str | None,
        params: Document | None,
        summary: Document | None,
        reused_version_id: str | None,
        *,
        orchestrator: Document | None = None,
        started: datetime | None = None,
    ) -> str:
        """Records a run that found everything ready: one row in ``run`` and nothing else.

        Returns:
            The run's id; its outcome is ``cached``.
        """
        row = run_row(kind, dataset, config, version, params, orchestrator)
        row["outcome"] = "cached"
        row["summary"] = dict(summary or {})
        row["reused_version_id"] = reused_version_id
        row["finished_at"] = utc_now()
        row["started_at"] = started or row["started_at"]
        self._write(lambda conn: conn.execute(t.run.insert(), row))
        return row["id"]

    def record_hits(self, run_id: str, stage_ids: Iterable[str]) -> None:
        """Notes which earlier executions a run reused. Saying it twice is once.

        For a run in which everything was ready use `record_noop_run`, which does not grow with
        the number of stages.
        """
        now = utc_now()
        rows = [{"run_id": run_id, "stage_id": id_, "at": now} for id_ in sorted(set(stage_ids))]
        self._write(lambda conn: insert_missing(conn, t.run_hit, rows))

    def runs(
        self,
        dataset: str | None = None,
        limit: int | None = 100,
        *,
        config: str | None = None,
        version: str | None = None,
        offset: int = 0,
    ) -> list[RunRecord]:
        """Runs, newest first; those of one dataset, one config and one number, where given."""
        query = sa.select(t.run).order_by(t.run.c.seq.desc()).limit(limit).offset(offset or None)
        if dataset is not None:
            query = query.where(t.run.c.dataset == dataset)
        if config is not None:
            query = query.where(t.run.c.config == config)
        if version is not None:
            query = query.where(t.run.c.version == version)
        return self._read(lambda conn: [run_record(row) for row in conn.execute(query)])

    def identity(self) -> str | None:
        """What tells this catalog from all others, wherever it is opened: the id of its first run.

        None where nothing was ever run. A copy of a catalog is the same one.
        """
        first = sa.select(t.run.c.id).order_by(t.run.c.seq).limit(1)
        found = self._read(lambda conn: conn.execute(first).scalar())
        return None if found is None else str(found)

    def run(self, id: str) -> RunRecord:
        """One run, by its id or the first digits of it.

        Raises:
            UnknownReference: no run has such an id, or several do.
        """
        row = self._read(lambda conn: by_id(conn, t.run, id))
        if row is None:
            raise _unknown_run(id)
        return run_record(row)


def run_row(
    kind: str,
    dataset: str,
    config: str | None,
    version: str | None,
    params: Document | None,
    orchestrator: Document | None,
) -> dict[str, Any]:
    """A row of ``run`` for a run that this process begins now."""
    owner = this_process()
    return {
        "id": new_id(),
        "kind": kind,
        "dataset": dataset,
        "config": config or "",
        "version": version,
        "params": dict(params or {}),
        "orchestrator": dict(orchestrator) if orchestrator else None,
        "host": owner.host,
        "pid": owner.pid,
        "process_start": owner.process_start,
        "user_name": user_name(),
        "outcome": "running",
        "summary": {},
        "reused_version_id": None,
        "started_at": utc_now(),
        "finished_at": None,
    }


def run_record(row: Any) -> RunRecord:
    """A row of ``run`` as a value."""
    return RunRecord(
        id=row.id,
        kind=row.kind,
        dataset=row.dataset,
        config=row.config,
        version=row.version,
        params=row.params,
        orchestrator=row.orchestrator,
        host=row.host,
        pid=row.pid,
        process_start=row.process_start,
        user=row.user_name,
        outcome=row.outcome,
        summary=row.summary,
        reused_version_id=row.reused_version_id,
        started=row.started_at,
        finished=row.finished_at,
    )


def by_id(conn: Connection, table: sa.Table, id: str) -> Any | None:
    """The row with that id, or the only one whose id starts so (four digits or more).

    Raises:
        UnknownReference: several ids start so.
    """
    if len(id) == 32 or len(id) < 4:
        return conn.execute(sa.select(table).where(table.c.id == id)).first()
    starts = table.c.id.startswith(id, autoescape=True)
    rows = conn.execute(sa.select(table).where(starts).limit(2)).all()
    if len(rows) > 1:
        message = f"Several ids start with {id!r}."
        raise UnknownReference(message, hint="Give more digits of the id.")
    return rows[0] if rows else None


@lru_cache(maxsize=1)
def user_name() -> str:
    """The account this process runs as; empty where the system has no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _unknown_run(run_id: str) -> UnknownReference:
    return UnknownReference(f"There is no run {run_id!r}.", hint="List them: provender runs")
