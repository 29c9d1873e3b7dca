"""Statistics of versions, and what checks found before they were published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.columns import utc_now
from provender.catalog.records import CheckRecord
from provender.catalog.session import Session

Document = Mapping[str, Any]
_STAT, _CHECK = t.split_stat, t.check_result


class StatisticsAndChecks(Session):
    """The part of the catalog that knows what is in a version's splits, and who judged it."""

    def statistics(self, version_id: str) -> dict[str, dict[str, Any]]:
        """Split name -> its statistics, as `provender.statistics.Summary.to_json` gives them.

        Returns:
            Every split in order; an empty document where none were computed.
        """
        query = (
            sa.select(_STAT.c.split, _STAT.c.statistics)
            .where(_STAT.c.version_id == version_id)
            .order_by(_STAT.c.position)
        )
        return self._read(
            lambda conn: {row.split: dict(row.statistics) for row in conn.execute(query)}
        )

    def set_statistics(self, version_id: str, found: Mapping[str, Document]) -> None:
        """Notes the statistics of a version's splits; splits that it does not have are ignored."""

        def work(conn: Connection) -> None:
            for split, document in found.items():
                place = (_STAT.c.version_id == version_id, _STAT.c.split == split)
                values = {"statistics": dict(document)}
                conn.execute(_STAT.update().where(*place).values(**values))

        self._write(work)

    def record_checks(self, found: Iterable[CheckRecord]) -> None:
        """Notes what the checks of one run found, in place of what was noted for it before."""
        rows = [
            {
                "run_id": each.run_id,
                "dataset": each.dataset,
                "config": each.config,
                "version": each.version,
                "name": each.name,
                "scope": each.scope,
                "state": each.state,
                "measured": each.measured,
                "bound": each.bound,
                "message": each.message,
                "allowed_by": each.allowed_by,
                "allow_reason": each.allow_reason,
                "at": each.at or utc_now(),
            }
            for each in found
        ]

        def work(conn: Connection) -> None:
            runs = sorted({str(row["run_id"]) for row in rows})
            conn.execute(_CHECK.delete().where(_CHECK.c.run_id.in_(runs)))
            conn.execute(_CHECK.insert(), rows)

        if rows:
            self._write(work)

    def checks(
        self,
        *,
        run_id: str | None = None,
        dataset: str | None = None,
        config: str | None = None,
        state: str | None = None,
        limit: int | None = 1000,
    ) -> list[CheckRecord]:
        """What checks found, newest run first, in the order they were made.

        Args:
            run_id: only of this run; a version's own are those of its ``run_id``.
            dataset: only of this dataset.
            config: only of this builder config.
            state: only in this state, e.g. ``allowed``.
            limit: at most so many.
        """
        query = sa.select(_CHECK).order_by(_CHECK.c.at.desc(), _CHECK.c.seq).limit(limit)
        for column, value in (
            (_CHECK.c.run_id, run_id),
            (_CHECK.c.dataset, dataset),
            (_CHECK.c.config, config),
            (_CHECK.c.state, state),
        ):
            if value is not None:
                query = query.where(column == value)
        return self._read(
            lambda conn: [
                CheckRecord(**{k: v for k, v in row._mapping.items() if k != "seq"})
                for row in conn.execute(query)
            ]
        )
