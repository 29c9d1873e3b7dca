"""The flow that builds one dataset, against a real server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.engine import test_steps as steps_of_a_builder
from tests.orchestration.prefect.conftest import (
    Place,
    artifacts,
    make_place,
    prepare,
    talking_to,
    task_runs,
)

from provender import build
from provender.errors import ConflictError, StoreError


@dataclass
class Life:
    """Four runs of one dataset: built, unchanged, changed under its number, under a new one."""

    place: Place
    shards: dict[str, bytes]
    table: list[dict[str, Any]]
    built: Any
    rerun: Any
    refused: Any
    changed: Any


@pytest.fixture(scope="module")
def life(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """What most tests here look at; each run costs seconds."""
    place = make_place(tmp_path_factory.mktemp("life"))
    with talking_to(server):
        built = prepare(place, runner="threads:2")
        shards = place.shards()
        rerun = prepare(place)
        table = json.loads(artifacts("stages-lines")[-1].data)
        place.edit("{word} {number}", "{word}: {number}")
        refused = prepare(place)
        place.edit('"1.0.0"', '"1.1.0"')
        yield Life(place, shards, table, built, rerun, refused, prepare(place))


def test_the_same_bytes_as_the_command_line_and_the_run_on_record(life, tmp_path) -> None:
    found = life.built.result()
    assert (life.built.name, found["changed"], found["splits"]) == (
        "Completed", True, {"train": 300, "test": 60},
    )  # fmt: skip
    other = make_place(tmp_path / "other")
    build("lines", settings=other.settings)
    assert life.shards == other.shards() and len(life.shards) == 6
    with life.place.catalog() as catalog:
        runs = catalog.runs()
    assert [run.outcome for run in reversed(runs)] == [
        "succeeded", "cached", "refused", "succeeded"
    ]  # fmt: skip
    assert {run.orchestrator["name"] for run in runs} == {"prefect"}
    assert runs[-1].orchestrator["flow_run_id"] == str(life.built.state_details.flow_run_id)


def test_a_rerun_is_all_cached_and_says_why(life, api) -> None:
    assert life.rerun.name == "Cached" and "nothing had changed" in life.rerun.message
    runs = task_runs(life.rerun)
    assert {each.state.name for each in runs} == {"Cached"} and len(runs) >= 12
    assert not any(each.tags for each in runs), "what does nothing takes no slot of a limit"
    assert {"provender-download"} in [set(each.tags) for each in task_runs(life.built)]
    shard = next(each for each in runs if each.name == "write train-00002")
    assert "nothing that it depends on has changed since it ran" in shard.state.message
    assert Counter(each["state"] for each in life.table)["cached"] >= 11
    assert all(each["why"] for each in life.table)


def test_a_change_shows_old_and_new_in_the_state_of_what_it_reaches(life, api) -> None:
    states = {each.name: each.state for each in task_runs(life.changed)}
    encoded = next(state for name, state in states.items() if name.startswith("encode train"))
    assert encoded.name == "Completed" and "_generate_examples" in encoded.message
    download = next(state for name, state in states.items() if name.startswith("download"))
    assert download.name == "Cached"
    assert life.changed.result()["changed_splits"] == ["train", "test"]


def test_a_taken_number_is_refused_before_any_work(life, api) -> None:
    assert life.refused.is_failed()
    assert isinstance(life.refused.result(raise_on_failure=False), ConflictError)
    [only] = task_runs(life.refused)
    assert only.name.startswith("check-manual") and only.run_count == 1


def test_an_asset_event_only_where_something_is_new(life, api) -> None:
    def published(state: Any) -> bool:
        return any(each.name.startswith("publish") for each in task_runs(state))

    assert published(life.built) and published(life.changed) and not published(life.rerun)


def test_the_steps_of_a_builder_run_in_mapped_tasks(api, place) -> None:
    (place.root / "squares.py").write_text(steps_of_a_builder.BUILDER)
    with open(place.file, "a") as file:
        file.write('\n[datasets.squares]\nbuilder = "squares.py:Squares"\n')
    state = prepare(place, "squares", "threads:2", workers=3)
    assert state.result()["splits"] == {"train": 10}
    names = sorted(each.name for each in task_runs(state) if each.name.startswith("encode"))
    assert names == [
        f"encode {step}-{part:05d}" for step in ("squares", "sums") for part in range(3)
    ]
    with place.catalog() as catalog:
        [run] = catalog.runs()
        keys = [each.key for each in catalog.stages(run_id=run.id, limit=None)]
    # Who met at a part made it once.
    assert len(keys) == len(set(keys))
    assert sum(each.startswith("examples/s") for each in keys) == 8
    assert prepare(place, "squares", workers=3).name == "Cached"


def test_a_failing_shard_is_tried_again_alone(api, place, monkeypatch) -> None:
    from provender.engine.pool import Pool
    from provender.orchestration.prefect import stages

    monkeypatch.setattr(stages.write_shards, "retry_delay_seconds", [0, 0, 0])
    real, failed = Pool.call, []

    def call(self: Any, op: str, args: Any, progress: Any) -> Any:
        if op == "shard" and args["name"].startswith("lines-train.tfrecord-00001") and not failed:
            failed.append(args["name"])
            raise StoreError("The disk hiccuped.", where=args["name"])
        return real(self, op, args, progress)

    monkeypatch.setattr(Pool, "call", call)
    state = prepare(place, runner="threads:2")
    assert state.name == "Completed" and len(failed) == 1
    counts = {each.name: each.run_count for each in task_runs(state)}
    assert counts["write train-00001"] == 2
    assert {count for name, count in counts.items() if name != "write train-00001"} == {1}
    with place.catalog() as catalog:
        assert catalog.runs()[0].outcome == "succeeded"


def test_what_will_not_get_better_is_not_tried_again(api, place) -> None:
    place.edit("yield number", "assert number != 40\n            yield number")
    state = prepare(place)
    assert state.is_failed() and "AssertionError" in state.message
    assert {each.run_count for each in task_runs(state)} == {1}
    [*_, table] = artifacts("stages-lines")
    assert "failed" in table.description
    place.edit("assert number != 40", "pass")
    again = prepare(place)
    assert again.name == "Completed"
    download = next(e for e in task_runs(again) if e.name.startswith("download"))
    assert download.state.name == "Cached"


def test_a_dry_run_changes_nothing(api, place) -> None:
    rows = prepare(place, dry_run=True).result()
    assert [row["stage"] for row in rows][:2] == ["download", "splits"]
    with place.catalog() as catalog:
        assert catalog.runs() == [] and catalog.versions("lines") == []
    [*_, table] = artifacts("plan-lines")
    assert "would do" in table.description


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"num_shards": "three"}, "num_shards"),
        ({"num_shards": 0}, "num_shards"),
        ({"force": ["shard"]}, "force"),
        ({"wait_for_manual": -1}, "wait_for_manual"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_refused(api, place, parameters, match) -> None:
    state = prepare(place, **parameters)
    assert state.is_failed() and match in state.message


def test_an_unknown_dataset_says_what_there_is(api, place) -> None:
    state = prepare(place, "lienes")
    assert state.is_failed() and "lines" in str(state.result(raise_on_failure=False))
