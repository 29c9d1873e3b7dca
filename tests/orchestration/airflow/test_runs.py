"""Whole runs of a dataset's DAG: built, found cached, failed and gone on with, waited for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engine import golden_builders
from tests.engine import test_steps as steps_of_a_builder
from tests.orchestration.airflow.conftest import AirflowProject, Run

from provender.catalog import Catalog
from provender.catalog.orchestrated import run_id_of
from provender.engine import staged
from provender.orchestration.airflow.names import orchestrator

ALL = {
    "check_manual", "download", "plan_splits", "encode_examples", "plan_shards", "write_shards",
    "register", "publish",
}  # fmt: skip


def events_of(dataset: str) -> list[dict[str, Any]]:
    """The extras of all that was announced of a dataset, oldest first."""
    import sqlalchemy as sa
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = (
            sa.select(AssetEvent.extra)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.name == dataset)
            .order_by(AssetEvent.id)
        )
        return list(session.scalars(query))


def catalog_of(project: AirflowProject) -> Catalog:
    return Catalog.open(project.root / "store" / "catalog.db")


def catalog_run(run: Run) -> str:
    return run_id_of(orchestrator(run.run.dag_id, run.run.run_id))


def test_built_then_cached_then_only_what_changed(project: AirflowProject) -> None:
    dag = project.dataset("notes", more="num_shards = 2")
    first = project.run(dag, workers=2, note="the first")
    assert first.states == dict.fromkeys(ALL, "success")
    assert first.labels("encode_examples") == [
        "train-00000 [ran]", "train-00001 [ran]", "test-00000 [ran]", "test-00001 [ran]"
    ]  # fmt: skip
    assert first.labels("write_shards") == [
        "train-00000 [ran]", "train-00001 [ran]", "test-00000 [ran]", "test-00001 [ran]"
    ]  # fmt: skip
    assert first.storage["download[-1]"]["stages"][0]["why"] == ["never run before"]
    assert set(first.stage_states.values()) == {"ran", "absent"}
    [event] = events_of("notes")
    assert event["version"] == "1.0.0" and event["splits"] == {"train": 40, "test": 10}
    assert event["changed_splits"] == ["train", "test"] and len(event["fingerprint"]) == 40
    with catalog_of(project) as catalog:
        run = catalog.run(catalog_run(first))
        assert (run.outcome, run.params["note"]) == ("succeeded", "the first")
        assert run.orchestrator == orchestrator(dag, first.run.run_id)

    second = project.run(dag, workers=2)
    assert second.states == {**dict.fromkeys(ALL, "success"), "publish": "skipped"}
    assert second.labels("encode_examples") == ["train [cached]", "test [cached]"]
    assert second.labels("write_shards") == [
        "train-00000 [cached]", "train-00001 [cached]", "test-00000 [cached]", "test-00001 [cached]"
    ]  # fmt: skip
    assert set(second.stage_states.values()) == {"cached", "absent"}
    assert (
        "nothing that it depends on has changed"
        in second.storage["download[-1]"]["stages"][0]["why"][0]
    )
    assert len(events_of("notes")) == 1, "nobody is woken for nothing"
    with catalog_of(project) as catalog:
        assert catalog.run(catalog_run(second)).outcome == "cached"
        found = staged.find_execution(catalog, catalog_run(second), "shards/train/00001")
        assert found is not None and found.run_id == catalog_run(first)

    builder = project.root / "notes_builder.py"
    code = builder.read_text().replace("1.0.0", "1.1.0").replace('f"Notes', 'f"Note')
    builder.write_text(code)
    third = project.run(dag, workers=2)
    states = third.stage_states
    assert states["download"] == states["splits"] == "cached" and states["examples/train"] == "ran"
    assert (
        "notes_builder.shape(): return" in third.storage["plan_shards[-1]"]["stages"][0]["why"][0]
    )
    assert [each["version"] for each in events_of("notes")] == ["1.0.0", "1.1.0"]


def test_what_was_built_elsewhere_is_announced_once(project: AirflowProject) -> None:
    from provender.api import build
    from provender.settings import load_settings

    dag = project.dataset("elsewhere")
    settings = load_settings(file=project.root / "provender.toml")
    built = build("elsewhere", settings=settings)
    run = project.run(dag)
    assert set(run.stage_states.values()) == {"cached", "absent"}
    assert run.states["publish"] == "success"
    assert [each["fingerprint"] for each in events_of("elsewhere")] == [built.version.fingerprint]
    assert project.run(dag).states["publish"] == "skipped"


def test_a_failed_stage_and_then_a_run_that_goes_on(project: AirflowProject) -> None:
    dag = project.dataset("failing")
    builder = project.root / "failing_builder.py"
    good = builder.read_text()
    builder.write_text(good.replace("    return", "    assert number != 9\n    return", 1))
    first = project.run(dag)
    assert first.states["download"] == "success" and first.states["encode_examples"] == "failed"
    assert first.states["publish"] == first.states["register"] == "upstream_failed"
    with catalog_of(project) as catalog:
        run = catalog.run(catalog_run(first))
        assert run.outcome == "failed" and "AssertionError" in run.summary["error"]["message"]
        assert catalog.versions("failing") == []
    builder.write_text(good)
    second = project.run(dag)
    assert second.states["publish"] == "success"
    assert second.stage_states["download"] == second.stage_states["splits"] == "cached"


def test_a_refused_build_fails_at_once_and_says_why(project: AirflowProject) -> None:
    dag = project.dataset("promised")
    assert project.run(dag).state == "success"
    builder = project.root / "promised_builder.py"
    builder.write_text(builder.read_text().replace('f"Promised', 'f"Kept'))
    run = project.run(dag)
    assert run.states["check_manual"] == "failed"
    assert {state for task, state in run.states.items() if task != "check_manual"} == {
        "upstream_failed"
    }
    with catalog_of(project) as catalog:
        found = catalog.run(catalog_run(run))
        assert (
            found.outcome == "refused"
            and "promised_builder.shape(): return" in found.summary["error"]["message"]
        )


def test_a_dry_run_tells_and_does_nothing(project: AirflowProject) -> None:
    dag = project.dataset("dry")
    run = project.run(dag, dry_run=True)
    assert run.states == dict.fromkeys(ALL, "skipped") and run.state == "success"
    shown = run.storage["check_manual[-1]"]
    assert shown["state"] == "dry run" and shown["stages"][0]["why"] == ["never run before"]
    with catalog_of(project) as catalog:
        assert catalog.runs("dry") == []


def test_what_is_forced_runs_though_nothing_changed(project: AirflowProject) -> None:
    dag = project.dataset("forced")
    project.run(dag)
    run = project.run(dag, force_from="examples")
    states = run.stage_states
    assert states["download"] == states["splits"] == "cached"
    assert states["examples/train"] == states["shards/train/00000"] == "ran"
    assert run.states["publish"] == "skipped" and len(events_of("forced")) == 1


MANUAL = """

class Manual(Manual):
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Ask Ada for lines.txt."
    MANUAL_FILES = ["lines.txt"]

    def _split_generators(self, dl_manager):
        return {"train": self._lines(dl_manager.manual_dir / "lines.txt")}

    def _lines(self, path):
        for number, line in enumerate(path.read_text().splitlines()):
            yield number, {"text": line}
"""


@contextmanager
def growing(path: Path) -> Iterator[None]:
    """Somebody copies a large file, slowly."""
    done = threading.Event()

    def copy() -> None:
        while not done.wait(0.1):
            with path.open("a") as file:
                file.write("more\n")

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_files_by_hand_are_waited_for(project: AirflowProject) -> None:
    dag = project.dataset("manual", MANUAL, "manual_timeout = 2")
    folder = project.root / "hand"
    run = project.run(dag, manual_dir=str(folder))
    assert run.states["check_manual"] == "failed" and run.states["download"] == "upstream_failed"
    shown = run.storage["check_manual[-1]"]
    assert (shown["state"], shown["missing"]) == ("waiting", ["lines.txt"])
    assert shown["instructions"] == "Ask Ada for lines.txt." and shown["folder"] == str(folder)
    with catalog_of(project) as catalog:
        error = catalog.run(catalog_run(run)).summary["error"]["message"]
        assert "did not come within 0:00:02" in error and "missing: lines.txt" in error

    path = project.write("hand/lines.txt", "one\n")
    with growing(path):
        run = project.run(dag, manual_dir=str(folder))
    assert run.states["check_manual"] == "failed", "half of a file is no file"
    assert run.storage["check_manual[-1]"]["growing"] == ["lines.txt"]

    path.write_text("one\ntwo\n")
    os.utime(path, (time.time() - 60, time.time() - 60))
    run = project.run(dag, manual_dir=str(folder))
    assert run.state == "success" and events_of("manual")[0]["splits"] == {"train": 2}


@pytest.mark.parametrize("away", ["catalog", pytest.param("store", marks=pytest.mark.slow)])
def test_what_is_away_is_a_clear_error_and_the_next_run_succeeds(
    project: AirflowProject, away: str
) -> None:
    dag = project.dataset(f"away{away}")
    toml = project.root / "provender.toml"
    good, blocked = toml.read_text(), project.write("blocked", "a file in place of a folder")
    place = f"{blocked}/x"
    if away == "catalog":
        toml.write_text(f'catalog = "{place}/catalog.db"\n{good}')
    else:
        bad = good.replace('"store"', f'"{place}"', 1)
        toml.write_text(f'catalog = "{project.root}/store/catalog.db"\n{bad}')
    run = project.run(dag)
    assert run.state == "failed" and run.states["publish"] == "upstream_failed"
    toml.write_text(good)
    assert project.run(dag).state == "success"


@pytest.mark.parametrize(
    ("style", "skipped"),
    [
        ("GoldenOpaque", {"encode_examples", "write_shards"}),
        pytest.param("GoldenSharded", {"encode_examples"}, marks=pytest.mark.slow),
    ],
)
def test_stages_that_a_builder_does_not_have_are_skipped(
    project: AirflowProject, style: str, skipped: set[str]
) -> None:
    project.write("golden.py", Path(golden_builders.__file__).read_text())
    name = style.lower()
    project.write(f"datasets/{name}.toml", f'[datasets.{name}]\nbuilder = "../golden.py:{style}"\n')
    run = project.run(f"provender_{name}")
    assert {task for task, state in run.states.items() if state == "skipped"} == skipped
    assert run.states["publish"] == "success" and len(events_of(name)) == 1


def test_the_steps_of_a_builder_run_in_mapped_tasks(project: AirflowProject) -> None:
    project.write("squares.py", steps_of_a_builder.BUILDER)
    project.write(
        "datasets/squares.toml", '[datasets.squares]\nbuilder = "../squares.py:Squares"\n'
    )
    first = project.run("provender_squares", workers=2)
    assert first.states == dict.fromkeys(ALL, "success")
    labels = first.labels("encode_examples")
    parts = [f"{step}-{part:05d}" for step in ("squares", "sums") for part in range(2)]
    assert [each.partition(" ")[0] for each in labels] == parts
    # Whichever task came first made what it needed, and found the others' parts made later on.
    assert {each.partition(" ")[2] for each in labels} <= {"[ran]", "[reused]", "[1 of 2 cached]"}
    with catalog_of(project) as catalog:
        ran = {each.key for each in catalog.stages(run_id=catalog_run(first), limit=None)}
    for step in ("squares", "sums"):
        whole = f"examples/{step}"
        assert {whole, f"{whole}/part-0-of-2", f"{whole}/part-1-of-2"} <= ran
    again = project.run("provender_squares", workers=2)
    assert again.labels("encode_examples") == ["squares [cached]", "sums [cached]"]


def test_a_dataset_that_nobody_knows_fails_at_once_and_says_what_comes_near(
    project: AirflowProject, caplog: pytest.LogCaptureFixture
) -> None:
    project.write("datasets/digts.toml", "[datasets.digts.airflow]\nretries = 2\n")
    try:
        run = project.run("provender_digts")
    finally:
        (project.root / "datasets/digts.toml").unlink()
    assert run.states["check_manual"] == "failed" and run.tasks[0].try_number == 1
