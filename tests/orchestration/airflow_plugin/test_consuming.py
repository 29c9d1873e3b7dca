"""Reading what was announced: the newest event, exactly its content, and a record of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.orchestration.airflow.conftest import AirflowProject

from provender.api import build, load
from provender.catalog import Catalog
from provender.errors import StoreError, UnknownReference
from provender.orchestration.airflow.assets import create_asset
from provender.orchestration.airflow.consuming import Announcement, announced, job_of, reading
from provender.settings import load_settings

RUN = SimpleNamespace(dag_id="train", run_id="manual__1")


def event(number: int) -> Any:
    name = f"digits:1.0.{number}"
    extra = {"name": name, "fingerprint": f"f{number}", "path": f"/{name}", "splits": {"train": 1}}
    return SimpleNamespace(extra=extra)


def test_the_newest_event_that_woke_the_run_counts(airflow: None) -> None:
    asset = create_asset(dataset="digits")
    inlets = {asset: [event(1), event(4)]}
    told = announced(asset, {asset: [event(2), event(3)]}, inlets)
    assert told == Announcement("digits:1.0.3", "f3", "/digits:1.0.3", {"train": 1})
    for nothing in (None, {}, {asset: []}):
        assert announced(asset, nothing, inlets).name == "digits:1.0.4", "a run by hand"
        with pytest.raises(UnknownReference, match="digits has been announced"):
            announced(asset, nothing, nothing)


def test_other_content_under_the_number_is_refused(project: AirflowProject) -> None:
    project.dataset("consumed")
    settings = load_settings(file=project.root / "provender.toml")
    version = build("consumed", settings=settings).version
    told = Announcement(version.name, version.fingerprint, version.uri, {})
    dag_file = project.root / "dags" / "mine.py"
    with reading(dag_file, told, job_of(RUN)) as (found, job):
        assert job == "train/manual__1"
        assert len(list(load(told.name, split="test", settings=found, job=job))) == 10
    with Catalog.open(settings.catalog) as catalog:
        [read] = catalog.readings(job=job)
        assert (read.name, read.splits) == ("consumed:1.0.0", ("test",))
    with pytest.raises(StoreError, match="is not what was announced"):
        with reading(dag_file, replace(told, fingerprint="0" * 40), job):
            raise AssertionError
    with pytest.raises(UnknownReference):
        with reading(dag_file, replace(told, name="consumed:2.0.0"), job):
            raise AssertionError
