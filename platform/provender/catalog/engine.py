"""From a URL to a SQLAlchemy engine that behaves the same on SQLite and PostgreSQL.

SQLite's recipe, each part measured: WAL, so that readers never wait for the writer; BEGIN
IMMEDIATE for everything that may write, since a transaction that reads first and then writes
fails at once with "database is locked" when another one wrote in between, whatever the busy
timeout; and a busy timeout of a minute, because SQLite's lock is unfair.
"""

from __future__ import annotations

import os
import time
import weakref
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from provender.catalog.columns import to_json
from provender.errors import CatalogError
from provender.own_sqlite import sqlite3

BUSY_SECONDS = 60
_PATIENCE = {"connect_timeout": 10}
_READ_ONLY = "provender_read_only"
_SECRETS = ("password", "passfile", "sslpassword", "passwd", "token")
_HINT = "Use a local path, sqlite:///path or postgresql+psycopg://user@host/database."


def parse_url(url: str | Path) -> URL:
    """Reads where the catalog is.

    Args:
        url: ``sqlite:///path``, ``postgresql+psycopg://...``, ``postgresql://...``, or a plain
            path of a SQLite file.

    Returns:
        The URL; SQLite paths are absolute.

    Raises:
        CatalogError: any other scheme, or an in-memory database, which no other process sees.
    """
    text = str(url)
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        # The text itself stays out of the message: it may hold a password.
        message = "The catalog's URL cannot be read."
        raise CatalogError(message, where=text.partition("://")[0] + "://…", hint=_HINT) from None
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        message = f"A catalog cannot live in {parsed.drivername}://."
        raise CatalogError(message, where=masked(parsed), hint=_HINT)
    if parsed.database in (None, "", ":memory:"):
        message = "A catalog in memory would be seen by no other process."
        raise CatalogError(message, where=masked(parsed), hint=_HINT)
    return parsed.set(database=os.path.abspath(parsed.database))


def masked(url: URL) -> str:
    """The URL as text with every secret replaced by ``***``."""
    query = {key: "***" if key in _SECRETS else value for key, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def make_engine(url: URL) -> Engine:
    """An engine for a URL from `parse_url`; connects only when used.

    The parent folder of a SQLite file is created. Child processes made by fork start with an
    empty pool, since a connection shared by two processes corrupts both conversations.
    """
    if url.get_backend_name() == "sqlite":
        engine = _sqlite_engine(url)
    else:
        engine = sa.create_engine(
            url,
            json_serializer=to_json,
            hide_parameters=True,
            pool_pre_ping=True,
            connect_args={} if "connect_timeout" in url.query else _PATIENCE,
        )
    _forget_after_fork(engine)
    return engine


def read_only(engine: Engine) -> Engine:
    """The same engine and pool, for transactions that only read."""
    return engine.execution_options(**{_READ_ONLY: True})


def _sqlite_engine(url: URL) -> Engine:
    assert url.database
    try:
        os.makedirs(os.path.dirname(url.database), exist_ok=True)
    except OSError as err:
        message = f"The catalog's folder cannot be made: {err.strerror or err}."
        hint = "Is its disk there, and yours to write to? PROVENDER_CATALOG names another place."
        raise CatalogError(message, where=os.path.dirname(url.database), hint=hint) from err
    engine = sa.create_engine(
        url,
        json_serializer=to_json,
        hide_parameters=True,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
    )
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # The driver must not open transactions by itself: it would use a deferred BEGIN.
    connection.isolation_level = None
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    # KiB, taken as needed. By default 2 MB: a walk over a large lineage would read the same pages
    # again and again.
    connection.execute("PRAGMA cache_size=-128000")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Turning WAL on takes an exclusive lock for which SQLite does not wait by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as err:
            if "locked" not in str(err) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin_sqlite(connection: Connection) -> None:
    reading = connection.get_execution_options().get(_READ_ONLY)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _forget_after_fork(engine: Engine) -> None:
    alive = weakref.ref(engine)

    def forget() -> None:
        found = alive()
        if found is not None:
            found.dispose(close=False)

    os.register_at_fork(after_in_child=forget)


def catalog_error(err: SQLAlchemyError, url: URL) -> CatalogError:
    """What to tell people when the database refuses: its own first line, and where it is."""
    cause = err.orig if isinstance(err, DBAPIError) and err.orig is not None else err
    said = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
    if url.password:
        said = said.replace(str(url.password), "***")
    hint = "Check that the file is a catalog, that its disk has room, and that you may write there."
    if "no such module" in said:
        hint = "Another SQLite took the place of Python's: import provender before sqlite3 and tensorflow."
    elif url.get_backend_name() != "sqlite":
        hint = "Check that the server runs, and the user, password and database in the URL."
    return CatalogError(f"The catalog refused: {said}", where=masked(url), hint=hint)


def is_transient(err: SQLAlchemyError) -> bool:
    """Whether the same transaction, run again, may well succeed.

    True for what another transaction did at the same moment: a deadlock, a serialization
    failure, or a unique key inserted first.
    """
    cause = getattr(err, "orig", None)
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
    return getattr(cause, "sqlstate", None) in ("23505", "40001", "40P01")
