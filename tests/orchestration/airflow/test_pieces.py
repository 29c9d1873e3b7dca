"""The DAG of a dataset that is cut by time, and DAGs that run once for each change of a dataset."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.orchestration.airflow.conftest import AirflowProject, Run
from tests.orchestration.airflow.test_runs import catalog_of, events_of

from provender.errors import SettingsError, UnknownReference
from provender.orchestration.airflow import announcing, asking, changed
from provender.orchestration.airflow.assets import changes_asset
from provender.orchestration.airflow.scheduling import timetable
from provender.registry import DagSettings, DatasetEntry

CUT = """

class NAME(NAME):
    PARTITIONED_BY = "day"

    def _split_generators(self, dl_manager):
        day = self.builder_config.start
        return {"train": self._days_examples(day.strftime("%j"))}

    def _days_examples(self, text):
        yield 0, {"text": text}
"""


def cut(project: AirflowProject, name: str, airflow: str = "") -> str:
    return project.dataset(name, CUT.replace("NAME", name.title()), airflow, 'partition = "day"')


def run_of(project: AirflowProject, dag_id: str, logical: datetime | None, **conf: Any) -> Run:
    return Run(project.dag(dag_id).test(run_conf=conf, logical_date=logical))


def keys_of(dataset: str) -> list[str]:
    """The partition keys of what was announced, oldest first, those of one moment by name."""
    import sqlalchemy as sa
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = (
            sa.select(AssetEvent.partition_key)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.name == changes_asset(dataset).name)
            .order_by(AssetEvent.source_run_id, AssetEvent.partition_key)
        )
        return [str(each) for each in session.scalars(query)]


def test_a_run_builds_the_day_that_its_interval_begins_in(
    project: AirflowProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = cut(project, "diary")
    when = datetime(2026, 3, 2, tzinfo=UTC)
    run = run_of(project, dag, when)
    assert run.state == "success" and run.run.data_interval_start == datetime(
        2026, 3, 1, tzinfo=UTC
    )
    assert run.labels("encode_examples") == ["2026-03-01 train [ran]"]
    [event] = events_of("diary")
    assert (event["name"], event["partition"]) == ("diary/2026-03-01:1.0.0", "2026-03-01")
    assert keys_of("diary") == ["2026-03-01"]

    asked = run_of(project, dag, when, partition="2026-02-28")
    assert asked.labels("encode_examples") == ["2026-02-28 train [ran]"]
    assert {each["partition"] for each in events_of("diary")} == {"2026-03-01", "2026-02-28"}

    # Another piece was announced last, and this one is known all the same.
    again = run_of(project, dag, datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC))
    assert again.labels("encode_examples") == ["2026-03-01 train [cached]"]
    assert again.states["publish"] == "skipped" and len(events_of("diary")) == 2
    with catalog_of(project) as catalog:
        assert {each.config for each in catalog.versions("diary")} == {"2026-02-28", "2026-03-01"}

    # Events are looked through page by page.
    monkeypatch.setattr(announcing, "_PAGE", 2)
    for _ in range(2):
        last = run_of(project, dag, when, partition="2026-02-27")
    assert last.states["publish"] == "skipped" and len(events_of("diary")) == 3


@pytest.mark.parametrize(
    ("grain", "asked", "begins", "run_after", "expected"),
    [
        ("day", "2026-02-28", datetime(2026, 3, 1), datetime(2026, 3, 2), "2026-02-28"),
        ("day", None, datetime(2026, 3, 1, 4), datetime(2026, 3, 2, 4), "2026-03-01"),
        ("day", "", None, datetime(2026, 3, 1, 9, 30), "2026-02-28"),
        ("hour", None, None, datetime(2026, 1, 1, 0, 30), "2025-12-31T23"),
        ("week", None, datetime(2026, 11, 24, 4), datetime(2026, 12, 1, 4), "2026-W48"),
        ("month", None, None, datetime(2026, 3, 31), "2026-02"),
        ("year", None, None, datetime(2026, 3, 31), "2025"),
    ],
)
def test_which_piece_a_run_is_about(grain, asked, begins, run_after, expected) -> None:
    assert asking.piece(grain, asked, begins, run_after) == expected


def test_a_day_that_does_not_exist_is_refused_and_the_nearest_is_named() -> None:
    with pytest.raises(SettingsError, match="'2026-02-30' names no day") as caught:
        asking.piece("day", "2026-02-30", None, datetime(2026, 3, 1))
    assert "Did you mean 2026-02-28?" in str(caught.value)


def test_the_form_asks_for_the_piece_and_refuses_what_is_none(project: AirflowProject) -> None:
    dag = project.dag(cut(project, "asked"))
    with pytest.raises(ValueError, match="does not match") as caught:
        dag.params.update({"partition": "30.11.2026"})
    assert "such as 2026-11-30" in str(caught.value)
    assert "partition" not in project.dag(project.dataset("whole")).params


@pytest.mark.parametrize(
    ("grain", "schedule"),
    [
        ("day", "0 4 * * *"),
        ("day", "0 6 * * 1-5"),
        ("day", "@daily"),
        ("week", "0 4 * * 2"),
        ("month", "30 2 3 * *"),
        ("month", "@quarterly"),
        ("hour", "5 * * * *"),
    ],
)
def test_schedules_that_suit_the_grain(airflow: None, grain: str, schedule: str) -> None:
    entry = DatasetEntry(partition=grain, airflow=DagSettings(schedule=schedule))
    made = timetable("news", entry)
    assert type(made).__name__ == "CronDataIntervalTimetable"


@pytest.mark.parametrize(
    ("grain", "schedule", "said"),
    [
        ("day", "0 */6 * * *", "twice in one day: 2026-01-01 06:00 and 2026-01-01 12:00"),
        ("day", "@hourly", "twice in one day"),
        ("month", "@weekly", "twice in one month"),
        ("day", "@once", "does not run day by day"),
        ("day", "daily", "no cron expression"),
    ],
)
def test_schedules_that_do_not(airflow: None, grain: str, schedule: str, said: str) -> None:
    entry = DatasetEntry(partition=grain, airflow=DagSettings(schedule=schedule))
    with pytest.raises(SettingsError, match=said) as caught:
        timetable("news", entry)
    assert "[datasets.news.airflow]" in str(caught.value)


def test_each_changed_split_is_announced_with_its_name(project: AirflowProject) -> None:
    dag = project.dataset("halves")
    assert project.run(dag).state == "success"
    assert keys_of("halves") == ["test", "train"]
    builder = project.root / "halves_builder.py"
    text = builder.read_text().replace('"test": 10', '"test": 11').replace("1.0.0", "1.1.0")
    builder.write_text(text)
    assert project.run(dag).state == "success"
    assert sorted(keys_of("halves")) == ["test", "test", "train"]
    assert events_of("halves")[-1]["changed_splits"] == ["test"]


BY_SPLIT = """
from types import SimpleNamespace
from airflow.sdk import DAG, task
from provender.orchestration.airflow import changed, on_each_change
from provender.orchestration.airflow.assets import changes_asset

with DAG("by_split", schedule=on_each_change("thirds")) as dag:
    @task(inlets=[changes_asset("thirds")])
    def one(dag_run=None, triggering_asset_events=None, inlet_events=None):
        # `DAG.test` knows no partition keys; those of a real scheduler are in the backfill's tests.
        run = SimpleNamespace(partition_key=dag_run.conf["key"], dag_id="by_split", run_id="r")
        found = changed("thirds", run, triggering_asset_events, inlet_events)
        return [found.version.name, found.key, found.split]
    one()
"""


def test_a_dag_that_runs_by_change_knows_which_it_is(project: AirflowProject) -> None:
    assert project.run(project.dataset("thirds")).state == "success"
    file = project.write("dags/by_split.py", BY_SPLIT)
    try:
        dag = runpy.run_path(str(file))["dag"]
        run = Run(dag.test(run_conf={"key": "test"}))
        assert run.state == "success" and run.xcom("one") == ["thirds:1.0.0", "test", "test"]
        assert Run(dag.test(run_conf={"key": "validation"})).state == "failed"
    finally:
        file.unlink()


def test_a_run_without_a_key_says_what_is_missing(airflow: None) -> None:
    started = SimpleNamespace(partition_key=None, dag_id="train", run_id="manual")
    with pytest.raises(UnknownReference, match="does not say which split"):
        changed("digits", started)
