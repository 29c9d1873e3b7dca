"""What Prefect calls the run that a task or flow belongs to."""

from __future__ import annotations

from typing import Any


def ids_of_run() -> dict[str, Any]:
    """The orchestrator's ids for the catalog's record of a run; the same in every try of it."""
    from prefect import runtime

    found = {
        "name": "prefect",
        "flow_run_id": str(runtime.flow_run.id),
        "flow_run_name": runtime.flow_run.name,
        "flow_name": runtime.flow_run.flow_name,
        "deployment_id": runtime.deployment.id,
        "parent_flow_run_id": runtime.flow_run.parent_flow_run_id,
    }
    return {name: value for name, value in found.items() if value}
