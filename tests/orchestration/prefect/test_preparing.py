"""The flow that builds one dataset, against a real server."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from tests.orchestration.prefect.conftest import Place, make_place

from provender import build
from provender.errors import StoreError


def prepare(place: Place, dataset: str = "lines", **parameters: Any) -> Any:
    from provender.orchestration.prefect import prepare_dataset, runner_of

    flow = prepare_dataset.with_options(task_runner=runner_of("threads:2"))
    return flow(dataset, config_file=place.file, return_state=True, **parameters)


def task_runs(state: Any) -> list[Any]:
    """The task runs of a flow run, as the server tells them: it hears of their ends a little later."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    async def ask() -> list[Any]:
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
        async with get_client() as client:
            for _ in range(100):
                found = await client.read_task_runs(flow_run_filter=wanted)
                if all(each.state.is_final() for each in found):
                    return found
                await asyncio.sleep(0.3)
        raise AssertionError([each.state for each in found])

    return asyncio.run(ask())


def artifacts(key: str) -> list[Any]:
    """All artifacts of a key, newest last."""
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    async def ask() -> list[Any]:
        async with get_client() as client:
            found = await client.read_artifacts(
                artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key]))
            )
            return sorted(found, key=lambda each: each.created)

    return asyncio.run(ask())


def test_the_same_bytes_as_the_command_line_and_the_run_on_record(api, place, tmp_path) -> None:
    state = prepare(place)
    found = state.result()
    assert (state.name, found["changed"], found["splits"]) == (
        "Completed", True, {"train": 300, "test": 60},
    )  # fmt: skip
    other = make_place(tmp_path / "other")
    build("lines", settings=other.settings)
    assert place.shards() == other.shards() and len(place.shards()) == 6
    with place.catalog() as catalog:
        [run] = catalog.runs()
    assert (run.outcome, run.orchestrator["name"]) == ("succeeded", "prefect")
    assert run.orchestrator["flow_run_id"] == str(state.state_details.flow_run_id)


def test_a_rerun_is_all_cached_and_says_why(api, place) -> None:
    prepare(place)
    state = prepare(place)
    assert state.name == "Cached" and "nothing had changed" in state.message
    runs = task_runs(state)
    assert {each.state.name for each in runs} == {"Cached"} and len(runs) >= 12
    shard = next(each for each in runs if each.name == "write train-00002")
    assert "nothing that it depends on has changed since it ran" in shard.state.message
    [*_, table] = artifacts("stages-lines")
    rows = json.loads(table.data)
    assert Counter(each["state"] for each in rows)["cached"] >= 11
    assert all(each["why"] for each in rows)
    with place.catalog() as catalog:
        assert [run.outcome for run in catalog.runs()] == ["cached", "succeeded"]


def test_a_change_shows_old_and_new_in_the_state_of_what_it_reaches(api, place) -> None:
    prepare(place)
    place.edit('"1.0.0"', '"1.1.0"')
    place.edit("{word} {number}", "{word}: {number}")
    state = prepare(place)
    states = {each.name: each.state for each in task_runs(state)}
    encoded = next(state for name, state in states.items() if name.startswith("encode train"))
    assert encoded.name == "Completed" and "_generate_examples" in encoded.message
    download = next(state for name, state in states.items() if name.startswith("download"))
    assert download.name == "Cached"
    assert state.result()["changed_splits"] == ["train", "test"]


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
    state = prepare(place)
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


def test_an_asset_event_only_where_something_is_new(api, place) -> None:
    first, second = prepare(place), prepare(place)
    assert any(each.name.startswith("publish") for each in task_runs(first))
    assert not any(each.name.startswith("publish") for each in task_runs(second))


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


def test_a_taken_number_is_refused_before_any_work(api, place) -> None:
    prepare(place)
    place.edit("{word} {number}", "{word}! {number}")
    state = prepare(place)
    assert state.is_failed() and type(state.result(raise_on_failure=False)).__name__ == (
        "ConflictError"
    )
    assert [e.name.rpartition("-")[0] for e in task_runs(state)] == ["check-manual"]
