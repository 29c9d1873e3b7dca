"""Provender in Airflow: a DAG for each dataset of the project, and what Airflow shows of it.

`dataset_dags` and `check_registry` are what the short files in ``dags/`` call. The package is an
Airflow provider too (`provider`): ``@task.provender_stage``, the asset scheme ``provender``, the
configuration section ``[provender]``.

Nothing here decides what is to be done: each task makes one call of `provender.engine.staged`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.orchestration.airflow.factory import check_registry as check_registry
    from provender.orchestration.airflow.factory import dataset_dags as dataset_dags

__all__ = ["check_registry", "dataset_dags"]


def __getattr__(name: str) -> Any:
    # Airflow reads the provider's facts in each of its processes: they must not cost its SDK.
    if name in __all__:
        from provender.orchestration.airflow import factory

        return getattr(factory, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
