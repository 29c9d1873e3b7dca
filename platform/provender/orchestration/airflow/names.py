"""What things of a dataset are called in Airflow."""

from __future__ import annotations

from typing import Any

CONNECTION = "provender_catalog"
"""The connection that names the catalog's database, where nothing else is configured."""

SECTION = "provender"
"""The section of airflow.cfg."""

SCHEME = "provender"
"""The scheme of assets: ``provender://digits``."""


CHANGES = "@changes"
"""What follows the dataset in the name of its second asset; no config can be called that."""


def dag_id(dataset: str) -> str:
    """The id of a dataset's DAG."""
    return f"provender_{dataset}"


def asset_uri(dataset: str) -> str:
    """The URI of a dataset's asset."""
    return f"{SCHEME}://{dataset}"


def changes_name(dataset: str) -> str:
    """The name of a dataset's second asset, whose events name one split or piece of time each."""
    return f"{dataset}/{CHANGES}"


def orchestrator(dag_id: str, run_id: str) -> dict[str, Any]:
    """What the catalog is told of a DAG run: the same from each of its tasks, whatever its try.

    `provender.catalog.orchestrated.run_id_of` makes the run's id in the catalog of it.
    """
    return {"name": "airflow", "dag_id": dag_id, "run_id": run_id}
