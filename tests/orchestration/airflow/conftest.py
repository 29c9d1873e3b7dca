"""A throw-away Airflow on SQLite, and a project whose DAGs it reads.

Set before Airflow is imported for the first time: it reads its configuration then.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(tempfile.mkdtemp(prefix="provender-airflow-"))
atexit.register(shutil.rmtree, _ROOT, ignore_errors=True)
PROJECT = _ROOT / "project"
DAGS = Path(__file__).parents[3] / "dags"

os.environ |= {
    "AIRFLOW_HOME": str(_ROOT / "home"),
    "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(_ROOT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__OPENLINEAGE__DISABLED": "True",
}


@dataclass
class AirflowProject:
    """A project folder with DAGs; each test adds a dataset of its own name.

    Attributes:
        root: where provender.toml is.
    """

    root: Path

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def dataset(self, name: str, code: str = "", airflow: str = "", more: str = "") -> str:
        """Adds a dataset with two splits of a few lines; gives its DAG's id."""
        self.write(f"{name}_builder.py", BUILDER.replace("NAME", name.title()) + code)
        self.write(
            f"datasets/{name}.toml",
            f'[datasets.{name}]\nbuilder = "../{name}_builder.py:{name.title()}"\n{more}\n'
            f"[datasets.{name}.airflow]\nretries = 0\nmanual_interval = 1\n{airflow}\n",
        )
        return f"provender_{name}"

    def dag(self, dag_id: str) -> Any:
        from provender.orchestration.airflow.factory import build

        return build(str(self.root / "dags" / "provender.py"), dag_id).dags[dag_id]

    def run(self, dag_id: str, **conf: Any) -> Run:
        """Runs a DAG in this process."""
        return Run(self.dag(dag_id).test(run_conf=conf))


@dataclass
class Run:
    """A DAG run that ended."""

    run: Any

    @property
    def state(self) -> str:
        return str(self.run.state)

    @property
    def tasks(self) -> list[Any]:
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session

        with create_session() as session:
            rows = session.query(TaskInstance).filter_by(
                run_id=self.run.run_id, dag_id=self.run.dag_id
            )
            found = list(rows)
            session.expunge_all()
            return sorted(found, key=lambda ti: (ti.task_id, ti.map_index))

    @property
    def states(self) -> dict[str, str]:
        """Task id -> state; of a mapped task the states of all its instances."""
        found: dict[str, set[str]] = {}
        for ti in self.tasks:
            found.setdefault(ti.task_id, set()).add(str(ti.state))
        return {task: "+".join(sorted(states)) for task, states in found.items()}

    def labels(self, task_id: str) -> list[str]:
        return [ti.rendered_map_index for ti in self.tasks if ti.task_id == task_id]

    @property
    def storage(self) -> dict[str, Any]:
        """What the storage tabs show: ``task[index]`` -> document."""
        import sqlalchemy as sa
        from airflow.models.task_state_store import TaskStateStoreModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = sa.select(TaskStateStoreModel).filter_by(
                run_id=self.run.run_id, dag_id=self.run.dag_id
            )
            rows = session.scalars(query).all()
            return {f"{r.task_id}[{r.map_index}]": json.loads(r.value) for r in rows}

    @property
    def stage_states(self) -> dict[str, str]:
        """Stage key -> state, as the storage tabs show them."""
        return {
            stage["stage"]: stage["state"]
            for doc in self.storage.values()
            for stage in doc.get("stages", ())
        }

    def xcom(self, task_id: str) -> Any:
        return self.run.get_task_instance(task_id).xcom_pull(task_ids=task_id)


BUILDER = '''
import tensorflow_datasets as tfds

# Stages are known by what they do, whatever the dataset: each test's are its own.
COUNTS = {"NAME": {"train": 40, "test": 10}}

def shape(number):
    return f"NAME {number}"

class NAME(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Lines."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="lines",
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        )

    def _split_generators(self, dl_manager):
        return {name: self._generate_examples(count) for name, count in COUNTS["NAME"].items()}

    def _generate_examples(self, count):
        for number in range(count):
            yield number, {"text": shape(number)}
'''


@pytest.fixture(scope="session")
def airflow() -> Iterator[None]:
    """Airflow's database, filled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sqlalchemy as sa
        from airflow import settings
        from airflow.utils.db import initdb

        # Nobody wants this database after a power cut, and a run commits three hundred times.
        @sa.event.listens_for(settings.engine, "connect")
        def _do_not_wait_for_the_disk(connection: Any, record: Any) -> None:
            connection.execute("PRAGMA synchronous=OFF")

        initdb()
        yield


@pytest.fixture
def project(airflow: None) -> AirflowProject:
    """The project that Airflow's dags_folder belongs to."""
    found = AirflowProject(PROJECT)
    found.write(
        "provender.toml",
        'store = "store"\nhome = "home"\nworkers = 1\ninclude = ["datasets/*.toml"]\n',
    )
    for path in DAGS.glob("*.py"):
        found.write(f"dags/{path.name}", path.read_text())
    return found
