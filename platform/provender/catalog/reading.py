"""Who read which version, what each URL last gave, and read-only SQL for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from provender.catalog import tables as t
from provender.catalog.columns import new_id, utc_now
from provender.catalog.engine import catalog_error
from provender.catalog.processes import this_process
from provender.catalog.records import ConsumptionRecord, DownloadRecord, SqlResult, full_name
from provender.catalog.runs import user_name
from provender.catalog.session import Session, select_in, upsert
from provender.catalog.versions import one_version
from provender.errors import CatalogError

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
    ) -> str:
        """Notes that a job reads a version, and gives the note's id.

        Args:
            version_id: what is read.
            job: name of the training job, evaluation, notebook ...
            splits: the splits, or split expressions, that are read.
            facts: anything else worth keeping, JSON-ready: model, checkpoint, orchestrator ids.

        Raises:
            UnknownReference: there is no such version.
        """
        owner = this_process()
        row = {
            "id": new_id(),
            "version_id": version_id,
            "job": job,
            "splits": list(splits),
            "host": owner.host,
            "user_name": user_name(),
            "facts": dict(facts or {}),
            "started_at": utc_now(),
        }

        def work(conn: Connection) -> None:
            one_version(conn, version_id)
            conn.execute(t.consumption.insert(), row)

        self._write(work)
        return str(row["id"])

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


class Sql(Session):
    """The part of the catalog that lets people ask in SQL."""

    def sql(self, statement: str, limit: int | None = 1000) -> SqlResult:
        """Runs one statement that can only read; the documented views are `VIEWS`.

        It runs on a connection of its own, which the database itself keeps from writing.

        Args:
            statement: one SELECT.
            limit: rows at most; None for all.

        Raises:
            CatalogError: the database refuses the statement.
        """
        try:
            with self._engine.connect() as conn:
                conn.detach()
                return _ask(conn, statement, limit)
        except SQLAlchemyError as err:
            raise catalog_error(err, self._url) from err


def _ask(conn: Connection, statement: str, limit: int | None) -> SqlResult:
    driver: Any = conn.connection.dbapi_connection
    cursor = driver.cursor()
    try:
        if conn.dialect.name == "sqlite":
            driver.execute("PRAGMA query_only=ON")
            cursor.execute(statement)
        else:
            driver.read_only = True
            # A prepared statement holds one command, so "COMMIT; DROP ..." is refused as such.
            cursor.execute(statement, prepare=True)
        if cursor.description is None:
            return SqlResult((), (), truncated=False)
        columns = tuple(column[0] for column in cursor.description)
        rows = cursor.fetchall() if limit is None else cursor.fetchmany(limit + 1)
        cut = limit is not None and len(rows) > limit
        return SqlResult(columns, tuple(map(tuple, rows[:limit])), truncated=cut)
    except _driver_errors(conn) as err:
        said = next(iter(str(err).strip().splitlines()), type(err).__name__)
        message = f"The statement was refused: {said}"
        hint = "It may only read. The stable views are v_versions, v_lineage, v_stage_runs, v_cache_hits."
        raise CatalogError(message, where=statement.strip()[:200], hint=hint) from err


def _driver_errors(conn: Connection) -> type[Exception]:
    """The base of all errors that the driver behind a connection raises."""
    errors: type[Exception] = conn.dialect.loaded_dbapi.Error
    return errors


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
