"""Runs that an orchestrator drives: one run, many processes, none of which lives from end to end.

Such a run is named by whoever drives it, so that each task finds it again, and so does a task that is
tried a second time. It belongs to no process: nobody takes it for dead between two of its tasks. A
piece of it that failed keeps the run failed until the piece is tried again.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.columns import utc_now
from provender.catalog.records import RunRecord
from provender.catalog.runs import run_record, run_row
from provender.catalog.session import Session, insert_missing
from provender.errors import UnknownReference

Document = Mapping[str, Any]
_RUN = t.run
ENDED_WELL = frozenset({"succeeded", "cached", "reused"})


def run_id_of(orchestrator: Document) -> str:
    """The id of a run, from what the orchestrator calls it: the same for each of its tasks."""
    told = json.dumps(dict(orchestrator), sort_keys=True).encode()
    return hashlib.blake2b(told, digest_size=16, person=b"provender run").hexdigest()


class OrchestratedRuns(Session):
    """The part of the catalog that remembers runs of orchestrators."""

    def open_run(
        self,
        id: str,
        kind: str,
        dataset: str,
        config: str | None,
        version: str | None,
        params: Document | None = None,
        orchestrator: Document | None = None,
    ) -> RunRecord:
        """Opens a run that outlives the process, or finds it. Saying it twice is once.

        Args:
            id: 32 hex digits, best from `run_id_of`.
            kind: ``build``.
            dataset: dataset name.
            config: builder config; None and "" both mean the default.
            version: number that was asked for, or None.
            params: what was asked for, JSON-ready; never secrets.
            orchestrator: ids of the Airflow or Prefect run, JSON-ready.

        Returns:
            The run as it stands.
        """
        row = run_row(kind, dataset, config, version, params, orchestrator)
        # A host without the digest of a boot: no process of it can be proven dead.
        row |= {"id": id, "host": socket.gethostname(), "pid": 0, "process_start": ""}

        def work(conn: Connection) -> RunRecord:
            insert_missing(conn, _RUN, [row])
            return run_record(_found(conn, id))

        return self._write(work)

    def airflow_dags(self, dataset: str) -> set[str]:
        """The ids of the DAGs whose runs have built a dataset, or tried to.

        Args:
            dataset: dataset name.
        """
        told = _RUN.c.orchestrator
        query = sa.select(told["dag_id"].as_string()).distinct()
        query = query.where(_RUN.c.dataset == dataset, told["name"].as_string() == "airflow")
        found = self._read(lambda conn: conn.execute(query).scalars().all())
        return {each for each in found if each}

    def note_piece(
        self, id: str, piece: str, error: Document | None = None, outcome: str = "failed"
    ) -> RunRecord:
        """Notes that a piece of a run failed, or that a piece is at work (again).

        Args:
            id: the run.
            piece: the piece's name, e.g. ``shards train 0-3``.
            error: what ended it; None where it begins.
            outcome: of the run, where it failed.

        Returns:
            The run; it is ``running`` if none of its pieces stands as failed.

        Raises:
            UnknownReference: there is no such run.
        """

        def work(conn: Connection) -> RunRecord:
            row = _found(conn, id, lock=True)
            failed = dict(row.summary.get("failed", {}))
            failed.pop(piece, None)
            values: dict[str, Any] = {"outcome": "running", "finished_at": None}
            if error is not None:
                failed[piece] = dict(error)
                values = {"outcome": outcome, "finished_at": utc_now()}
            elif failed:
                values = {}
            summary = {"failed": failed, "error": next(iter(failed.values()))} if failed else {}
            if values or summary != row.summary:
                conn.execute(_RUN.update().where(_RUN.c.id == id).values(summary=summary, **values))
            return run_record(_found(conn, id))

        return self._write(work)

    def close_run(
        self,
        id: str,
        outcome: str,
        summary: Document | None = None,
        reused_version_id: str | None = None,
    ) -> RunRecord:
        """Closes a run; one that ended well stays as it is where nothing was done since.

        Args:
            id: the run.
            outcome: ``succeeded``, ``cached``, ``reused``, ``failed`` ...
            summary: what came out, JSON-ready.
            reused_version_id: the version that was found ready, where nothing was done.

        Raises:
            UnknownReference: there is no such run.
        """

        def work(conn: Connection) -> RunRecord:
            row = _found(conn, id, lock=True)
            if row.outcome not in ENDED_WELL:
                values = {
                    "outcome": outcome,
                    "summary": dict(summary or {}),
                    "finished_at": utc_now(),
                    "reused_version_id": reused_version_id,
                }
                conn.execute(_RUN.update().where(_RUN.c.id == id).values(**values))
            return run_record(_found(conn, id))

        return self._write(work)


def _found(conn: Connection, id: str, *, lock: bool = False) -> Any:
    query = sa.select(_RUN).where(_RUN.c.id == id)
    row = conn.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise UnknownReference(
            f"There is no run {id!r} in this catalog.",
            hint="Do all workers use one catalog? `provender doctor` shows which one is used.",
        )
    return row
