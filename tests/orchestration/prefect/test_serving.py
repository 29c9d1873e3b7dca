"""The deployments: what is registered, with which schedules, what is refused, what is served."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.orchestration.prefect.conftest import Place, make_place

from provender.errors import SettingsError
from provender.settings import load_settings

ROOT = Path(__file__).parents[3]
STEP = "prefect.deployments.steps.set_working_directory"

SCHEDULED = """
[datasets.lines.prefect]
schedule = "0 3 * * *"
timezone = "Europe/Berlin"
tags = ["text"]
notes = "Numbered lines."
"""


def test_deployments_follow_the_project(tmp_path) -> None:
    from provender.orchestration.prefect.deploying import deployments

    place = make_place(tmp_path, SCHEDULED + "[datasets.digits.prefect]\nenabled = false\n")
    made = deployments(place.settings)
    assert made.problems == ()
    found = {f"{each.flow_name}/{each.name}": each for each in made.found}
    assert set(found) == {
        "prepare-dataset/any", "prepare-dataset/lines",
        "backfill/any", "refresh-all/all", "retention/store",
    }  # fmt: skip
    lines = found["prepare-dataset/lines"]
    assert lines.parameters["dataset"] == "lines" and lines.description == "Numbered lines."
    assert lines.tags == ["provender", "text"]
    [each] = lines.schedules
    assert (each.schedule.cron, each.schedule.timezone) == ("0 3 * * *", "Europe/Berlin")


BROKEN = """
[datasets.key]
builder = "lines.py:Lines"
[datasets.key.prefect]
notez = "?"

[datasets.cron]
builder = "lines.py:Lines"
[datasets.cron.prefect]
schedule = "at night"

[datasets.zone]
builder = "lines.py:Lines"
[datasets.zone.prefect]
schedule = "0 3 * * *"
timezone = "Europe/Berlim"

[datasets.any]
builder = "lines.py:Lines"

["datasets"."no/name"]
builder = "lines.py:Lines"
"""


def test_a_broken_table_costs_its_own_deployment_and_says_where(tmp_path) -> None:
    from provender.orchestration.prefect.deploying import deployments

    place = make_place(tmp_path, SCHEDULED + BROKEN)
    made = deployments(load_settings(file=place.file, only=()))
    assert {each.name for each in made.found} == {"any", "lines", "all", "store"}
    lines = [*Path(place.file).read_text().splitlines()]
    said = [str(each) for each in made.problems]
    for table, key, words in (
        ("key.prefect", 'notez = "?"', ("'notez'", "'notes'")),
        ("cron.prefect", 'schedule = "at night"', ("'at night'",)),
        ("zone.prefect", 'timezone = "Europe/Berlim"', ("'Europe/Berlim'",)),
        ("any", "[datasets.any]", ("prepare-dataset/any",)),
        ("no/name.prefect", '["datasets"."no/name"]', ("'no/name'",)),
    ):
        where = f"{place.file}, line {lines.index(key) + 1}, [datasets.{table}]"
        [text] = [each for each in said if where in each]
        assert all(word in text for word in words)
    assert len(said) == 5


def test_an_unknown_key_names_the_nearest_one(tmp_path) -> None:
    place = make_place(tmp_path, SCHEDULED.replace("timezone", "time_zone"))
    with pytest.raises(SettingsError, match="time_zone") as caught:
        load_settings(file=place.file)
    assert "timezone" in str(caught.value) and "line" in str(caught.value)


def serve(place: Place, server: str, *options: str, **environ: str) -> subprocess.Popen[str]:
    program = "from provender.cli import main; main()"
    command = [sys.executable, "-c", program, "serve-flows", *options]
    return place.start(server, *command, PROVENDER_TASK_RUNNER="threads:2", **environ)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("prepare-dataset/lines", {"num_shards": "x"}, "num_shards"),
    ("prepare-dataset/lines", {"force": ["shard"]}, "force"),
    ("prepare-dataset/lines", {"max_tasks": 0}, "max_tasks"),
    ("prepare-dataset/any", {}, "dataset"),
    ("backfill/any", {"dataset": "x", "first": "a", "last": "b", "every": "fortnight"}, "every"),
    ("retention/store", {"apply": "perhaps"}, "apply"),
]


def asked(client: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
    """The answer; a server whose SQLite is busy says 503, and wants to be asked again."""
    for _ in range(30):
        answer = client.request(method, path, **options)
        if answer.status_code != 503:
            break
        time.sleep(1)
    return answer


def test_what_is_served_can_be_run_from_the_server(server, tmp_path) -> None:
    place = make_place(tmp_path, SCHEDULED + BROKEN)
    process = serve(place, server)
    assert process.stdout is not None
    try:
        said = [process.stdout.readline() for _ in range(6)]
        assert "as configured" in said[0] and "  prepare-dataset/lines\n" in said
        with httpx.Client(base_url=server, timeout=30) as client:
            found = asked(client, "GET", "/deployments/name/prepare-dataset/lines").json()
            assert found["parameter_openapi_schema"]["properties"]["num_shards"]["description"]
            for name, parameters, key in REFUSED:
                one = asked(client, "GET", f"/deployments/name/{name}").json()
                path = f"/deployments/{one['id']}/create_flow_run"
                refused = asked(client, "POST", path, json={"parameters": parameters})
                assert refused.status_code in (409, 422) and key in refused.text
            path = f"/deployments/{found['id']}/create_flow_run"
            run = asked(client, "POST", path, json={"parameters": {}}).raise_for_status().json()
            deadline = time.monotonic() + 200
            while run["state_type"] not in ("COMPLETED", "FAILED", "CRASHED"):
                assert time.monotonic() < deadline, run["state"]
                time.sleep(0.5)
                run = asked(client, "GET", f"/flow_runs/{run['id']}").raise_for_status().json()
            limits = asked(client, "GET", "/concurrency_limits/tag/provender-download").json()
        assert run["state"]["name"] == "Completed", run["state"]["message"]
        assert limits["concurrency_limit"] == 4
        with place.catalog() as catalog:
            assert catalog.runs()[0].orchestrator["deployment_id"] == found["id"]
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert len(place.shards()) == 6
    assert errors.count("Not served: ") == 5 and "[datasets.cron.prefect]" in errors


def test_a_server_for_others_needs_a_password(tmp_path) -> None:
    place = make_place(tmp_path)
    process = serve(place, "", "--host", "0.0.0.0", "--json", PREFECT_API_AUTH_STRING="")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    error: dict[str, Any] = json.loads(out)["error"]
    assert "let everyone in" in error["message"]
    assert "PREFECT_SERVER_API_AUTH_STRING" in error["hint"]


@pytest.mark.slow
def test_prefect_deploy_registers_all_with_their_schedules(server, place) -> None:
    def run(*command: str) -> None:
        process = place.start(
            server, sys.executable, "-m", "prefect", "--no-prompt", *command,
            PROVENDER_FLOWS=str(ROOT),
        )  # fmt: skip
        out, errors = process.communicate(timeout=200)
        assert process.returncode == 0, out + errors

    for name in ("prefect.yaml", "flows"):
        (place.root / name).symlink_to(ROOT / name)
    run("work-pool", "create", "provender", "--type", "process")
    run("deploy", "--all")
    with httpx.Client(base_url=server, timeout=30) as client:
        for name, cron, asked in (
            ("prepare-dataset/any", None, {"dataset": 3}),
            ("backfill/any", None, {"dataset": "news", "first": "2026-11-01"}),
            ("refresh-all/nightly", "0 2 * * *", {"max_tasks": "many"}),
            ("retention/weekly", "0 4 * * 0", {"grace_days": -1}),
        ):
            found = client.get(f"/deployments/name/{name}").json()
            assert found["work_pool_name"] == "provender" and "provender" in found["tags"]
            assert found["pull_steps"][0][STEP]["directory"] == str(ROOT)
            crons = [each["schedule"]["cron"] for each in found["schedules"] if each["active"]]
            assert crons == ([cron] if cron else [])
            path = f"/deployments/{found['id']}/create_flow_run"
            assert client.post(path, json={"parameters": asked}).status_code in (409, 422)


@pytest.mark.slow
def test_the_server_makes_runs_of_a_schedule(api, tmp_path) -> None:
    from provender.orchestration.prefect.deploying import deployments

    made = deployments(make_place(tmp_path, SCHEDULED).settings).found
    [lines] = [each for each in made if each.name == "lines"]
    with httpx.Client(base_url=api, timeout=30) as client:
        assert planned(client, str(lines.apply())), (
            "Prefect's scheduler fails beside SQLAlchemy 2.1"
        )


def planned(client: httpx.Client, deployment: str) -> list[dict[str, Any]]:
    """The runs that the server's scheduler has made of a schedule; it looks every few seconds."""
    asked = {"deployments": {"id": {"any_": [deployment]}}}
    for _ in range(60):
        found = client.post("/flow_runs/filter", json=asked).raise_for_status().json()
        if found:
            break
        time.sleep(0.5)
    assert all(each["state"]["type"] == "SCHEDULED" and each["auto_scheduled"] for each in found)
    return list(found)
