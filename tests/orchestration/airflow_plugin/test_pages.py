"""The pages in Airflow: who gets in, who sees what, what the tabs show."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.orchestration.airflow.conftest import AirflowProject, Run
from tests.orchestration.airflow_plugin.conftest import Airflow, token

from provender.catalog import Catalog
from provender.catalog.orchestrated import run_id_of
from provender.orchestration.airflow.names import orchestrator

ROW = re.compile('<th scope="row">(.*?)</th>')
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e"


class Tags(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def catalog_of(project: AirflowProject) -> Catalog:
    return Catalog.open(project.root / "store" / "catalog.db")


def task_page(run: Run, task_id: str, **more: Any) -> str:
    asked = urlencode({"run_id": run.run.run_id, "task_id": task_id, **more})
    return f"/provender/dag/{run.run.dag_id}/task?{asked}"


def give_to_team(dag_id: str, team: str) -> None:
    """Has a DAG belong to a team, as its bundle does in a deployment with several teams."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.team import Team
    from airflow.utils.session import create_session

    with create_session() as session:
        bundle = DagBundleModel(name=f"of {team}")
        bundle.teams.append(Team(name=team))
        session.add(bundle)
        session.flush()
        session.merge(DagModel(dag_id=dag_id, bundle_name=bundle.name))


def test_nobody_passes_without_airflows_login(site: Airflow) -> None:
    stranger = site.visitor(None)
    for path in ("/", "/api/datasets", "/static/icon.svg", "/dag/provender_x", "/nowhere"):
        answer = stranger.get(f"/provender{path}")
        assert (answer.status_code, "Sign in" in answer.text) == (401, True), path
    assert stranger.post("/provender/login", data={"token": "x"}).status_code == 401
    stranger.cookies["_token"] = "made up"
    assert stranger.get("/provender/").status_code == 403
    program = site.visitor(None)
    bearer = {"Authorization": f"Bearer {token('viewer')}"}
    assert program.get("/provender/static/icon.svg", headers=bearer).status_code == 200


def test_the_pages_are_there_and_may_be_framed_by_airflow_alone(
    site: Airflow, project: AirflowProject
) -> None:
    project.run(project.dataset("paged"))
    viewer = site.visitor()
    answer = viewer.get("/provender/")
    assert answer.status_code == 200 and "/provender/datasets/paged" in answer.text
    assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert "x-frame-options" not in answer.headers
    found = re.findall(r'(?:href|src|action)="([^"]*)"', answer.text)
    assert found and not [each for each in found if not each.startswith(("/provender/", "#"))]
    assert viewer.get("/provender/datasets/paged").status_code == 200


def test_tabs_lead_to_what_was_built_and_what_was_reused(
    site: Airflow, project: AirflowProject
) -> None:
    dag = project.dataset("tabbed", more="num_shards = 2")
    first, second = project.run(dag), project.run(dag)
    viewer = site.visitor()
    assert viewer.get(f"/provender/dag/{dag}").headers["location"] == "/provender/datasets/tabbed"
    ids = [run_id_of(orchestrator(dag, each.run.run_id)) for each in (first, second)]
    page = f"/provender/dag/{dag}/run?run_id={quote(second.run.run_id)}"
    assert viewer.get(page).headers["location"] == f"/provender/runs/{ids[1]}"
    with catalog_of(project) as catalog:
        [execution] = catalog.stages(run_id=ids[0], key="shards/train/00001")

    ran = viewer.get(task_page(first, "write_shards", map_index=1)).text
    cached = viewer.get(task_page(second, "write_shards", map_index=1)).text
    assert "train-00001" in ran and "shards/train/00000" not in ran + cached
    for text in (ran, cached):
        assert f"/provender/stages/{execution.id}" in text
        assert f"/provender/lineage/{execution.id}" in text
    assert "chip succeeded" in ran and f'by run <a href="/provender/runs/{ids[0]}' not in ran
    assert "chip cached" in cached and f'by run <a href="/provender/runs/{ids[0]}' in cached
    assert "tabbed:1.0.0" in cached


@pytest.mark.parametrize(
    ("task", "stages"),
    [
        ("check_manual", []),
        ("plan_splits", ["splits"]),
        ("encode_examples", ["examples/test/part-0-of-2", "examples/train/part-1-of-2"]),
        ("plan_shards", ["examples/test", "examples/train"]),
        ("write_shards", ["shards/test/00000", "shards/train/00000"]),
        ("register", ["register"]),
        ("publish", ["register"]),
    ],
)
def test_each_task_names_its_stages(
    site: Airflow, project: AirflowProject, spread: Run, task: str, stages: list[str]
) -> None:
    page = site.visitor().get(task_page(spread, task, map_index="{MAP_INDEX}"))
    assert page.status_code == 200
    found = [re.sub("<[^>]*>", "", row) for row in ROW.findall(page.text)]
    assert set(stages) <= set(found)
    if task not in ("encode_examples", "write_shards"):
        assert found == stages
    without_run = f"/provender/dag/{spread.run.dag_id}/task?task_id={task}"
    assert site.visitor().get(without_run).status_code == 200


@pytest.fixture(scope="module")
def spread(airflow: None) -> Run:
    from tests.orchestration.airflow.conftest import PROJECT

    project = AirflowProject(PROJECT)
    project.write(
        "provender.toml", 'store = "store"\nhome = "home"\ninclude = ["datasets/*.toml"]\n'
    )
    return project.run(project.dataset("spread"), workers=2)


def test_who_may_not_read_a_dag_sees_nothing_of_its_dataset(
    site: Airflow, project: AirflowProject
) -> None:
    project.run(project.dataset("open"))
    secret = project.run(project.dataset("secret"))
    dag = secret.run.dag_id
    give_to_team(dag, "red")
    run_id = run_id_of(orchestrator(dag, secret.run.run_id))
    with catalog_of(project) as catalog:
        version = catalog.version("secret", "", "1.0.0")
        [stage, *_] = catalog.stages(run_id=run_id)
    assert version is not None
    pages = [
        "/datasets/secret", f"/versions/{version.id}", f"/versions/{version.id}/examples",
        f"/lineage/{version.id}", f"/runs/{run_id}", f"/stages/{stage.id}",
        "/runs?dataset=secret", f"/dag/{dag}", f"/dag/{dag}/run?run_id={quote(secret.run.run_id)}",
        task_page(secret, "register").removeprefix("/provender"), "/api/datasets/secret",
    ]  # fmt: skip
    outsider, insider = site.visitor("viewer"), site.visitor("viewer", "red")
    for page in pages:
        assert outsider.get(f"/provender{page}").status_code == 403, page
        assert insider.get(f"/provender{page}").status_code in (200, 303), page
    assert site.visitor("admin").get("/provender/datasets/secret").status_code == 200
    for page in ("/", "/runs", "/search?q=secret", "/api/datasets", "/jobs"):
        text = outsider.get(f"/provender{page}").text
        assert "/datasets/secret" not in text and version.id not in text, page
    assert "/datasets/secret" in insider.get("/provender/").text
    # A DAG that one may read is no way to a run of one that one may not.
    other = f"/provender/dag/provender_open/run?run_id={quote(secret.run.run_id)}"
    assert outsider.get(other).status_code == 404


def test_a_dataset_under_another_name_belongs_to_the_dag_that_built_it(
    site: Airflow, project: AirflowProject
) -> None:
    project.dataset("plainname")
    project.write(
        "datasets/alias.toml", '[datasets.alias]\nbuilder = "../plainname_builder.py:Plainname"\n'
    )
    run = project.run("provender_alias")
    assert run.state == "success"
    give_to_team("provender_alias", "blue")
    viewer = site.visitor("viewer", "blue")
    assert viewer.get("/provender/dag/provender_alias").headers["location"].endswith("/plainname")
    assert site.visitor("viewer").get("/provender/datasets/plainname").status_code == 403


def test_a_dag_that_reads_is_shown_with_what_it_has_read(
    site: Airflow, project: AirflowProject
) -> None:
    project.run(project.dataset("readby"))
    with catalog_of(project) as catalog:
        version = catalog.version("readby", "", "1.0.0")
        assert version is not None
        catalog.record_consumption(version.id, "train_readby/x", splits=["train"])
        catalog.record_consumption(version.id, "eval_readby", splits=["test"])
    viewer = site.visitor()
    for page in ("/run?run_id=x", "/task?run_id=x&task_id=y"):
        answer = viewer.get(f"/provender/dag/train_readby{page}")
        assert answer.headers["location"] == "/provender/jobs?name=train_readby%2Fx"
        assert viewer.get(f"/provender/dag/idle{page}").status_code == 404
    by_name = viewer.get("/provender/dag/eval_readby")
    assert by_name.headers["location"] == "/provender/jobs?name=eval_readby"
    assert viewer.get("/provender/dag/idle").status_code == 404


def test_hostile_names_are_text(site: Airflow, project: AirflowProject) -> None:
    run_id = f"r{EVIL}"
    with catalog_of(project) as catalog:
        told = orchestrator("provender_evil", run_id)
        run = catalog.open_run(run_id_of(told), "build", EVIL, EVIL, EVIL, {EVIL: EVIL}, told)
        catalog.close_run(run.id, "failed", {"error": {"message": EVIL, "hint": EVIL}})
    viewer = site.visitor()
    asked = urlencode({"run_id": run_id, "task_id": EVIL, "map_index": EVIL})
    pages = [
        f"/dag/provender_evil/task?{asked}", f"/dag/{quote(EVIL, safe='')}",
        f"/dag/provender_evil/run?{asked}", "/runs", f"/runs/{run.id}",
        f"/dag/{quote(EVIL, safe='')}/task?{asked}",
    ]  # fmt: skip
    for page in pages:
        answer = viewer.get(f"/provender{page}", follow_redirects=True)
        assert answer.status_code in (200, 404) and "main" in answer.text
        tags = Tags(answer.text)
        assert tags.tags.count("script") == 1 and "img" not in tags.tags, page
        assert tags.handlers == [] and "\u202e" not in answer.text, page


def test_settings_that_make_no_sense_are_told_and_mended(
    airflow: None, project: AirflowProject
) -> None:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from provender.orchestration.airflow_plugin import plugin
    from provender.orchestration.airflow_plugin.entrance import Entrance

    outer = FastAPI()
    outer.mount("/provender", Entrance(plugin._make_app))
    client = TestClient(outer, cookies={"_token": token("viewer")})
    file = project.root / "provender.toml"
    good = file.read_text()
    file.write_text("store = <b>")
    answer = client.get("/provender/")
    assert answer.status_code == 503 and "provender.toml" in answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    file.write_text(good)
    assert client.get("/provender/").status_code in (200, 503)
    assert client.get("/provender/static/icon.svg").status_code == 200


def test_airflow_shows_the_tabs_and_the_link(site: Airflow, project: AirflowProject) -> None:
    admin = site.visitor("admin")
    plugins = admin.get("/api/v2/plugins").json()["plugins"]
    [found] = [each for each in plugins if each["name"] == "provender"]
    views = {each["destination"]: each["href"] for each in found["external_views"]}
    assert set(views) == {"nav", "dag", "dag_run", "task", "task_instance"}
    assert all(each.startswith("provender/") for each in views.values()), "below any root path"
    assert admin.get("/api/v2/plugins/importErrors").json()["total_entries"] == 0

    from airflow.models.taskinstancekey import TaskInstanceKey

    from provender.orchestration.airflow_plugin.plugin import PageLink

    run = project.run(project.dataset("linked"))
    key = TaskInstanceKey(run.run.dag_id, "write_shards", run.run.run_id, 1, 0)
    page = site.visitor().get(PageLink().get_link(None, ti_key=key))
    assert page.status_code == 200 and "shards/train/00000" in page.text
    assert PageLink().get_link(None, ti_key=key._replace(dag_id="other")) == ""


IMPORT = """
import airflow.plugins_manager, sys, time
before = set(sys.modules)
started = time.process_time()
from provender.orchestration.airflow_plugin.plugin import ProvenderPlugin
took = time.process_time() - started
new = set(sys.modules) - before
print(took < 1, sorted(new & {"fastapi", "jinja2", "tensorflow", "numpy", "provender.ui", "provender.catalog"}))
"""


def test_the_plugin_costs_other_processes_nothing(airflow: None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "True []"
