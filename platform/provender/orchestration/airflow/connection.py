"""Where a task finds the project's settings and its catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.orchestration.airflow.names import CONNECTION, SECTION
from provender.settings import FILE_NAME, Settings, load_settings

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from provender.engine.staged import RunDoc

_DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "sqlite": "sqlite",
}


def settings_file(dag_file: str | Path) -> Path | None:
    """The provender.toml of the project that a DAG file belongs to.

    Args:
        dag_file: the DAG file.

    Returns:
        What ``[provender] settings`` of airflow.cfg says, else the nearest one above the DAG
        file, else None.
    """
    from airflow.sdk.configuration import conf

    if told := conf.get(SECTION, "settings", fallback=None):
        return Path(told).expanduser()
    folder = Path(dag_file).absolute().parent
    found = (each / FILE_NAME for each in (folder, *folder.parents))
    return next((each for each in found if each.is_file()), None)


def settings_for(file: str | Path | None, dataset: str) -> Settings:
    """A task's settings: those of the project, with the catalog that the connection names.

    Args:
        file: provender.toml, or None for the nearest one or none.
        dataset: the dataset; another one's table that makes no sense is not its business.

    Raises:
        SettingsError: a value makes no sense.
    """
    return load_settings(file=file, catalog=catalog_url(), only=(dataset,))


def settings_of(doc: RunDoc) -> Settings:
    """The settings of a task of a run."""
    return settings_for(doc.settings, doc.dataset.partition("/")[0])


def catalog_url() -> str | None:
    """The catalog that the connection names, or None where there is no such connection.

    From here on Airflow masks the password wherever the task's log would show it.

    Raises:
        SettingsError: the connection is of a type that no catalog has.
    """
    from airflow.sdk import Connection
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import AirflowNotFoundException

    name = conf.get(SECTION, "catalog_conn_id", fallback=CONNECTION)
    try:
        found = Connection.get(name)
    except AirflowNotFoundException:
        return None
    return url_of(found)


def url_of(connection: Connection | Any) -> str:
    """A connection as the URL of a catalog.

    Args:
        connection: of type postgres, or of type sqlite with the file's path as its host, or
            as its schema where it is written as a URI.

    Raises:
        SettingsError: it is of another type.
    """
    import sqlalchemy as sa

    driver = _DRIVERS.get(str(connection.conn_type or ""))
    if driver is None:
        raise SettingsError(
            f"A catalog is in PostgreSQL or SQLite, not in {connection.conn_type!r}.",
            where=f"connection {connection.conn_id}",
            hint="Set its type to Postgres, or remove it to use the catalog of provender.toml.",
        )
    if driver == "sqlite":
        path = "/".join(filter(None, (connection.host, connection.schema)))
        return f"sqlite:////{path.lstrip('/')}"
    url = sa.URL.create(
        driver,
        username=connection.login,
        password=connection.password,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
        query={k: str(v) for k, v in connection.extra_dejson.items() if not k.startswith("__")},
    )
    return url.render_as_string(hide_password=False)
