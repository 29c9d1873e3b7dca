"""The facts by which Airflow knows this package as a provider (entry point ``apache_airflow_provider``)."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from provender.orchestration.airflow.names import CONNECTION, SCHEME, SECTION

_HERE = "provender.orchestration.airflow"


def get_provider_info() -> dict[str, Any]:
    """What Airflow reads: decorators, asset scheme and configuration."""
    return {
        "package-name": "provender",
        "name": "Provender",
        "description": "Builds, publishes and feeds versioned datasets; one DAG for each of them.",
        "versions": [metadata.version("provender")],
        "task-decorators": [
            {"name": "provender_stage", "class-name": f"{_HERE}.operators.provender_stage"}
        ],
        "asset-uris": [
            {
                "schemes": [SCHEME],
                "handler": f"{_HERE}.assets.sanitize_uri",
                "factory": f"{_HERE}.assets.create_asset",
                "to_openlineage_converter": f"{_HERE}.assets.to_openlineage",
            }
        ],
        "config": {
            SECTION: {
                "description": "How tasks find the project's settings and its catalog.",
                "options": {
                    "settings": _option(
                        "The provender.toml of the project. By default the nearest one above the "
                        "DAG file.",
                        "/srv/project/provender.toml",
                        None,
                    ),
                    "catalog_conn_id": _option(
                        "The connection that names the catalog's database. Without such a "
                        "connection provender.toml and the environment say where it is.",
                        CONNECTION,
                        CONNECTION,
                    ),
                },
            }
        },
    }


def _option(description: str, example: str, default: str | None) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": "string",
        "example": example,
        "default": default,
    }
