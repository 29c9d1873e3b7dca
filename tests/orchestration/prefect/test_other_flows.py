"""The flows over the whole project, and what is served."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import httpx
import pytest
from tests.orchestration.prefect.conftest import Place, make_place

from provender.errors import (
    SettingsError,
)
from provender.settings import load_settings

SCHEDULED = """
[datasets.lines.prefect]
schedule = "0 3 * * *"
timezone = "Europe/Berlin"
tags = ["text"]
notes = "Numbered lines."
"""


def test_one_dataset_that_fails_stops_no_other(api, tmp_path) -> None:
    from provender.orchestration.prefect import refresh_all

    place = make_place(tmp_path, '\n[datasets.broken]\nbuilder = "nowhere.py:Lines"\n')
    text = (tmp_path / "provender.toml").read_text()
    (tmp_path / "provender.toml").write_text(text.replace("[datasets.lines]", "[datasets.zlines]"))
    state = refresh_all(config_file=place.file, return_state=True)
    assert state.is_failed() and "1 of 2 failed: broken" in state.message
    good = refresh_all(only=["zlines"], config_file=place.file, return_state=True)
    assert good.name == "Cached", "the run before had built it"
    bad = refresh_all(only=["other"], config_file=place.file, return_state=True)
    assert bad.is_failed() and "other" in str(bad.result(raise_on_failure=False))


def test_retention_lists_and_then_removes(api, place) -> None:
    from provender.orchestration.prefect import prepare_dataset, retention

    prepare_dataset("lines", config_file=place.file, max_examples=10)
    listed = retention(grace_days=0, config_file=place.file)
    assert not listed["applied"] and "version" in {each["kind"] for each in listed["items"]}
    assert list((place.root / "store" / "trials").glob("**/*.tfrecord*"))
    removed = retention(apply=True, grace_days=0, config_file=place.file)
    assert removed["applied"] and removed["run"]
    assert not list((place.root / "store" / "trials").glob("**/*.tfrecord*"))


def test_deployments_follow_the_project(tmp_path) -> None:
    from provender.orchestration.prefect.deploying import deployments

    place = make_place(tmp_path, SCHEDULED + "[datasets.digits.prefect]\nenabled = false\n")
    found = {f"{each.flow_name}/{each.name}": each for each in deployments(place.settings)}
    assert set(found) == {
        "prepare-dataset/any", "prepare-dataset/lines",
        "backfill/any", "refresh-all/all", "retention/store",
    }  # fmt: skip
    lines = found["prepare-dataset/lines"]
    assert lines.parameters["dataset"] == "lines" and lines.description == "Numbered lines."
    assert lines.tags == ["provender", "text"]
    [each] = lines.schedules
    assert (each.schedule.cron, each.schedule.timezone) == ("0 3 * * *", "Europe/Berlin")


def test_a_schedule_that_is_none_is_told_with_its_dataset(tmp_path) -> None:
    from provender.orchestration.prefect.deploying import deployments

    place = make_place(tmp_path, SCHEDULED.replace("0 3 * * *", "at night"))
    with pytest.raises(SettingsError, match="at night") as caught:
        deployments(place.settings)
    assert "[datasets.lines.prefect]" in str(caught.value)


def test_an_unknown_key_names_the_nearest_one(tmp_path) -> None:
    place = make_place(tmp_path, SCHEDULED.replace("timezone", "time_zone"))
    with pytest.raises(SettingsError, match="time_zone") as caught:
        load_settings(file=place.file)
    assert "timezone" in str(caught.value) and "line" in str(caught.value)


def serve(place: Place, server: str, *options: str, **environ: str) -> subprocess.Popen[str]:
    program = "from provender.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, "serve-flows", *options],
        cwd=place.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "HOME": str(place.root / "home"), "PREFECT_API_URL": server, **environ},
    )  # fmt: skip


def test_what_is_served_can_be_run_from_the_server(server, tmp_path) -> None:
    place = make_place(tmp_path, SCHEDULED)
    process = serve(place, server)
    assert process.stdout is not None
    try:
        said = [process.stdout.readline() for _ in range(6)]
        assert "as configured" in said[0] and "  prepare-dataset/lines\n" in said
        with httpx.Client(base_url=server, timeout=30) as client:
            found = client.get("/deployments/name/prepare-dataset/lines").json()
            assert found["parameter_openapi_schema"]["properties"]["num_shards"]["description"]
            path = f"/deployments/{found['id']}/create_flow_run"
            refused = client.post(
                path, json={"parameters": {"dataset": "lines", "num_shards": "x"}}
            )
            assert refused.status_code in (409, 422) and "num_shards" in refused.text
            run = client.post(path, json={"parameters": {}}).json()
            deadline = time.monotonic() + 150
            while run["state_type"] not in ("COMPLETED", "FAILED", "CRASHED"):
                assert time.monotonic() < deadline, run["state"]
                time.sleep(0.5)
                run = client.get(f"/flow_runs/{run['id']}").json()
            limits = client.get("/concurrency_limits/tag/provender-download").json()
        assert run["state"]["name"] == "Completed", run["state"]["message"]
        assert limits["concurrency_limit"] == 4
        with place.catalog() as catalog:
            assert catalog.runs()[0].orchestrator["deployment_id"] == found["id"]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert len(place.shards()) == 6


def test_a_server_for_others_needs_a_password(tmp_path) -> None:
    place = make_place(tmp_path)
    process = serve(place, "", "--host", "0.0.0.0", "--json", PREFECT_API_AUTH_STRING="")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    error: dict[str, Any] = json.loads(out)["error"]
    assert "let everyone in" in error["message"]
    assert "PREFECT_SERVER_API_AUTH_STRING" in error["hint"]
