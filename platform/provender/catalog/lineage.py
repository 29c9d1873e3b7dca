"""Reading lineage: what something was made from, and what was made from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.collecting import uncollected
from provender.catalog.records import Lineage, LineageEdge, LineageNode, full_name
from provender.catalog.session import Session, among, is_among, select_in
from provender.errors import UnknownReference

Direction = Literal["up", "down"]
_EDGE = t.lineage
_MADE = t.stage_output
_ROW = (_EDGE.c.child_id, _EDGE.c.parent_id, _EDGE.c.via)
"""What the walk reads of an edge: no more than the table's key, which an index alone can give. The
kinds of the ends are known from the tables that the ends are in."""
_FAR = {"up": attrgetter("parent"), "down": attrgetter("child")}
"""The end of an edge that is met second."""
_SCANS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")
_NO_SCANS = sa.select(*(sa.func.set_config(name, "off", True) for name in _SCANS))
_AT_ONCE = 1000
"""How many rows of an answer are held beside the values made of them."""


class LineageQueries(Session):
    """The part of the catalog that answers where things come from and where they went."""

    def lineage(
        self,
        id: str,
        direction: Direction = "up",
        depth: int | None = None,
        *,
        enough: int | None = None,
    ) -> Lineage:
        """The graph above or below a node.

        Args:
            id: of a version or a stage execution, or an artifact's digest.
            direction: ``up`` for what it was made from, ``down`` for what was made from it.
            depth: at most so many edges away; None for the whole graph.
            enough: goes no step further once more nodes than this are found; None to go on.
                Only with a depth.

        Returns:
            The start node, then all others, and every edge between them that leads away from
            the start. Up from an artifact are the executions that made it; down from it are
            only those that took this very artifact, not its makers' other outputs.

        Raises:
            UnknownReference: the catalog knows nothing of that id.
        """

        def work(conn: Connection) -> Lineage:
            _look_up_by_index(conn)
            start = _start_node(conn, id)
            if depth is not None and depth <= 0:
                return Lineage((start,), ())
            ids: set[str] = set()
            if start.kind == "artifact":
                edges, ids, seeds = _artifact_edges(conn, id, direction)
                left = None if depth is None else depth - 1
            else:
                edges, seeds, left = [], sa.select(sa.literal(id).label("id")), depth
            if left is None:
                found, whole = _edges(conn.execute(_walk(seeds, direction))), True
            else:
                found, whole = _steps(conn, ids if edges else [id], direction, left, enough)
            edges += found
            ids |= set(map(_FAR[direction], found))
            ids.discard(id)
            return Lineage((start, *_nodes(conn, ids, direction)), tuple(edges), whole)

        with uncollected():
            return self._read(work)


def _look_up_by_index(conn: Connection) -> None:
    """Keeps PostgreSQL from reading all edges once per generation.

    Its planner cannot know how few rows a recursive table holds; with stale statistics it
    hashes the whole edge table in every step (measured: 1.4 s instead of 0.4 ms for 26 of
    120,000 edges). The setting ends with the transaction.
    """
    if conn.dialect.name != "sqlite":
        conn.execute(_NO_SCANS)


def _walk(seeds: sa.Select[Any], direction: Direction) -> sa.Select[Any]:
    """All edges reached from the seeds; UNION on the id alone visits a node once, however many
    paths lead to it, and ends where a cycle closes.
    """
    near, far = _ends(direction)
    walk = seeds.cte("walk", recursive=True)
    walk = walk.union(sa.select(far).join(walk, near == walk.c.id))
    inside = sa.select(walk.c.id)
    return sa.select(*_ROW).where(near.in_(inside)).order_by(*_EDGE.primary_key.columns)


def _steps(
    conn: Connection, seeds: Iterable[str], direction: Direction, depth: int, enough: int | None
) -> tuple[list[LineageEdge], bool]:
    """The edges at most ``depth`` steps away, one query a step; and whether those are all.

    In one recursive query the distance would have to be carried along, and a node that is reached
    by ways of many lengths would be that many rows. PostgreSQL can carry whole steps along.
    """
    if conn.dialect.name != "sqlite":
        return _steps_in_one(conn, seeds, direction, depth, enough)
    near, _ = _ends(direction)
    far = _FAR[direction]
    beside = sa.select(*_ROW).where(is_among(conn, near, "border"))
    found: list[LineageEdge] = []
    seen, border = set(seeds), set(seeds)
    for _ in range(depth):
        if enough is not None and len(seen) > enough:
            return found, False
        step = _edges(conn.execute(beside, {"border": among(sorted(border))}))
        found += step
        border = set(map(far, step)) - seen
        seen |= border
        if not border:
            break
    return found, True


_WALKED = """
WITH RECURSIVE walk(step, border, seen, child, parent, via) AS (
    SELECT 0, given.ids, given.ids, ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::text[]
    FROM (SELECT ARRAY(SELECT json_array_elements_text(CAST(:seeds AS json))) AS ids) AS given
    UNION ALL
    SELECT step + 1, beyond.ids, seen || beyond.ids, found.child, found.parent, found.via
    FROM walk, LATERAL (
        SELECT array_agg(child_id) AS child, array_agg(parent_id) AS parent, array_agg(e.via) AS via
        FROM lineage AS e WHERE {near}_id = ANY (walk.border) OFFSET 0
    ) AS found, LATERAL (
        SELECT ARRAY(SELECT unnest(found.{far}) EXCEPT SELECT unnest(walk.seen)) AS ids OFFSET 0
    ) AS beyond
    WHERE step < :depth AND cardinality(border) > 0 AND cardinality(seen) <= :enough
)
SELECT unnest(child), unnest(parent), unnest(via) FROM walk
UNION ALL SELECT '', '', '' FROM walk WHERE step < :depth AND cardinality(seen) > :enough"""
"""A row of the walk is a step: the nodes it came to, all nodes so far, and the edges it took, so that each
edge is looked up once. ``OFFSET 0`` keeps the planner from doing so once for each column. A row of
nothing is added where the walk ended because of ``enough``."""
_ENDLESS = (1 << 31) - 1
_CUT = LineageEdge("", "", None)


def _steps_in_one(
    conn: Connection, seeds: Iterable[str], direction: Direction, depth: int, enough: int | None
) -> tuple[list[LineageEdge], bool]:
    """`_steps` for PostgreSQL, whose fifty answers would each have to come over the network."""
    near, far = ("child", "parent") if direction == "up" else ("parent", "child")
    query = sa.text(_WALKED.format(near=near, far=far))
    values = {
        "seeds": among(sorted(seeds)),
        "depth": min(depth, _ENDLESS),
        "enough": _ENDLESS if enough is None else enough,
    }
    found = _edges(conn.execute(query, values))
    if enough is None or _CUT not in found:
        return found, True
    return [each for each in found if each != _CUT], False


def _edges(rows: Any) -> list[LineageEdge]:
    """Rows of `_ROW` as edges, the rows dropped as these are made."""
    return [
        LineageEdge(child, parent, via or None)
        for part in rows.partitions(_AT_ONCE)
        for child, parent, via in part
    ]


def _ends(direction: Direction) -> tuple[sa.Column[str], sa.Column[str]]:
    """The edge's end that is met first on the way, and the other."""
    ends = (_EDGE.c.child_id, _EDGE.c.parent_id)
    return ends if direction == "up" else ends[::-1]


def _artifact_edges(
    conn: Connection, digest: str, direction: Direction
) -> tuple[list[LineageEdge], set[str], sa.Select[Any]]:
    """The edges beside an artifact, the nodes there, and how to select those."""
    if direction == "up":
        seeds = sa.select(_MADE.c.stage_id.label("id")).where(_MADE.c.digest == digest)
        makers = [row.id for row in conn.execute(seeds.distinct())]
        edges = [LineageEdge(digest, maker, digest) for maker in makers]
        return edges, set(makers), seeds
    seeds = sa.select(_EDGE.c.child_id.label("id")).where(_EDGE.c.via == digest)
    takers = [row.id for row in conn.execute(seeds.distinct().order_by("id"))]
    return [LineageEdge(taker, digest, digest) for taker in takers], set(takers), seeds


def _start_node(conn: Connection, id: str) -> LineageNode:
    found = next(iter(_version_nodes(conn, [id])), None)
    found = found or next(iter(_stage_nodes(conn, [id])), None)
    if found is not None:
        return found
    made = sa.select(_MADE.c.digest).where(_MADE.c.digest == id).limit(1)
    taken = sa.select(_EDGE.c.via).where(_EDGE.c.via == id).limit(1)
    if conn.execute(made).first() is None and conn.execute(taken).first() is None:
        message = f"The catalog knows no version, stage or artifact {id!r}."
        raise UnknownReference(message, hint="Give a version id, stage id or artifact digest.")
    return _artifact_node(id)


def _nodes(conn: Connection, ids: set[str], direction: Direction) -> list[LineageNode]:
    """The nodes of some ids: versions, stages, artifacts, and what no table knows."""
    stages = _stage_nodes(conn, sorted(ids))
    rest = ids - {node.id for node in stages}
    versions = _version_nodes(conn, sorted(rest))
    rest -= {node.id for node in versions}
    _, far = _ends(direction)
    kind = _EDGE.c.parent_kind if far is _EDGE.c.parent_id else _EDGE.c.child_kind
    named = select_in(
        conn, lambda batch: sa.select(far, kind).where(far.in_(batch)).distinct(), sorted(rest)
    )
    kinds = dict(map(tuple, named))
    artifacts = [_artifact_node(id) for id in sorted(rest) if kinds.get(id) == "artifact"]
    missing = [
        _missing_node(id, kinds.get(id, "stage"))
        for id in sorted(rest)
        if kinds.get(id) != "artifact"
    ]
    return [*versions, *stages, *artifacts, *missing]


def _version_nodes(conn: Connection, ids: Iterable[str]) -> list[LineageNode]:
    made = t.version

    def query(batch: Sequence[str]) -> sa.Select[Any]:
        # Not the documents: they are large, and lineage is long.
        columns = (made.c.id, made.c.version, made.c.fingerprint, made.c.status, made.c.run_id)
        return (
            sa.select(*columns, t.dataset.c.name, t.dataset.c.config)
            .join(t.dataset, t.dataset.c.id == made.c.dataset_id)
            .where(made.c.id.in_(batch))
        )

    return [
        LineageNode(
            row.id,
            "version",
            f"{full_name(row.name, row.config)}:{row.version}",
            {"fingerprint": row.fingerprint, "status": row.status, "run_id": row.run_id},
        )
        for row in select_in(conn, query, ids)
    ]


def _stage_nodes(conn: Connection, ids: Iterable[str]) -> list[LineageNode]:
    ran = t.stage_execution

    names = (ran.c.id, ran.c.dataset, ran.c.config, ran.c.key)
    columns = (*names, ran.c.fingerprint, ran.c.state, ran.c.run_id)
    query = sa.select(*columns).where(is_among(conn, ran.c.id, "ids")).order_by(ran.c.seq)
    rows = conn.execute(query, {"ids": among(ids)})
    return [
        LineageNode(
            id,
            "stage",
            f"{dataset}/{config}:{key}" if config else f"{dataset}:{key}",
            {"fingerprint": fingerprint, "state": state, "run_id": run_id},
        )
        for part in rows.partitions(_AT_ONCE)
        for id, dataset, config, key, fingerprint, state, run_id in part
    ]


def _artifact_node(digest: str) -> LineageNode:
    return LineageNode(digest, "artifact", digest, {})


def _missing_node(id: str, kind: str) -> LineageNode:
    """What stands in for a node that an edge names and no table knows."""
    return LineageNode(id, "missing", f"{kind} {id}", {"kind": kind, "status": "missing"})
