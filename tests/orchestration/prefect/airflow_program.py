"""Runs a dataset's DAG in this process, as `dag.test` does: python airflow_program.py DAG_FILE DATASET.

Prints, last, one line of JSON: the DAG run's ids, its tasks' states, what their storage tabs show,
and what was announced.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main(dag_file: str, dataset: str) -> None:
    from airflow.utils.db import initdb

    from provender.orchestration.airflow.factory import build
    from provender.orchestration.airflow.names import dag_id

    initdb()
    name = dag_id(dataset)
    run = build(dag_file, name).dags[name].test()
    print(json.dumps(told(run), default=str))


def told(run: Any) -> dict[str, Any]:
    import sqlalchemy as sa
    from airflow.models.asset import AssetEvent
    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        of_run = {"dag_id": run.dag_id, "run_id": run.run_id}
        tasks = session.scalars(sa.select(TaskInstance).filter_by(**of_run)).all()
        kept = session.scalars(sa.select(TaskStateStoreModel).filter_by(**of_run)).all()
        events = session.scalars(sa.select(AssetEvent).filter_by(source_run_id=run.run_id)).all()
        return {
            "dag_id": run.dag_id,
            "run_id": run.run_id,
            "state": str(run.state),
            "tasks": {f"{ti.task_id}[{ti.map_index}]": str(ti.state) for ti in tasks},
            "storage": {f"{r.task_id}[{r.map_index}]": json.loads(r.value) for r in kept},
            "events": [event.extra for event in events],
        }


if __name__ == "__main__":
    main(*sys.argv[1:])
