"""Stage memory: which stage ran, on what, with what outcome, and what it left behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.columns import new_id, utc_now
from provender.catalog.edges import record_edges
from provender.catalog.processes import Owner, host_identity, this_process
from provender.catalog.processes import process_start as start_of
from provender.catalog.records import ArtifactRecord, StageRecord
from provender.catalog.runs import by_id
from provender.catalog.session import Session, insert_missing, select_in
from provender.errors import CatalogError, UnknownReference

Document = Mapping[str, Any]
_STAGE = t.stage_execution


class Stages(Session):
    """The part of the catalog that decides what need not run again."""

    def find_stage(self, fingerprint: str) -> StageRecord | None:
        """The newest succeeded execution of a fingerprint, with its outputs, or None."""
        return self.find_stages([fingerprint]).get(fingerprint)

    def find_stages(self, fingerprints: Iterable[str]) -> dict[str, StageRecord]:
        """`find_stage` for many, in two queries.

        Returns:
            Fingerprint -> execution, for those that have one.
        """
        wanted = list(fingerprints)

        def newest(batch: Sequence[str]) -> sa.Select[Any]:
            seqs = (
                sa.select(sa.func.max(_STAGE.c.seq))
                .where(_STAGE.c.fingerprint.in_(batch), _STAGE.c.state == "succeeded")
                .group_by(_STAGE.c.fingerprint)
            )
            return sa.select(_STAGE).where(_STAGE.c.seq.in_(seqs))

        def work(conn: Connection) -> dict[str, StageRecord]:
            rows = list(select_in(conn, newest, wanted))
            return {found.fingerprint: found for found in _with_outputs(conn, rows)}

        return self._read(work)

    def last_stage(self, dataset: str, config: str | None, key: str) -> StageRecord | None:
        """What to compare a stage with: its newest success, else its newest end of any kind.

        Args:
            dataset: dataset name.
            config: builder config.
            key: stage key, e.g. ``shards/train/00003``.
        """
        return self._last(dataset, config, _STAGE.c.key == key).get(key)

    def last_stages(self, dataset: str, config: str | None) -> dict[str, StageRecord]:
        """`last_stage` for every stage of a dataset, by key."""
        return self._last(dataset, config)

    def _last(
        self, dataset: str, config: str | None, *conditions: sa.ColumnElement[bool]
    ) -> dict[str, StageRecord]:
        success = sa.case((_STAGE.c.state == "succeeded", _STAGE.c.seq))
        seqs = (
            sa.select(sa.func.coalesce(sa.func.max(success), sa.func.max(_STAGE.c.seq)))
            .where(
                _STAGE.c.dataset == dataset,
                _STAGE.c.config == (config or ""),
                _STAGE.c.state != "running",
                *conditions,
            )
            .group_by(_STAGE.c.key)
        )
        query = sa.select(_STAGE).where(_STAGE.c.seq.in_(seqs))

        def work(conn: Connection) -> dict[str, StageRecord]:
            return {found.key: found for found in _with_outputs(conn, conn.execute(query).all())}

        return self._read(work)

    def start_stage(
        self,
        run_id: str | None,
        dataset: str,
        config: str | None,
        key: str,
        fingerprint: str,
        *,
        reason: Sequence[Document] = (),
        tree: Document | None = None,
        attempts: int = 1,
        owner: Owner | None = None,
    ) -> str:
        """Shows a stage as running.

        Args:
            run_id: the run that asked for it, or None.
            dataset: dataset name.
            config: builder config.
            key: stage key; its first part is the kind of stage.
            fingerprint: digest of everything the stage depends on.
            reason: why it runs, one JSON document a cause.
            tree: the named digests behind the fingerprint; kept once per fingerprint.
            attempts: which attempt this is, from 1.
            owner: the process that works; this one by default.

        Returns:
            The execution's id, to be finished by `record_stage(..., id=id)`.
        """
        owner = owner or this_process()
        row = _identity_row(run_id, dataset, config, key, fingerprint, owner)
        row |= _outcome_row("running", reason, None, utc_now(), None, attempts, None)

        def work(conn: Connection) -> None:
            _keep_tree(conn, fingerprint, key, tree)
            conn.execute(_STAGE.insert(), row)

        self._write(work)
        return row["id"]

    def record_stage(
        self,
        run_id: str | None,
        dataset: str,
        config: str | None,
        key: str,
        fingerprint: str,
        *,
        state: str,
        reason: Sequence[Document] | None = None,
        tree: Document | None = None,
        result: Document | None = None,
        outputs: Sequence[ArtifactRecord] = (),
        inputs: Iterable[str] = (),
        started: datetime | None = None,
        finished: datetime | None = None,
        attempts: int = 1,
        host: str | None = None,
        pid: int | None = None,
        error: Document | None = None,
        id: str | None = None,
    ) -> StageRecord:
        """Records how a stage ended, with all it left behind, in one transaction.

        Args:
            run_id: the run that asked for it, or None.
            dataset: dataset name.
            config: builder config.
            key: stage key.
            fingerprint: digest of everything the stage depends on.
            state: ``succeeded``, ``cached``, ``failed``, ``skipped`` or ``waiting``.
            reason: why it ran; None keeps what `start_stage` was given.
            tree: the named digests behind the fingerprint.
            result: what the stage answered, JSON-ready.
            outputs: its artifacts; their names must differ.
            inputs: artifact digests or ids of executions. A digest is linked to the execution
                that made it most lately (of this dataset, if one of it did). Ids are cheaper
                where many artifacts come from one execution.
            started: now, or what `start_stage` recorded, by default.
            finished: now by default.
            attempts: how often it was tried.
            host: host identity of the process that worked (`this_process().host`).
            pid: its pid.
            error: ``ProvenderError.to_json`` of what ended it.
            id: of the execution that `start_stage` opened; None records a new one.

        Returns:
            The execution as `find_stage` will give it.

        Raises:
            UnknownReference: ``id`` names no execution.
            CatalogError: two outputs share a name, or the database refuses.
        """
        owner = _owner(host, pid)
        now = utc_now()
        row = _identity_row(run_id, dataset, config, key, fingerprint, owner)
        row |= _outcome_row(
            state, reason or (), result, started or now, finished or now, attempts, error
        )
        known_inputs = list(inputs)
        _refuse_namesakes(key, outputs)

        def work(conn: Connection) -> StageRecord:
            _keep_tree(conn, fingerprint, key, tree)
            if id is None:
                conn.execute(_STAGE.insert(), row)
            else:
                kept = {"id"} | ({"reason"} if reason is None else set())
                kept |= {"started_at"} if started is None else set()
                _finish(conn, id, {name: row[name] for name in row.keys() - kept})
            stage_id = id or row["id"]
            _keep_outputs(conn, stage_id, outputs)
            record_edges(conn, stage_id, "stage", known_inputs, dataset, config or "")
            stored = conn.execute(sa.select(_STAGE).where(_STAGE.c.id == stage_id)).one()
            return _stage_record(stored, tuple(outputs))

        return self._write(work)

    def update_artifact(self, stage_id: str, name: str, uri: str, token: str) -> None:
        """Notes where an output lies now; see `update_artifacts`."""
        self.update_artifacts([(stage_id, name, uri, token)])

    def update_artifacts(self, moves: Iterable[tuple[str, str, str, str]]) -> None:
        """Notes where outputs lie now, as shards move when a version is published.

        Args:
            moves: (stage id, output name, new uri, new token), all or none of them.

        Raises:
            UnknownReference: a stage has no such output.
        """
        outputs = t.stage_output
        todo = list(moves)

        def work(conn: Connection) -> None:
            for stage_id, name, uri, token in todo:
                place = (outputs.c.stage_id == stage_id, outputs.c.name == name)
                moved = outputs.update().where(*place).values(uri=uri, token=token)
                if conn.execute(moved).rowcount == 0:
                    message = f"Stage {stage_id} has no output {name!r}."
                    raise UnknownReference(message)

        self._write(work)

    def tree(self, fingerprint: str) -> dict[str, Any] | None:
        """The named digests behind a fingerprint, or None where they were not kept."""
        return self.trees([fingerprint]).get(fingerprint)

    def trees(self, fingerprints: Iterable[str]) -> dict[str, dict[str, Any]]:
        """`tree` for many, in one query."""
        columns = t.fingerprint.c

        def by_fingerprint(batch: Sequence[str]) -> sa.Select[Any]:
            return sa.select(columns.fingerprint, columns.tree).where(
                columns.fingerprint.in_(batch)
            )

        wanted = list(fingerprints)
        return self._read(
            lambda conn: {
                row.fingerprint: row.tree for row in select_in(conn, by_fingerprint, wanted)
            }
        )

    def stage(self, id: str) -> StageRecord:
        """One execution, by its id or the first digits of it.

        Raises:
            UnknownReference: no execution has such an id, or several do.
        """

        def work(conn: Connection) -> StageRecord:
            row = by_id(conn, _STAGE, id)
            if row is None:
                raise _unknown_stage(id)
            return _with_outputs(conn, [row])[0]

        return self._read(work)

    def stages(
        self,
        *,
        run_id: str | None = None,
        dataset: str | None = None,
        config: str | None = None,
        key: str | None = None,
        state: str | None = None,
        limit: int | None = 100,
    ) -> list[StageRecord]:
        """Executions, newest first, that match everything given.

        Args:
            run_id: asked for by this run.
            dataset: of this dataset.
            config: of this builder config.
            key: this stage key, or those below it: ``shards`` finds ``shards/train/00003``.
            state: in this state.
            limit: at most so many; None for all.
        """
        query = sa.select(_STAGE).order_by(_STAGE.c.seq.desc()).limit(limit)
        given = {"run_id": run_id, "dataset": dataset, "config": config, "state": state}
        for name, value in given.items():
            if value is not None:
                query = query.where(_STAGE.c[name] == value)
        if key is not None:
            below = _STAGE.c.key.startswith(f"{key}/", autoescape=True)
            query = query.where((_STAGE.c.key == key) | below)
        return self._read(lambda conn: _with_outputs(conn, conn.execute(query).all()))

    def hits(self, run_id: str) -> list[StageRecord]:
        """The earlier executions that a run reused, in the order they had run."""
        query = (
            sa.select(_STAGE)
            .join(t.run_hit, t.run_hit.c.stage_id == _STAGE.c.id)
            .where(t.run_hit.c.run_id == run_id)
            .order_by(_STAGE.c.seq)
        )
        return self._read(lambda conn: _with_outputs(conn, conn.execute(query).all()))


def _identity_row(
    run_id: str | None, dataset: str, config: str | None, key: str, fingerprint: str, owner: Owner
) -> dict[str, Any]:
    return {
        "id": new_id(),
        "run_id": run_id,
        "dataset": dataset,
        "config": config or "",
        "key": key,
        "stage": key.partition("/")[0],
        "fingerprint": fingerprint,
        "host": owner.host,
        "pid": owner.pid,
        "process_start": owner.process_start,
    }


def _outcome_row(
    state: str,
    reason: Sequence[Document],
    result: Document | None,
    started: datetime,
    finished: datetime | None,
    attempts: int,
    error: Document | None,
) -> dict[str, Any]:
    return {
        "state": state,
        "reason": [dict(cause) for cause in reason],
        "result": dict(result or {}),
        "attempts": attempts,
        "error": dict(error) if error else None,
        "started_at": started,
        "finished_at": finished,
    }


def _owner(host: str | None, pid: int | None) -> Owner:
    here = this_process()
    if host in (None, here.host) and pid in (None, here.pid):
        return here
    host, pid = host or here.host, here.pid if pid is None else pid
    known = start_of(pid) if host == host_identity() else None
    return Owner(host, pid, known or "")


def _finish(conn: Connection, id: str, values: Mapping[str, Any]) -> None:
    if conn.execute(_STAGE.update().where(_STAGE.c.id == id).values(**values)).rowcount == 0:
        raise _unknown_stage(id)


def _refuse_namesakes(key: str, outputs: Sequence[ArtifactRecord]) -> None:
    seen: set[str] = set()
    for made in outputs:
        if made.name in seen:
            message = f"Two outputs of stage {key} are named {made.name!r}."
            raise CatalogError(message, where=key, hint="Give each output a name of its own.")
        seen.add(made.name)


def _keep_tree(conn: Connection, fingerprint: str, key: str, tree: Document | None) -> None:
    if tree is None:
        return
    row = {
        "fingerprint": fingerprint,
        "name": str(tree.get("name") or key),
        "tree": dict(tree),
        "recorded_at": utc_now(),
    }
    insert_missing(conn, t.fingerprint, [row])


def _keep_outputs(conn: Connection, stage_id: str, outputs: Sequence[ArtifactRecord]) -> None:
    if not outputs:
        return
    now = utc_now()
    sizes = {made.digest: made.size for made in outputs}
    insert_missing(
        conn,
        t.artifact,
        [{"digest": d, "size": sizes[d], "first_seen_at": now} for d in sorted(sizes)],
    )
    rows = [
        {
            "stage_id": stage_id,
            "name": made.name,
            "position": position,
            "digest": made.digest,
            "uri": made.uri,
            "token": made.token,
            "kind": made.kind,
            "facts": dict(made.facts),
        }
        for position, made in enumerate(outputs)
    ]
    # An attempt that is recorded twice replaces what it said before.
    conn.execute(t.stage_output.delete().where(t.stage_output.c.stage_id == stage_id))
    conn.execute(t.stage_output.insert(), rows)


def _with_outputs(conn: Connection, rows: Iterable[Any]) -> list[StageRecord]:
    found = list(rows)
    outputs: dict[str, list[ArtifactRecord]] = {row.id: [] for row in found}

    def of_stages(batch: Sequence[str]) -> sa.Select[Any]:
        made = t.stage_output
        return (
            sa.select(made, t.artifact.c.size)
            .join(t.artifact, t.artifact.c.digest == made.c.digest)
            .where(made.c.stage_id.in_(batch))
            .order_by(made.c.stage_id, made.c.position)
        )

    for row in select_in(conn, of_stages, outputs):
        outputs[row.stage_id].append(
            ArtifactRecord(row.digest, row.size, row.uri, row.token, row.kind, row.name, row.facts)
        )
    return [_stage_record(row, tuple(outputs[row.id])) for row in found]


def _stage_record(row: Any, outputs: tuple[ArtifactRecord, ...]) -> StageRecord:
    return StageRecord(
        id=row.id,
        run_id=row.run_id,
        dataset=row.dataset,
        config=row.config,
        key=row.key,
        fingerprint=row.fingerprint,
        state=row.state,
        reason=tuple(row.reason),
        result=row.result,
        outputs=outputs,
        started=row.started_at,
        finished=row.finished_at,
        attempts=row.attempts,
        host=row.host,
        pid=row.pid,
        process_start=row.process_start,
        error=row.error,
    )


def _unknown_stage(id: str) -> UnknownReference:
    return UnknownReference(
        f"There is no stage execution {id!r}.", hint="List them: provender stages"
    )
