"""`Catalog`: the one door to the database, put together from its parts."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from provender.catalog.aliases import Aliases
from provender.catalog.claims import Claims
from provender.catalog.db import make_current
from provender.catalog.dependants import Dependants
from provender.catalog.engine import make_engine, masked, parse_url
from provender.catalog.leases import Leases
from provender.catalog.measuring import Measuring
from provender.catalog.moments import Moments
from provender.catalog.orchestrated import OrchestratedRuns
from provender.catalog.overview import Overview
from provender.catalog.reading import Consumption, Downloads
from provender.catalog.registering import Registering
from provender.catalog.runs import Runs
from provender.catalog.searching import Searching
from provender.catalog.sql import Sql
from provender.catalog.stages import Stages
from provender.catalog.standing import Standings
from provender.catalog.statistics import StatisticsAndChecks
from provender.catalog.tags import Tags
from provender.catalog.timeline import Timeline
from provender.catalog.versions import Versions


class Catalog(
    Stages,
    Runs,
    OrchestratedRuns,
    Claims,
    Versions,
    Registering,
    Aliases,
    Dependants,
    Consumption,
    Downloads,
    StatisticsAndChecks,
    Leases,
    Standings,
    Sql,
    Tags,
    Overview,
    Searching,
    Moments,
    Timeline,
    Measuring,
):
    """What was built, from what, by whom, and who reads it.

    Safe to share between threads, and to inherit by fork. Every method is one transaction.
    """

    @classmethod
    def open(cls, url: str | Path) -> Catalog:
        """Opens a catalog, creating or migrating it where that is safe.

        A SQLite catalog is created on first use and migrated whenever this code is newer. A
        PostgreSQL database is filled on first use if it is empty; an older one is left to
        ``provender db upgrade``, since other machines may still run older code against it.

        Args:
            url: ``sqlite:///path``, a plain path, or ``postgresql+psycopg://...``.

        Raises:
            CatalogError: it cannot be reached, or its schema is newer than this code, or older
                and not to be migrated unasked.
        """
        engine = make_engine(parse_url(url))
        try:
            make_current(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    @property
    def url(self) -> str:
        """Where the catalog is, secrets masked."""
        return masked(self._url)

    def close(self) -> None:
        """Closes all connections; the catalog opens new ones if it is used again."""
        self._engine.dispose()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Catalog({self.url!r})"
