"""Alembic's entry: runs the migrations, or compares them with the tables.

Provender passes the open connection, whose transaction it owns. Called from the ``alembic``
command (a contributor making a revision), the URL of the configuration is used instead.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy.engine import Connection

from provender.catalog.engine import make_engine, parse_url
from provender.catalog.tables import described, is_described


def migrate(connection: Connection) -> None:
    """Runs what was asked for on an open connection."""
    context.configure(
        connection=connection,
        target_metadata=described(),
        # SQLite can alter little of a table: batch mode rebuilds it instead.
        render_as_batch=True,
        compare_type=True,
        include_name=is_described,
    )
    with context.begin_transaction():
        context.run_migrations()


connection = context.config.attributes.get("connection")
if connection is not None:
    migrate(connection)
else:
    engine = make_engine(parse_url(context.config.get_main_option("sqlalchemy.url") or ""))
    with engine.begin() as own:
        migrate(own)
    engine.dispose()
