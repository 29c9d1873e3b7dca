"""Who read which version, and what each URL last gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.columns import new_id, utc_now
from provender.catalog.processes import host_identity
from provender.catalog.records import ConsumptionRecord, DownloadRecord, full_name
from provender.catalog.runs import user_name
from provender.catalog.searching import dataset_of, note
from provender.catalog.session import Session, select_in, upsert
from provender.catalog.versions import one_version

Document = Mapping[str, Any]


class Consumption(Session):
    """The part of the catalog that answers "what was this model trained on"."""

    def record_consumption(
        self,
        version_id: str,
        job: str,
        *,
        splits: Iterable[str] = (),
        facts: Document | None = None,
        id: str | None = None,
        started_at: datetime | None = None,
        host: str | None = None,
    ) -> str:
        """Notes that a job reads a version, and gives the note's id.

        Args:
            version_id: what is read.
            job: name of the training job, evaluation, notebook ...
            splits: the splits, or split expressions, that are read.
            facts: anything else worth keeping, JSON-ready: model, checkpoint, orchestrator ids.
            id: made up by the caller, so that a note sent twice is kept once.
            started_at: when reading began, for a note that is sent later; by default now.
            host: where it is read, for a note that another host sends; by default here.

        Raises:
            UnknownReference: there is no such version.
        """
        row = {
            "id": id or new_id(),
            "version_id": version_id,
            "job": job,
            "splits": list(splits),
            "host": host or host_identity(),
            "user_name": user_name(),
            "facts": dict(facts or {}),
            "started_at": started_at or utc_now(),
        }

        def work(conn: Connection) -> None:
            one_version(conn, version_id)
            known = sa.select(t.consumption.c.seq).where(t.consumption.c.id == row["id"])
            if id is not None and conn.scalar(known) is not None:
                return
            conn.execute(t.consumption.insert(), row)
            note(conn, dataset_of(conn, version_id), version_id, {"job": [job]})

        self._write(work)
        return str(row["id"])

    def add_consumption_facts(self, id: str, facts: Document) -> None:
        """Adds to what is known of a read: its position at a checkpoint, its end.

        Args:
            id: of the note, as `record_consumption` gave it; an unknown one changes nothing.
            facts: JSON-ready; a name that is there already gets the new value.
        """
        mine = t.consumption.c.id == id

        def work(conn: Connection) -> None:
            known = conn.scalar(sa.select(t.consumption.c.facts).where(mine))
            if known is not None:
                values = {"facts": {**known, **facts}}
                conn.execute(t.consumption.update().where(mine).values(values))

        self._write(work)

    def consumptions(
        self, *, version_id: str | None = None, job: str | None = None, limit: int | None = 100
    ) -> list[ConsumptionRecord]:
        """Reads on record, newest first, of one version or by one job where given."""
        query = (
            sa.select(
                t.consumption,
                t.version.c.version,
                t.dataset.c.name.label("dataset"),
                t.dataset.c.config,
            )
            .join(t.version, t.version.c.id == t.consumption.c.version_id)
            .join(t.dataset, t.dataset.c.id == t.version.c.dataset_id)
            .order_by(t.consumption.c.seq.desc())
            .limit(limit)
        )
        if version_id is not None:
            query = query.where(t.consumption.c.version_id == version_id)
        if job is not None:
            query = query.where(t.consumption.c.job == job)
        return self._read(lambda conn: [_consumption(row) for row in conn.execute(query)])


class Downloads(Session):
    """The part of the catalog that remembers what each URL last gave."""

    def record_download(
        self,
        url: str,
        sha256: str,
        size: int,
        filename: str,
        identity: str = "",
        facts: Document | None = None,
    ) -> None:
        """Notes what a URL gave now, in place of what it gave before.

        Args:
            url: without user names, passwords and signed queries: the catalog is no secret.
            sha256: digest of the bytes, hex.
            size: bytes.
            filename: the name upstream gave the file.
            identity: cheap identity of the upstream file (etag, last-modified, generation).
            facts: anything else worth keeping, JSON-ready.
        """
        row = {
            "url": url,
            "sha256": sha256,
            "size": size,
            "filename": filename,
            "identity": identity,
            "facts": dict(facts or {}),
            "fetched_at": utc_now(),
        }
        self._write(lambda conn: upsert(conn, t.download, row))

    def downloads(self, urls: Iterable[str]) -> dict[str, DownloadRecord]:
        """What each of these URLs last gave, for those that are known."""
        known = t.download

        def of_urls(batch: Sequence[str]) -> sa.Select[Any]:
            return sa.select(known).where(known.c.url.in_(batch))

        wanted = list(urls)
        return self._read(
            lambda conn: {row.url: DownloadRecord(*row) for row in select_in(conn, of_urls, wanted)}
        )


def _consumption(row: Any) -> ConsumptionRecord:
    return ConsumptionRecord(
        id=row.id,
        version_id=row.version_id,
        name=f"{full_name(row.dataset, row.config)}:{row.version}",
        job=row.job,
        splits=tuple(row.splits),
        host=row.host,
        user=row.user_name,
        facts=row.facts,
        started=row.started_at,
    )
