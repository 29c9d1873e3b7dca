"""Writing lineage edges: which execution stands behind an input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.session import insert_missing, select_in


def record_edges(
    conn: Connection,
    child_id: str,
    child_kind: str,
    inputs: Iterable[str],
    dataset: str,
    config: str,
) -> None:
    """Links a child to everything it was made from.

    Args:
        conn: a writing transaction.
        child_id: id of a stage execution or version.
        child_kind: ``stage`` or ``version``.
        inputs: ids of executions, ids of versions, or artifact digests. A digest is resolved,
            now and for good, to the execution that made it last, with those of the same
            dataset first; one that no execution made is a node of its own.
        dataset: dataset of the child.
        config: builder config of the child.
    """
    wanted = sorted(set(inputs) - {child_id})
    if not wanted:
        return
    known = _stages(conn, wanted) | _versions(conn, wanted)
    makers = _makers(conn, [ref for ref in wanted if ref not in known], child_id, dataset, config)
    rows = []
    for ref in wanted:
        if ref in known:
            parent, kind, via = ref, known[ref], ""
        elif ref in makers:
            parent, kind, via = makers[ref], "stage", ref
        else:
            parent, kind, via = ref, "artifact", ref
        rows.append(
            {
                "child_id": child_id,
                "parent_id": parent,
                "via": via,
                "child_kind": child_kind,
                "parent_kind": kind,
            }
        )
    insert_missing(conn, t.lineage, rows)


def _stages(conn: Connection, refs: Sequence[str]) -> dict[str, str]:
    stage = t.stage_execution
    rows = select_in(conn, lambda batch: sa.select(stage.c.id).where(stage.c.id.in_(batch)), refs)
    return {row.id: "stage" for row in rows}


def _versions(conn: Connection, refs: Sequence[str]) -> dict[str, str]:
    made = t.version
    rows = select_in(conn, lambda batch: sa.select(made.c.id).where(made.c.id.in_(batch)), refs)
    return {row.id: "version" for row in rows}


def _makers(
    conn: Connection, digests: Sequence[str], child_id: str, dataset: str, config: str
) -> dict[str, str]:
    stage, made = t.stage_execution, t.stage_output
    own = sa.case(((stage.c.dataset == dataset) & (stage.c.config == config), 1), else_=0)

    def of_digests(batch: Sequence[str]) -> sa.Select[Any]:
        return (
            sa.select(made.c.digest, stage.c.id)
            .join(stage, stage.c.id == made.c.stage_id)
            .where(made.c.digest.in_(batch), stage.c.id != child_id)
            .order_by(own, stage.c.seq)
        )

    # The last row of a digest wins: own dataset before others, then the newest.
    return {row.digest: row.id for row in select_in(conn, of_digests, digests)}
