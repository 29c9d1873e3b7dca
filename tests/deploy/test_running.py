"""docker-compose.yml runs: each service's command, as a process, from the first to the last.

Airflow and Prefect build datasets of the project that the file mounts, on its store and its catalog.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.airflow.local_airflow import LocalAirflow
from tests.deploy.composition import Composition, composition
from tests.deploy.translating import LISTENS, LOOPBACK
from tests.orchestration.airflow_e2e.driving import Driver

from provender.catalog import Catalog, RunRecord

COMPOSE = shutil.which("docker-compose")
MISSING = [name for name in ("docker-compose", "redis-server", "wget") if not shutil.which(name)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        bool(MISSING), reason=f"not here: {', '.join(MISSING)}; `make services` installs Debian's"
    ),
]
PATIENCE = 300.0
"""Seconds that a run of a flow may take on a busy machine."""
DAG = "provender_digits"

# Beside provender.toml, as docs/operations.md says.
LINES_TABLE = """
[datasets.lines]
builder = "lines.py:Lines"
num_shards = 2
"""
LINES = '''
import tensorflow_datasets as tfds


class Lines(tfds.core.GeneratorBasedBuilder):
    """Numbered lines."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": ((number, {"text": f"line {number}"}) for number in range(200))}

    def _generate_examples(self):
        raise AssertionError("the splits are generators")
'''


class Airflow(LocalAirflow):
    """Airflow of the composition, for the tests' driver: signed in as .env says.

    Args:
        running: the composition.
    """

    def __init__(self, running: Composition) -> None:
        super().__init__(
            running.machine.inside("/var/lib/provender"), running.machine.ports["airflow-api"]
        )
        self._composition = running

    def sign_in(self) -> str:
        told = {
            "username": "admin",
            "password": self._composition.machine.secrets["AIRFLOW_ADMIN_PASSWORD"],
        }
        return str(self.ask("POST", "/auth/token", told)["access_token"])

    def check(self) -> None:
        self._composition.check()


class Prefect:
    """Prefect's API of the composition.

    Args:
        running: the composition.
    """

    def __init__(self, running: Composition) -> None:
        self._composition = running
        self._url = f"http://{LOOPBACK}:{running.machine.ports['prefect-server']}/api"
        secret = running.machine.secrets["PREFECT_AUTH"]
        self._login = f"Basic {base64.b64encode(secret.encode()).decode()}"

    def ask(self, method: str, path: str, doc: Any = None) -> Any:
        return get(f"{self._url}{path}", method, doc, self._login)

    def run(self, deployment: str) -> dict[str, Any]:
        """Asks for a run of a deployment, and waits for its end."""
        id = self.ask("GET", f"/deployments/name/{deployment}")["id"]
        run = self.ask("POST", f"/deployments/{id}/create_flow_run", {})
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            self._composition.check()
            found: dict[str, Any] = self.ask("GET", f"/flow_runs/{run['id']}")
            if found["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
                return found
            time.sleep(0.5)
        raise AssertionError(f"{deployment} did not end: {found['state']}")


def get(url: str, method: str = "GET", doc: Any = None, login: str | None = None) -> Any:
    """The answer of a service as JSON or text."""
    headers = {"Content-Type": "application/json", **({"Authorization": login} if login else {})}
    data = json.dumps(doc).encode() if doc is not None else None
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
        is_json = answer.headers.get_content_type() == "application/json"
    return json.loads(text) if is_json else text


def refused(url: str, *arguments: Any) -> int:
    """The code with which a service refuses a request."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(url, *arguments)
    caught.value.close()
    return caught.value.code


@pytest.fixture(scope="module")
def running() -> Iterator[Composition]:
    """All services, up and well; a dataset more in the mounted folder."""
    assert COMPOSE is not None
    with composition(COMPOSE, {"lines.toml": LINES_TABLE, "lines.py": LINES}) as found:
        found.up()
        yield found


@pytest.fixture(scope="module")
def driver(running: Composition) -> Driver:
    return Driver(Airflow(running))


@pytest.fixture(scope="module")
def catalog(running: Composition) -> Iterator[Catalog]:
    """The catalog in PostgreSQL, as the services use it."""
    machine = running.machine
    address = f"{LOOPBACK}:{machine.ports['postgres']}/provender"
    password = machine.secrets["PROVENDER_DB_PASSWORD"]
    with Catalog.open(f"postgresql+psycopg://provender:{password}@{address}") as found:
        yield found


@pytest.fixture(scope="module")
def through_airflow(running: Composition, driver: Driver) -> str:
    """The id of a run of the DAG of Digits that came to its end."""

    def known() -> bool:
        return any(each["dag_id"] == DAG for each in driver.ask("GET", "/dags")["dags"])

    driver.until(known, "the DAG of Digits")
    # Airflow's default: a new DAG waits until a person turns it on.
    driver.ask("PATCH", f"/dags/{DAG}", {"is_paused": False})
    return driver.ended(DAG, driver.trigger(DAG, workers=4))


@pytest.fixture(scope="module")
def through_prefect(running: Composition) -> dict[str, Any]:
    """A run of the deployment of the dataset that was added."""
    found = Prefect(running).run("prepare-dataset/lines")
    assert found["state_type"] == "COMPLETED", found["state"]
    return found


def stored(running: Composition, name: str) -> dict[str, int]:
    """Name -> size of the files of a version on the store, as the store's server tells them."""
    url = f"http://{LOOPBACK}:{running.machine.ports['gcs']}/storage/v1/b/provender/o"
    prefix = f"store/datasets/{name}/1.0.0/"
    found = get(f"{url}?prefix={prefix}").get("items", [])
    return {each["name"].removeprefix(prefix): int(each["size"]) for each in found}


def run_of(catalog: Catalog, dataset: str, outcome: str, /, **orchestrator: str) -> RunRecord:
    """The one run of a dataset that an orchestrator's ids name."""
    [found] = [
        each
        for each in catalog.runs(dataset)
        if each.orchestrator and orchestrator.items() <= each.orchestrator.items()
    ]
    assert found.outcome == outcome
    return found


def test_airflow_builds_a_dataset(
    running: Composition, driver: Driver, catalog: Catalog, through_airflow: str
) -> None:
    version = catalog.version("digits", "", "1.0.0")
    assert version is not None and version.status == "published"
    assert version.uri == "gs://provender/store/datasets/digits/1.0.0"
    shards = {each.name: each.size for each in catalog.shards(version.id)}
    assert shards and shards.items() <= stored(running, "digits").items()
    ids = {"name": "airflow", "dag_id": DAG, "run_id": through_airflow}
    run = run_of(catalog, "digits", "succeeded", **ids)
    assert version.run_id == run.id
    made = catalog.stages(dataset="digits")
    assert {each.run_id for each in made} == {run.id}
    assert {each.state for each in made} == {"succeeded"}
    edges = catalog.lineage(version.id)
    assert {each.id for each in made if each.stage == "shards"} <= {each.id for each in edges.nodes}
    logs = [running.services[f"airflow-worker-{n}"].log.read_text() for n in (1, 2)]
    done = [each.count("succeeded in") for each in logs]
    assert min(done) > 0, f"both workers worked: {done}"


def test_airflow_shows_logs_and_lineage(
    driver: Driver, running: Composition, through_airflow: str
) -> None:
    place = f"/dags/{DAG}/dagRuns/{through_airflow}/taskInstances"
    told = driver.ask("GET", f"{place}/download")
    log = driver.ask("GET", f"{place}/download/logs/{told['try_number']}")["content"]
    assert "download: begins" in json.dumps(log), log
    told = driver.airflow.ask("GET", "/provender/api/datasets/digits", token=driver.token)
    assert [each["version"] for each in told["versions"]["items"]] == ["1.0.0"]


def test_prefect_builds_a_dataset(
    running: Composition, catalog: Catalog, through_prefect: dict[str, Any]
) -> None:
    version = catalog.version("lines", "", "1.0.0")
    assert version is not None and version.status == "published"
    assert {each.name for each in catalog.shards(version.id)} <= set(stored(running, "lines"))
    assert {split.name: split.examples for split in version.splits} == {"train": 200}
    ids = {"name": "prefect", "flow_run_id": through_prefect["id"]}
    run = run_of(catalog, "lines", "succeeded", **ids)
    assert run.orchestrator
    assert run.orchestrator["deployment_id"] == through_prefect["deployment_id"]
    assert {each.run_id for each in catalog.stages(dataset="lines")} == {run.id}


def test_prefect_finds_what_airflow_built(
    running: Composition, catalog: Catalog, through_airflow: str
) -> None:
    before = len(catalog.stages(dataset="digits"))
    again = Prefect(running).run("prepare-dataset/digits")
    assert again["state"]["name"] == "Cached", again["state"]
    run_of(catalog, "digits", "cached", name="prefect", flow_run_id=again["id"])
    assert len(catalog.stages(dataset="digits")) == before


def test_the_files_are_what_the_catalog_says(
    running: Composition, through_airflow: str, through_prefect: dict[str, Any]
) -> None:
    for name in ("digits", "lines"):
        done = running.run("prefect-worker", "provender", "verify", name)
        assert done.returncode == 0 and "1.0.0" in done.stdout, f"{done.stdout}\n{done.stderr}"


def test_the_pages_need_the_token(
    running: Composition, through_airflow: str, through_prefect: dict[str, Any]
) -> None:
    url = f"http://{LOOPBACK}:{running.machine.ports['ui']}"
    login = f"Bearer {running.machine.secrets['PROVENDER_UI_TOKEN']}"
    for path in ("/", "/api/datasets", "/metrics"):
        assert refused(f"{url}{path}") == 401
    page = get(f"{url}/", login=login)
    assert "digits" in page and "lines" in page
    assert through_airflow in get(f"{url}/runs", login=login)
    assert "provender_versions" in get(f"{url}/metrics", login=login)


def test_nothing_is_open_without_its_secret(running: Composition) -> None:
    ports = running.machine.ports
    assert refused(f"http://{LOOPBACK}:{ports['airflow-api']}/api/v2/dags") == 401
    wanted = f"http://{LOOPBACK}:{ports['prefect-server']}/api/deployments/filter"
    assert refused(wanted, "POST", {}) == 401
    with socket.create_connection((LOOPBACK, ports["redis"]), 10) as redis:
        redis.sendall(b"PING\r\n")
        assert redis.recv(100).startswith(b"-NOAUTH")


def test_all_services_are_still_well(
    running: Composition, through_airflow: str, through_prefect: dict[str, Any]
) -> None:
    for name, each in running.services.items():
        if not each.ends:
            assert each.check(), f"{name}: {each.said()}"
            assert each.memory() < each.memory_limit, name


def test_a_worker_is_not_well_because_another_one_is(running: Composition) -> None:
    check = ["python", "/opt/provender/deploy/takes_tasks.py"]
    done = running.run("airflow-worker-1", *check, "worker-2@provender")
    assert (done.returncode, done.stderr) == (0, "")
    done = running.run("airflow-worker-1", *check, "worker-3@provender")
    assert (done.returncode, done.stderr) == (1, "")


def test_no_secret_is_in_a_log(running: Composition, through_airflow: str) -> None:
    texts = {path: path.read_text(errors="replace") for path in _logs(running)}
    for name, secret in running.machine.secrets.items():
        if not name.endswith("_PORT"):
            assert not [path for path, text in texts.items() if secret in text], name


def _logs(running: Composition) -> list[Path]:
    own = running.machine.folder / "logs"
    airflow = running.machine.inside("/var/lib/provender/airflow/logs")
    return [path for folder in (own, airflow) for path in folder.rglob("*") if path.is_file()]


def test_nothing_was_written_where_it_is_lost(running: Composition, through_airflow: str) -> None:
    """Beside the volumes: mounts are read-only, the rest is gone when a container is made anew."""
    now = {path for path in running.machine.files() if path.suffix != ".pyc"}
    assert sorted(map(str, now - running.machine.delivered)) == []


def test_all_of_it_ends(running: Composition, catalog: Catalog) -> None:
    """Last: by the signal that Compose sends, in the time that the file grants, without a trace."""
    catalog.close()
    running.down()
    assert [name for name, each in running.services.items() if each.killed] == []
    assert [(each.pid, each.cmdline()) for each in running.left_behind()] == []
    for name in LISTENS:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, running.machine.ports[name]), 5).close()
    check = "/opt/provender/deploy/takes_tasks.py"
    done = running.run("airflow-worker-1", "python", check, "worker-1@provender")
    assert done.returncode == 1 and "Connection refused" in done.stderr
