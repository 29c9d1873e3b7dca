"""Transactions: the base that every part of `Catalog` stands on."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Select, Table
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from provender.catalog.engine import catalog_error, is_transient, read_only

T = TypeVar("T")
_ATTEMPTS = 6
# SQLite takes 32,766 variables a statement, PostgreSQL 65,535.
_BATCH = 10_000


class Session:
    """One database, seen as functions run inside transactions.

    Args:
        engine: from `make_engine`; closed by whoever made it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reader = read_only(engine)

    @property
    def _url(self) -> URL:
        return self._engine.url

    def _read(self, work: Callable[[Connection], T]) -> T:
        """Runs ``work`` in one transaction that sees one state of the database."""
        try:
            with self._reader.begin() as conn:
                return work(conn)
        except SQLAlchemyError as err:
            raise catalog_error(err, self._url) from err

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Runs ``work`` in one transaction that commits as a whole or not at all.

        A transaction that lost against another one (deadlock, serialization, a unique key that
        a racer inserted first) is run again, so ``work`` must read before it decides.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._engine.begin() as conn:
                    return work(conn)
            except SQLAlchemyError as err:
                if attempt == _ATTEMPTS or not is_transient(err):
                    raise catalog_error(err, self._url) from err
                time.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311 - no secret
        raise AssertionError  # pragma: no cover - the loop returns or raises


def insert_missing(conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Inserts the rows whose key is not there yet.

    Args:
        conn: a writing transaction.
        table: the table.
        rows: all with the same columns. They are sent in the order given: sort them by key
            where two transactions may insert the same ones, or they deadlock.

    Returns:
        The number of rows inserted, if one was given; else what the driver makes of it.
    """
    if not rows:
        return 0
    # Unlike those of UPDATE and DELETE, the count of an INSERT is thrown away by default.
    statement = _insert(conn, table).on_conflict_do_nothing()
    statement = statement.execution_options(preserve_rowcount=True)
    return conn.execute(statement, list(rows) if len(rows) > 1 else rows[0]).rowcount


def upsert(conn: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Inserts the row, or overwrites the one that has its primary key."""
    keys = [column.name for column in table.primary_key.columns]
    rest = {name: value for name, value in row.items() if name not in keys}
    statement = _insert(conn, table).values(**row)
    conn.execute(statement.on_conflict_do_update(index_elements=keys, set_=rest))


def _insert(conn: Connection, table: Table) -> Any:
    """The dialect's own INSERT; the PostgreSQL dialect is loaded only where it is in use."""
    if conn.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        return sqlite_insert(table)
    from sqlalchemy.dialects.postgresql import insert as postgresql_insert

    return postgresql_insert(table)


def is_among(conn: Connection, column: Any, name: str) -> sa.ColumnElement[bool]:
    """Whether a text column holds one of many values, told to the database as one parameter.

    Unlike ``IN``, whose parameters SQLAlchemy writes out one by one for every execution. As one
    JSON text, since the driver of PostgreSQL looks at every element of an array whether it has to
    be quoted, which takes three times as long as the standard library takes for the JSON.

    Args:
        conn: the transaction it will be used in.
        column: the column.
        name: the parameter's; its value is made by `among`.
    """
    text = sa.bindparam(name, type_=sa.Text)
    if conn.dialect.name == "sqlite":
        listed = sa.func.json_each(text).table_valued("value")
        return column.in_(sa.select(listed.c.value))  # type: ignore[no-any-return]
    # The array is made once, before the scan, and each of its elements looked up in the index.
    each = sa.func.json_array_elements_text(sa.cast(text, sa.JSON)).column_valued("value")
    return column == sa.any_(sa.func.array(sa.select(each).scalar_subquery()))  # type: ignore[no-any-return]


def among(values: Iterable[str]) -> str:
    """The value of a parameter of `is_among`."""
    return json.dumps(list(values))


def select_in(
    conn: Connection, make: Callable[[Sequence[Any]], Select[Any]], values: Iterable[Any]
) -> Iterator[Any]:
    """The rows of ``make(batch)`` over all values, in batches that every database takes."""
    todo = list(dict.fromkeys(values))
    for start in range(0, len(todo), _BATCH):
        # All of a batch at once: row by row the driver is called as often as there are rows.
        yield from conn.execute(make(todo[start : start + _BATCH])).all()
