"""All runs and reads in the order they were recorded, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.answers import Reading
from provender.catalog.dependants import READINGS, reading
from provender.catalog.records import RunRecord
from provender.catalog.runs import run_record
from provender.catalog.session import Session

_PAGE = 500


class Timeline(Session):
    """The part of the catalog that tells everything from the beginning."""

    def all_runs(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[RunRecord]:
        """Every run that started at ``since`` or later and before ``until``, oldest first."""
        query = sa.select(t.run)
        for row in self._pages(query, t.run.c.seq, t.run.c.started_at, since, until):
            yield run_record(row)

    def all_readings(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[Reading]:
        """Every read that began at ``since`` or later and before ``until``, oldest first."""
        read = t.consumption.c
        for row in self._pages(READINGS, read.seq, read.started_at, since, until):
            yield reading(row)

    def _pages(
        self,
        query: sa.Select[Any],
        seq: sa.Column[int],
        when: sa.Column[datetime],
        since: datetime | None,
        until: datetime | None,
    ) -> Iterator[Any]:
        """Pages by key, each a transaction of its own: a slow reader holds nothing open."""
        if since is not None:
            query = query.where(when >= since)
        if until is not None:
            query = query.where(when < until)
        last = -1
        while True:
            page = query.where(seq > last).order_by(seq).limit(_PAGE)
            rows = self._read(partial(_rows, page))
            yield from rows
            if len(rows) < _PAGE:
                return
            last = rows[-1].seq


def _rows(query: sa.Select[Any], conn: Connection) -> Sequence[Any]:
    return conn.execute(query).all()
