"""Who depends on a version, and what a job depends on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.answers import Consumer, Reading
from provender.catalog.lineage import LineageQueries
from provender.catalog.overview import summaries_of
from provender.catalog.records import Lineage, LineageNode, full_name
from provender.catalog.session import select_in

_READ = t.consumption
READINGS = (
    sa.select(
        _READ,
        t.version.c.version,
        t.version.c.status,
        t.version.c.retract_reason,
        t.version.c.fingerprint,
        t.dataset.c.name.label("dataset"),
        t.dataset.c.config,
    )
    .join(t.version, t.version.c.id == _READ.c.version_id)
    .join(t.dataset, t.dataset.c.id == t.version.c.dataset_id)
)
TRANSFORM = "transform"
"""The kind of stage that is an end in itself: a cached transform of a version."""


class Dependants(LineageQueries):
    """The part of the catalog that answers who would miss a version."""

    def consumers(self, version_id: str) -> list[Consumer]:
        """Everything that depends on a version, directly or through what was made from it.

        Args:
            version_id: the version.

        Returns:
            Jobs, most lately read first; then versions made from it, then transforms.

        Raises:
            UnknownReference: there is no such version.
        """
        graph = self.lineage(version_id, "down")
        through = _nearest_versions(graph)
        names = {node.id: node.name for node in graph.nodes}
        made = [node for node in graph.nodes[1:] if _counts(node)]
        sources = [version_id, *(node.id for node in made if node.kind == "version")]

        def work(conn: Connection) -> list[Consumer]:
            jobs = _jobs(conn, sources, names)
            when = summaries_of(conn, sources[1:])
            started = _stage_times(conn, [node.id for node in made if node.kind == "stage"])
            times = {id: each.created for id, each in when.items()} | started
            derived = [_derived(node, through[node.id], names, times) for node in made]
            derived.sort(key=lambda each: (each.kind != "version", each.name))
            return [*jobs, *derived]

        return self._read(work)

    def readings(
        self,
        *,
        job: str | None = None,
        version_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Reading]:
        """Reads on record, newest first, with what became of the versions read.

        Args:
            job: by this job.
            version_id: of this version.
            limit: at most so many.
            offset: skip so many.
        """
        query = READINGS.order_by(_READ.c.seq.desc()).limit(limit).offset(offset or None)
        if job is not None:
            query = query.where(_READ.c.job == job)
        if version_id is not None:
            query = query.where(_READ.c.version_id == version_id)
        return self._read(lambda conn: [reading(row) for row in conn.execute(query)])

    def jobs(self) -> list[str]:
        """The names of all jobs that ever read a version, sorted."""
        query = sa.select(_READ.c.job).distinct().order_by(_READ.c.job)
        return self._read(lambda conn: [row.job for row in conn.execute(query)])


def _counts(node: LineageNode) -> bool:
    key = node.name.rpartition(":")[2]
    return node.kind == "version" or (node.kind == "stage" and key.startswith(TRANSFORM))


def _nearest_versions(graph: Lineage) -> dict[str, str]:
    """Node id -> the version above it that it was made from, along a shortest way."""
    below: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        below[edge.parent].append(edge.child)
    versions = {node.id for node in graph.nodes if node.kind == "version"}
    start = graph.nodes[0].id
    found: dict[str, str] = {}
    todo = [start]
    for id in todo:
        own = id if id in versions else found.get(id, start)
        for child in below[id]:
            if child not in found and child != start:
                found[child] = own
                todo.append(child)
    return found


def _jobs(conn: Connection, versions: Sequence[str], names: Mapping[str, str]) -> list[Consumer]:
    def of_versions(batch: Sequence[str]) -> sa.Select[Any]:
        return sa.select(_READ).where(_READ.c.version_id.in_(batch)).order_by(_READ.c.seq)

    reads: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in select_in(conn, of_versions, versions):
        reads[row.job, row.version_id].append(row)
    found = [_job(job, id, names[id], rows) for (job, id), rows in reads.items()]
    found.sort(key=lambda each: (-each.last.timestamp() if each.last else 0.0, each.name))
    return found


def _job(job: str, version_id: str, through: str, rows: Sequence[Any]) -> Consumer:
    def seen(values: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value for value in values if value))

    return Consumer(
        kind="job",
        name=job,
        id="",
        through=through,
        through_id=version_id,
        reads=len(rows),
        splits=seen(split for row in rows for split in row.splits),
        users=seen(row.user_name for row in rows),
        hosts=seen(row.host for row in rows),
        first=min(row.started_at for row in rows),
        last=max(row.started_at for row in rows),
    )


def _derived(
    node: LineageNode, through: str, names: Mapping[str, str], times: Mapping[str, Any]
) -> Consumer:
    when = times.get(node.id)
    return Consumer(
        kind="version" if node.kind == "version" else "stage",
        name=node.name,
        id=node.id,
        through=names[through],
        through_id=through,
        reads=0,
        splits=(),
        users=(),
        hosts=(),
        first=when,
        last=when,
    )


def _stage_times(conn: Connection, ids: Sequence[str]) -> dict[str, Any]:
    ran = t.stage_execution.c

    def of_ids(batch: Sequence[str]) -> sa.Select[Any]:
        return sa.select(ran.id, ran.started_at).where(ran.id.in_(batch))

    return {row.id: row.started_at for row in select_in(conn, of_ids, ids)}


def reading(row: Any) -> Reading:
    """A row of `READINGS` as a value."""
    return Reading(
        id=row.id,
        job=row.job,
        version_id=row.version_id,
        name=f"{full_name(row.dataset, row.config)}:{row.version}",
        status=row.status,
        retract_reason=row.retract_reason,
        fingerprint=row.fingerprint,
        splits=tuple(row.splits),
        host=row.host,
        user=row.user_name,
        facts=row.facts,
        started=row.started_at,
    )
