"""Reducers for functions wrapped by Prefect and Airflow: what runs counts, how it is run does not.

Retries, cache policies, tags, pools and names are the orchestrator's business.
"""

from __future__ import annotations

from typing import Any

from provender.fingerprint.registry import ship


@ship("prefect.tasks.Task", "prefect.flows.Flow")
def prefect(obj: Any) -> object:
    """The wrapped function."""
    return obj.fn


@ship("airflow.sdk.bases.decorator._TaskDecorator", "airflow.decorators.base._TaskDecorator")
def airflow(obj: Any) -> object:
    """The wrapped function."""
    return obj.function


@ship("airflow.sdk.bases.operator.BaseOperator", "airflow.models.baseoperator.BaseOperator")
def operator(obj: Any) -> object:
    """What it was given to run with: templated fields, and the callable where there is one."""
    fields = {name: getattr(obj, name, None) for name in sorted(obj.template_fields)}
    return [fields, getattr(obj, "python_callable", None)]
