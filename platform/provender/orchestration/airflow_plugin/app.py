"""The application behind the entrance: the pages of `provender.ui`, and those of the tabs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provender.orchestration.airflow.connection import catalog_url, settings_file
from provender.orchestration.airflow_plugin.access import may_look
from provender.orchestration.airflow_plugin.tabs import router
from provender.settings import Settings, load_settings
from provender.ui import create_app

if TYPE_CHECKING:
    from fastapi import FastAPI


def make_app() -> FastAPI:
    """Makes the application; the catalog is opened at the first page, and only to be read.

    Raises:
        SettingsError: provender.toml cannot be read.
    """
    app = create_app(project_settings(), authorize=may_look, frame_ancestors=["'self'"])
    app.include_router(router)
    return app


def project_settings() -> Settings:
    """The settings that tasks have: those of the project that the DAGs folder belongs to.

    Raises:
        SettingsError: provender.toml cannot be read.
    """
    from airflow.configuration import conf

    file = settings_file(Path(conf.get("core", "dags_folder")) / "provender.py")
    # A dataset's table that makes no sense costs its own DAG, not the pages.
    return load_settings(file=file, catalog=catalog_url(), only=())
