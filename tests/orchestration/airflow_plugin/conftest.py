"""Airflow's own API server in this process, with the plugin as its entry point brings it."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.orchestration.airflow.conftest import AirflowProject, airflow, project

__all__ = ["airflow", "project"]

os.environ["AIRFLOW__API_AUTH__JWT_SECRET"] = "for tests alone " * 5


class Airflow:
    """The server, and visitors of it.

    Attributes:
        app: Airflow's application.
    """

    def __init__(self) -> None:
        from airflow.api_fastapi.app import create_app

        self.app = create_app(apps="core")

    def visitor(self, role: str | None = "viewer", *teams: str) -> Any:
        """A browser's view of the server, signed in with a role or not at all."""
        from fastapi.testclient import TestClient

        client = TestClient(self.app, follow_redirects=False)
        if role:
            client.cookies["_token"] = token(role, *teams)
        return client


def token(role: str, *teams: str) -> str:
    """What Airflow's login gives."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    user = SimpleAuthManagerUser(username=f"a {role}", role=role, teams=list(teams))
    return get_auth_manager().generate_jwt(user)


@pytest.fixture(scope="session")
def served(airflow: None) -> Airflow:
    return Airflow()


@pytest.fixture
def site(served: Airflow, project: AirflowProject, monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """The server, with a project whose DAGs it shows."""
    # As `airflow api-server` does, so that connections are looked up as there.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    return served
