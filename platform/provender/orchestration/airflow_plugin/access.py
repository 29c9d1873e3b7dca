"""Who may see what: what concerns a dataset is for those who may read a DAG that builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provender.orchestration.airflow.names import dag_id
from provender.orchestration.airflow_plugin.entrance import USER

if TYPE_CHECKING:
    from starlette.requests import Request

    from provender.ui import Library


def may_look(request: Request, dataset: str | None) -> bool:
    """Whether a visitor may look: at the pages, or at what concerns a dataset.

    Args:
        request: has passed `entrance.Entrance`.
        dataset: name in the catalog, or None for the pages as such.
    """
    if dataset is None:
        return True
    library: Library = request.app.state.library()
    return any(may_read(request, each) for each in dags_of(library, dataset))


def dags_of(library: Library, dataset: str) -> set[str]:
    """The DAGs that a dataset belongs to: those that have built it, else the one of its name.

    A builder may stand in the registry under another name than its own, so the DAG's name alone
    does not tell. Of what was built elsewhere Airflow decides by the name that a DAG would have.

    Args:
        library: what there is to read.
        dataset: name in the catalog.
    """
    return library.catalog.airflow_dags(dataset) or {dag_id(dataset)}


def may_read(request: Request, dag: str) -> bool:
    """Whether a visitor may read a DAG, as Airflow's auth manager says.

    Args:
        request: has passed `entrance.Entrance`.
        dag: id of the DAG, which need not exist.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.models.dag import DagModel

    user = getattr(request.state, USER)
    details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
    return bool(get_auth_manager().is_authorized_dag(method="GET", details=details, user=user))
