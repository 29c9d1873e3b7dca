"""A real scheduler and API server: a dataset on request, a model on its event, a worker killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.orchestration.airflow_e2e.driving import PASSWORD, Driver, prepared
from tests.orchestration.airflow_e2e.walking import walking
from tests.ui.serving import CHROMIUM, WHY_NOT

from provender.api import build
from provender.catalog import Catalog, StageRecord
from provender.questions import Questions
from provender.settings import load_settings

pytestmark = pytest.mark.timeout(900)

QUICKLY = {
    # A worker that is gone is missed after so many seconds without a sign of life.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with prepared(tmp_path_factory.mktemp("airflow") / "project", QUICKLY) as airflow:
        airflow.start("scheduler")
        airflow.wait("scheduler")
        yield Driver(airflow)


@pytest.fixture(scope="module")
def catalog(driver: Driver) -> Iterator[Catalog]:
    with Catalog.open(driver.airflow.project / "store" / "catalog.db") as found:
        yield found


@pytest.fixture(scope="module")
def digits(driver: Driver) -> str:
    """A run of the DAG of Digits."""
    return driver.trigger("provender_digits", workers=2)


@pytest.mark.slow
def test_a_killed_worker_costs_a_retry_and_not_a_byte(
    driver: Driver, catalog: Catalog, digits: str, tmp_path: Path
) -> None:
    run_id = driver.trigger("provender_heavy", workers=1)
    shard = driver.until(lambda: _at_work(catalog), "a task that writes a shard", 0.002)
    _kill_with_its_worker(shard.pid)
    driver.ended("provender_heavy", run_id)
    tries = {
        each["map_index"]: each["try_number"]
        for each in driver.tasks("provender_heavy", run_id)
        if each["task_id"] == "write_shards"
    }
    assert sorted(tries.values()) == [1, 2] and tries[int(shard.key[-5:])] == 2
    version = catalog.version("heavy", "", "1.0.0")
    assert version is not None
    settings = load_settings(file=driver.airflow.project / "provender.toml", store=str(tmp_path))
    twin = build("heavy", settings=settings).version
    with Catalog.open(tmp_path / "catalog.db") as other:
        told = {each.name: each.sha256 for each in other.shards(twin.id)}
    assert {each.name: each.sha256 for each in catalog.shards(version.id)} == told
    for name in told:
        mine, theirs = Path(version.uri) / name, Path(twin.uri) / name
        assert mine.read_bytes() == theirs.read_bytes()


def _at_work(catalog: Catalog) -> StageRecord | None:
    found = catalog.stages(dataset="heavy", key="shards", state="running", limit=1)
    return found[0] if found else None


def _kill_with_its_worker(pid: int) -> None:
    worker = psutil.Process(pid).parent()
    assert worker is not None and "LocalExecutor" in " ".join(worker.cmdline())
    for each in (pid, worker.pid):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def test_a_version_is_announced_and_a_model_is_trained_on_it(
    driver: Driver, catalog: Catalog, digits: str
) -> None:
    driver.ended("provender_digits", digits)
    assert set.union(*driver.states("provender_digits", digits).values()) == {"success"}
    # Airflow 3.3.2 cannot tell of an event (500) while the run that it caused is not begun.
    trained = driver.ended("train_digits")
    [event] = driver.events("provender_digits", "digits")
    [reason] = driver.ask("GET", f"/dags/train_digits/dagRuns/{trained}/upstreamAssetEvents")[
        "asset_events"
    ]
    version = catalog.version("digits", "", "1.0.0")
    assert version is not None
    assert event["extra"]["fingerprint"] == reason["extra"]["fingerprint"] == version.fingerprint
    made = driver.ask(
        "GET", f"/dags/train_digits/dagRuns/{trained}/taskInstances/train/xcomEntries/return_value"
    )["value"]
    assert made["trained_on"] == "digits:1.0.0" and made["accuracy"] > 0.4
    assert Path(made["model"]).is_file()
    read = Questions(catalog).consumed_by(f"train_digits/{trained}")
    assert {each.name for each in read} == {"digits:1.0.0"}
    assert {split for each in read for split in each.splits} == {"train", "test"}
    assert {each.facts["position"]["checkpoint"] for each in read} == {made["model"]}
    [model] = driver.events("train_digits", "digits_model")
    assert model["extra"]["trained_on"] == "digits:1.0.0"


@pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
@pytest.mark.slow
def test_people_see_it_in_a_browser(driver: Driver, catalog: Catalog, digits: str) -> None:
    trained = driver.ended("train_digits")
    again = driver.trigger("provender_digits", workers=2)
    driver.ended("provender_digits", again)
    with walking(driver.airflow.url, "admin", PASSWORD) as walk:
        assert "digits:1.0.0" in _text(walk.run("provender_digits", digits))
        cached = walk.task("provender_digits", again, "write_shards", 0)
        assert "cached" in _text(cached) and "shards/train/00000" in _text(cached)
        cached.get_by_role("link", name="lineage", exact=True).first.click()
        cached.locator("svg.graph").wait_for()
        assert "digits" in _text(cached)
        walk.page.get_by_text("train-00000 [cached]").first.wait_for()
        assert f"train_digits/{trained}" in _text(walk.dag("train_digits"))
        pages = walk.frame("/plugin/provender-nav")
        pages.get_by_role("link", name="digits", exact=True).click()
        pages.get_by_role("heading", name="digits").wait_for()
        form = walk.form("provender_digits")
        for field in ("Version", "Folder of manual files", "Parts of a split", "Dry run", "Note"):
            form.get_by_text(field).first.wait_for()
        assert walk.elsewhere == []


def _text(frame: Any) -> str:
    return str(frame.locator("main").inner_text())
