"""The schema's revision: what the database has, what this code wants, and the way from one to
the other. Alembic is loaded only where there is something to migrate or to compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from provender.catalog.engine import catalog_error, make_engine, masked, parse_url, read_only
from provender.catalog.revisions import REVISIONS, head
from provender.errors import CatalogError

# Any number will do, as long as nothing else in that database locks the same one.
_ADVISORY_LOCK = 0x70726F76656E6472

State = Literal["current", "older", "empty", "foreign", "newer"]


def head_revision() -> str:
    """The revision this code works with."""
    return head()


def current_revision(url: str | Path) -> str | None:
    """The revision a database has; None where it is not a catalog yet.

    Raises:
        CatalogError: the database cannot be reached.
    """
    with _connected(url) as engine:
        with read_only(engine).begin() as conn:
            return _revision(conn)


def is_empty(url: str | Path) -> bool:
    """Whether a database holds no tables at all.

    Raises:
        CatalogError: the database cannot be reached.
    """
    with _connected(url) as engine:
        with read_only(engine).begin() as conn:
            return _state(conn) == "empty"


def upgrade(url: str | Path) -> tuple[str | None, str]:
    """Brings a database to this code's revision, whatever its kind and age.

    Returns:
        (revision before, revision after).

    Raises:
        CatalogError: it cannot be reached, is newer than this code, or belongs to others.
    """
    with _connected(url) as engine:
        return _upgrade(engine), head()


def check(url: str | Path) -> list[str]:
    """How a database's schema differs from what this code expects; empty where it does not.

    Raises:
        CatalogError: the database cannot be reached.
    """
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from provender.catalog.tables import described, is_described

    with _connected(url) as engine:
        with read_only(engine).begin() as conn:
            options = {"compare_type": True, "include_name": is_described}
            context = MigrationContext.configure(conn, opts=options)
            return [str(difference) for difference in compare_metadata(context, described())]


def make_current(engine: Engine) -> None:
    """Lets a catalog that is not current become so where nobody can be hurt by it.

    Raises:
        CatalogError: it cannot be reached, is newer, belongs to others, or is an older
            PostgreSQL catalog, which is migrated only on request.
    """
    try:
        with read_only(engine).begin() as conn:
            state = _state(conn)
        if state == "current":
            return
        if state == "older" and engine.dialect.name != "sqlite":
            message = "The catalog's schema is older than this code."
            hint = "Stop what still runs older code, then: provender db upgrade"
            raise CatalogError(message, where=masked(engine.url), hint=hint)
        _upgrade(engine)
    except SQLAlchemyError as err:
        raise catalog_error(err, engine.url) from err


def script_location() -> Path:
    """Where the migration scripts are: inside an installed package, else in the repository."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parents[1] / "migrations"


def alembic_config(conn: Connection | None = None) -> Any:
    """Alembic's configuration, bound to an open connection where one is given."""
    from alembic.config import Config

    config = Config()
    # Alembic expands % in its options.
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    config.attributes["connection"] = conn
    return config


def _upgrade(engine: Engine) -> str | None:
    """Migrates in one transaction that racers wait for; whoever comes second finds it done."""
    from alembic import command

    with engine.connect() as conn:
        if conn.dialect.name == "sqlite":
            # Rebuilding a table drops it, which would cascade; and inside a transaction the
            # pragma does nothing, so it is set on the driver's connection before one begins.
            conn.detach()
            driver: Any = conn.connection.dbapi_connection
            driver.execute("PRAGMA foreign_keys=OFF")
        with conn.begin():
            if conn.dialect.name != "sqlite":
                conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            state, before = _state(conn), _revision(conn)
            _refuse(state, before, engine)
            if state != "current":
                command.upgrade(alembic_config(conn), "head")
        return before


def _refuse(state: State, revision: str | None, engine: Engine) -> None:
    if state == "newer":
        raise CatalogError(
            f"The catalog has revision {revision}, which this code does not know: "
            f"it was written by a newer Provender, or by another program. This one knows {head()}.",
            where=masked(engine.url),
            hint="Update Provender here (pip install --upgrade provender), or use another catalog.",
        )
    if state == "foreign":
        raise CatalogError(
            "The database holds tables of another program.",
            where=masked(engine.url),
            hint="Give the catalog a database, or a schema, of its own.",
        )


def _state(conn: Connection) -> State:
    revision = _revision(conn)
    if revision == head():
        return "current"
    if revision in REVISIONS:
        return "older"
    if revision is not None:
        return "newer"
    return "foreign" if sa.inspect(conn).get_table_names() else "empty"


def _revision(conn: Connection) -> str | None:
    # has_table costs one cheap query, and unlike a failing SELECT it leaves PostgreSQL's
    # transaction usable.
    if not conn.dialect.has_table(conn, "alembic_version"):
        return None
    found: str | None = conn.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return found


@contextmanager
def _connected(url: str | Path) -> Iterator[Engine]:
    engine = make_engine(parse_url(url))
    try:
        yield engine
    except SQLAlchemyError as err:
        raise catalog_error(err, engine.url) from err
    finally:
        engine.dispose()
