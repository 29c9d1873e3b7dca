"""Opening a catalog that nobody can write to, not even by a mistake in these pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provender.catalog import Catalog
from provender.errors import CatalogError


def open_read_only(url: str) -> Catalog:
    """Opens a catalog on connections that the database itself keeps from writing.

    Nothing is created and nothing is migrated.

    Args:
        url: as in the settings.

    Raises:
        CatalogError: there is none, it cannot be reached, or it is older or newer than this code.
    """
    import sqlalchemy as sa

    from provender.catalog import db
    from provender.catalog.engine import make_engine, masked, parse_url
    from provender.catalog.revisions import MENDED_BY, age

    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).is_file():
        raise CatalogError(
            "There is no catalog yet.",
            where=str(parsed.database),
            hint="The first build makes it: provender build NAME",
        )
    revision, wanted = db.current_revision(url), db.head_revision()
    if revision is None:
        hint = "The first build fills it: provender build NAME"
        raise CatalogError("The catalog is empty.", where=masked(parsed), hint=hint)
    if revision != wanted:
        raise CatalogError(
            f"The catalog has revision {revision}, this code works with {wanted}.",
            where=masked(parsed),
            hint=MENDED_BY[age(revision)],
        )
    engine = make_engine(parsed)
    sa.event.listen(engine, "connect", _forbid_writing)
    return Catalog(engine)


def _forbid_writing(connection: Any, _record: Any) -> None:
    if hasattr(connection, "read_only"):
        connection.read_only = True  # psycopg: every transaction begins READ ONLY
    else:
        connection.execute("PRAGMA query_only=ON")
