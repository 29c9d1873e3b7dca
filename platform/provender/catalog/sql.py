"""SQL for people, which the database itself keeps from writing.

Nothing here reads the statement's text to judge it. In SQLite the file is opened read-only, on a
connection whose authorizer lets a statement read and call functions and nothing else (no PRAGMA, no
ATTACH), and whose ``execute`` takes one statement. In PostgreSQL the statement becomes a cursor in a
read-only transaction, so the grammar admits one SELECT or VALUES (no COPY, no DO, no SET, no second
statement); and because a SELECT may call functions that sleep, lock, read the server's files or stop
other sessions, PostgreSQL first parses it as a temporary view, rolled back, whose parse tree names
every function: volatile ones, which is what all of those are, are refused.
"""

from __future__ import annotations

import difflib
import re
import time
from typing import Any
from urllib.parse import quote

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from provender.catalog.engine import catalog_error
from provender.catalog.records import SqlResult
from provender.catalog.session import Session
from provender.catalog.tables import metadata
from provender.catalog.views import VIEWS
from provender.errors import CatalogError, StatementRefused
from provender.own_sqlite import sqlite3

_BATCH = 1000
_LONGEST_VALUE = 100_000_000
_PROGRESS_STEPS = 20_000
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# Volatile, and yet they change nothing and reach nothing outside the statement.
_HARMLESS = (
    "random",
    "random_normal",
    "clock_timestamp",
    "timeofday",
    "gen_random_uuid",
    "uuidv4",
    "uuidv7",
    "pg_database_size",
    "pg_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_total_relation_size",
)
_CALLED = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid|hashfuncid|negfuncid) (\d+)")
_PLACE = re.compile(r" at character \d+$")
_NO_SUCH = re.compile(
    r"no such (?:table|column): (?P<lite>[\w.]+)|(?:relation|column) \"?(?P<pg>[\w.]+)\"? does not"
)


class Sql(Session):
    """The part of the catalog that lets people ask in SQL."""

    def sql(
        self, statement: str, limit: int | None = 1000, *, timeout: float | None = 60.0
    ) -> SqlResult:
        """Runs one statement that can only read; the documented views are `VIEWS`.

        It runs on a connection of its own, which the database itself keeps from writing.

        Args:
            statement: one SELECT (or VALUES, or WITH ... SELECT).
            limit: rows at most; None for all.
            timeout: seconds after which the database gives up; None for no limit.

        Raises:
            StatementRefused: the database refuses the statement, or it took too long.
            CatalogError: the database cannot be reached.
        """
        try:
            if self._engine.dialect.name == "sqlite":
                return _ask_sqlite(str(self._url.database), statement, limit, timeout)
            with self._engine.connect() as conn:
                # Whatever a statement does to its session ends with it.
                conn.detach()
                return _ask_postgresql(conn, statement, limit, timeout)
        except SQLAlchemyError as err:
            raise catalog_error(err, self._url) from err


def _refused(statement: str, said: str, hint: str | None = None) -> StatementRefused:
    known = f"The stable views are {', '.join(VIEWS)}."
    return StatementRefused(
        f"The statement was refused: {said}",
        where=" ".join(statement.split())[:200],
        hint=hint or f"Give one SELECT; it may only read. {known}",
    )


def _did_you_mean(said: str) -> str | None:
    """A hint where the database does not know a table or column."""
    found = _NO_SUCH.search(said)
    if found is None:
        return None
    name = (found["lite"] or found["pg"]).rpartition(".")[2]
    columns = {column for view in VIEWS.values() for column in view}
    known = sorted({*VIEWS, *metadata.tables, *columns})
    near = difflib.get_close_matches(name, known, 3, 0.6)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"The stable views are {', '.join(VIEWS)}."


def _too_long(statement: str, timeout: float | None) -> StatementRefused:
    hint = "Ask for less, filter on dataset or id, or give it more time with --timeout."
    return _refused(statement, f"it took longer than {timeout:g} seconds.", hint)


def _rows(cursor: Any, limit: int | None) -> tuple[list[tuple[Any, ...]], bool]:
    rows = cursor.fetchall() if limit is None else cursor.fetchmany(limit + 1)
    cut = limit is not None and len(rows) > limit
    return [tuple(row) for row in (rows[:limit] if cut else rows)], cut


# SQLite. ----------------------------------------------------------------------------------------


def _ask_sqlite(
    database: str, statement: str, limit: int | None, timeout: float | None
) -> SqlResult:
    # A URI, in which every character that means something there is written as its code.
    place = f"file:{quote(database)}?mode=ro"
    try:
        conn = sqlite3.connect(place, uri=True, isolation_level=None)
    except sqlite3.Error as err:
        raise CatalogError(f"The catalog cannot be read: {err}", where=database) from err
    ended = time.monotonic() + timeout if timeout is not None else None
    try:
        conn.execute("PRAGMA query_only=ON")
        conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        conn.set_authorizer(_authorized)
        if ended is not None:
            conn.set_progress_handler(lambda: time.monotonic() > ended, _PROGRESS_STEPS)
        cursor = conn.execute(statement)
        if cursor.description is None:
            raise _refused(statement, "it gives no rows.")
        rows, cut = _rows(cursor, limit)
        columns = tuple(column[0] for column in cursor.description)
        return SqlResult(columns, tuple(rows), truncated=cut)
    # Statements with a NUL or half a surrogate pair, and two statements at once, are refused by
    # the driver with errors of other kinds.
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as err:
        if "interrupted" in str(err):
            raise _too_long(statement, timeout) from err
        said = next(iter(str(err).strip().splitlines()), type(err).__name__)
        if said in ("not authorized", "authorization denied"):
            said = "it would do something else than read."
        raise _refused(statement, said, _did_you_mean(said)) from err
    finally:
        conn.close()


def _authorized(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and second in ("load_extension", "fts3_tokenizer"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


# PostgreSQL. ------------------------------------------------------------------------------------


def _ask_postgresql(
    conn: Connection, statement: str, limit: int | None, timeout: float | None
) -> SqlResult:
    driver: Any = conn.connection.dbapi_connection
    errors = conn.dialect.loaded_dbapi.Error
    # The end of line ends a comment that the statement may end with.
    text = statement.strip().rstrip(";").strip() + "\n"
    try:
        driver.rollback()
        # Asked for, since an account may be set to read only unless it says otherwise.
        driver.read_only = False
        _patience(driver, timeout)
        _refuse_volatile(driver, statement, text)
        driver.rollback()
        driver.read_only = True
        _patience(driver, timeout)
        with driver.cursor() as cursor:
            # Prepared, so that the server takes one command and no second one behind it; no
            # parameters, so that a percent sign is only that.
            cursor.execute(f"DECLARE question NO SCROLL CURSOR FOR {text}", prepare=True)
            return _fetched(cursor, limit)
    # A statement with half a surrogate pair cannot even be sent.
    except (errors, ValueError) as err:
        if getattr(err, "sqlstate", None) == "57014":
            raise _too_long(statement, timeout) from err
        said = next(iter(str(err).strip().splitlines()), type(err).__name__)
        # The place is one in the statement that was made of this one.
        said = _PLACE.sub("", said)
        raise _refused(statement, said, _cannot_check(err) or _did_you_mean(said)) from err
    finally:
        driver.rollback()


def _cannot_check(err: Exception) -> str | None:
    """A hint where it was the temporary view that was refused, not the statement."""
    state = getattr(err, "sqlstate", None)
    if state == "25006" and "CREATE VIEW" in str(err):
        return "This server is a standby, which cannot check statements: ask the primary one."
    if state == "42501" and "temporary" in str(err):
        return "Checking a statement takes: GRANT TEMPORARY ON DATABASE … TO the account."
    return None


def _patience(driver: Any, timeout: float | None) -> None:
    if timeout is not None:
        milliseconds = max(1, int(timeout * 1000))
        driver.execute(f"SET LOCAL statement_timeout = {milliseconds}")
        driver.execute(f"SET LOCAL lock_timeout = {milliseconds}")


def _refuse_volatile(driver: Any, statement: str, text: str) -> None:
    """Has the server parse the statement, and looks at the functions that it calls.

    A volatile one is refused: the server itself says which are (``pg_proc.provolatile``). The view
    is gone when the transaction is rolled back.
    """
    driver.execute(
        # A subquery, since a view refuses two columns of one name, and a SELECT does not.
        f"CREATE TEMPORARY VIEW question AS SELECT 1 AS one FROM ({text}) AS asked",  # noqa: S608
        prepare=True,
    )
    tree = driver.execute(
        "SELECT ev_action FROM pg_rewrite WHERE ev_class = 'pg_temp.question'::regclass"
    ).fetchone()[0]
    called = sorted(set(map(int, _CALLED.findall(str(tree)))))
    found = driver.execute(
        "SELECT DISTINCT proname FROM pg_proc WHERE oid = ANY(%s) AND provolatile = 'v' "
        "AND NOT (proname = ANY(%s) AND pronamespace = 'pg_catalog'::regnamespace) ORDER BY 1",
        (called, list(_HARMLESS)),
    ).fetchall()
    if found:
        names = ", ".join(f"{name}()" for (name,) in found)
        raise _refused(
            statement,
            f"PostgreSQL calls {names} volatile: calling it may do more than read.",
            "Leave it out.",
        )


def _fetched(cursor: Any, limit: int | None) -> SqlResult:
    rows: list[tuple[Any, ...]] = []
    columns: tuple[str, ...] = ()
    wanted = None if limit is None else limit + 1
    while wanted is None or len(rows) < wanted:
        batch = _BATCH if wanted is None else min(_BATCH, wanted - len(rows))
        cursor.execute(f"FETCH FORWARD {batch} FROM question")
        columns = tuple(column.name for column in cursor.description or ())
        found = cursor.fetchall()
        rows += map(tuple, found)
        if len(found) < batch:
            break
    cut = wanted is not None and len(rows) == wanted
    return SqlResult(columns, tuple(rows[:limit] if cut else rows), truncated=cut)
