"""Provender in Airflow: a DAG for each dataset of the project, and what Airflow shows of it.

`dataset_dags` and `check_registry` are what the short files in ``dags/`` call. `on_each_change` is the
schedule of a DAG that runs once for each changed split or piece of time, and `changed` says which it is. The package is an
Airflow provider too (`provider`): ``@task.provender_stage``, the asset scheme ``provender``, the
configuration section ``[provender]``.

Nothing here decides what is to be done: each task makes one call of `provender.engine.staged`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.orchestration.airflow.changes import changed as changed
    from provender.orchestration.airflow.changes import on_each_change as on_each_change
    from provender.orchestration.airflow.factory import check_registry as check_registry
    from provender.orchestration.airflow.factory import dataset_dags as dataset_dags

_HOMES = {
    "changed": "changes",
    "check_registry": "factory",
    "dataset_dags": "factory",
    "on_each_change": "changes",
}

__all__ = ["changed", "check_registry", "dataset_dags", "on_each_change"]


def __getattr__(name: str) -> Any:
    # Airflow reads the provider's facts in each of its processes: they must not cost its SDK.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
