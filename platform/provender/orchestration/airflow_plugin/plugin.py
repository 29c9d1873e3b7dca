"""What Airflow is told of the pages. Every process of Airflow imports this module: it must cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk import BaseOperatorLink

from provender.orchestration.airflow.names import dag_id
from provender.orchestration.airflow_plugin.entrance import Entrance

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey
    from starlette.types import ASGIApp

PREFIX = "provender"
"""Where the pages are below Airflow's address."""

_DAG = f"{PREFIX}/dag/{{DAG_ID}}"


def _make_app() -> ASGIApp:
    from provender.orchestration.airflow_plugin.app import make_app

    return make_app()


def _view(name: str, destination: str, href: str, **more: Any) -> dict[str, Any]:
    # A relative address: Airflow may live below a path of its own.
    return {
        "name": name,
        "destination": destination,
        "href": href,
        "url_route": f"provender-{destination}".replace("_", "-"),
        "icon": f"{PREFIX}/static/icon.svg",
        **more,
    }


class PageLink(BaseOperatorLink):
    """The button on a task's details: the page of what the task did, in a window of its own."""

    name = "Provender: stages and lineage"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """The page's address; nothing for tasks of other DAGs.

        Args:
            operator: the task; not looked at, since it may be of an older version of the DAG.
            ti_key: the task instance.
        """
        if not ti_key.dag_id.startswith(dag_id("")):
            return ""
        from airflow.configuration import conf

        root = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
        asked = {"run_id": ti_key.run_id, "task_id": ti_key.task_id, "map_index": ti_key.map_index}
        return f"{root}/{PREFIX}/dag/{quote(ti_key.dag_id, safe='')}/task?{urlencode(asked)}"


class ProvenderPlugin(AirflowPlugin):
    """The pages: an entry in the menu, a tab on DAGs, runs and tasks, a button on tasks."""

    name = "provender"
    fastapi_apps = [  # noqa: RUF012 - Airflow reads it from the class
        {"app": Entrance(_make_app), "url_prefix": f"/{PREFIX}", "name": "Provender"}
    ]
    external_views = [  # noqa: RUF012
        _view("Datasets", "nav", f"{PREFIX}/", category="browse"),
        _view("Dataset", "dag", _DAG),
        _view("Lineage", "dag_run", f"{_DAG}/run?run_id={{RUN_ID}}"),
        _view("Lineage", "task", f"{_DAG}/task?task_id={{TASK_ID}}"),
        _view(
            "Lineage",
            "task_instance",
            f"{_DAG}/task?run_id={{RUN_ID}}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}",
        ),
    ]
    global_operator_extra_links = [PageLink()]  # noqa: RUF012
