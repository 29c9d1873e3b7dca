"""Stage memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from provender.catalog import ArtifactRecord, this_process
from provender.errors import CatalogError, UnknownReference

KEY = "shards/train/00003"


def made(digest, name="out", **more):
    return ArtifactRecord(digest, 7, f"/store/{digest}", name=name, **more)


def record(catalog, fingerprint="fp", key=KEY, state="succeeded", **more):
    return catalog.record_stage(None, "toy", None, key, fingerprint, state=state, **more)


def test_a_stage_is_found_as_it_was_recorded(catalog):
    run = catalog.begin_run("build", "toy", "big", "1.0.0")
    began = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2)))
    outputs = [
        ArtifactRecord("d2", 2**40, "/store/b", "tok", "shard", "b", {"ü": [1, None, 0.5]}),
        made("d1", "a"),
    ]
    stored = catalog.record_stage(
        run, "toy", "big", KEY, "fp",
        state="succeeded", reason=[{"kind": "new"}], tree={"name": "shards", "parts": [1]},
        result={"examples": 3, "z": 1, "a": 2}, outputs=outputs, started=began,
        finished=began + timedelta(seconds=1.5), attempts=2,
    )  # fmt: skip
    found = catalog.find_stage("fp")
    assert found == stored
    assert found.outputs == tuple(outputs)
    assert list(found.result) == ["examples", "z", "a"]
    assert found.started == began
    assert found.started.tzinfo is UTC
    assert (found.stage, found.seconds, found.attempts) == ("shards", 1.5, 2)
    assert found.output("a").digest == "d1"
    assert found.output("c") is None
    assert (found.host, found.pid) == (this_process().host, this_process().pid)
    assert catalog.tree("fp") == {"name": "shards", "parts": [1]}
    assert catalog.stage(found.id[:8]) == found


def test_only_success_is_a_hit_and_the_newest_wins(catalog):
    assert catalog.find_stage("fp") is None
    record(catalog, state="failed", error={"type": "StoreError", "message": "full"})
    assert catalog.find_stage("fp") is None
    record(catalog, outputs=[made("d1")])
    newest = record(catalog, outputs=[made("d1", token="rebuilt")])
    record(catalog, state="failed")
    assert catalog.find_stage("fp") == newest


def test_newest_means_recorded_last_not_the_latest_clock(catalog):
    future = datetime.now(UTC) + timedelta(hours=1)
    record(catalog, started=future, finished=future)
    newest = record(catalog)
    assert catalog.find_stage("fp") == newest


def test_many_at_once(catalog):
    stored = {f"fp{i}": record(catalog, f"fp{i}", outputs=[made(f"d{i}")]) for i in range(20)}
    assert catalog.find_stages([*stored, "unknown"]) == stored
    assert catalog.find_stages([]) == {}
    assert catalog.find_stages(f"x{i}" for i in range(40_000)) == {}


def test_a_running_stage_is_shown_and_finished(catalog):
    id = catalog.start_stage(
        "run", "toy", None, KEY, "fp", reason=[{"kind": "code"}], tree={"name": "t"}
    )
    [running] = catalog.stages(state="running")
    assert (running.id, running.finished, running.seconds) == (id, None, None)
    assert catalog.find_stage("fp") is None
    done = record(catalog, id=id, outputs=[made("d1")])
    assert (done.id, done.state, done.started) == (id, "succeeded", running.started)
    assert done.reason == ({"kind": "code"},)
    assert catalog.find_stage("fp") == done
    assert catalog.stages(state="running") == []
    assert len(catalog.stages()) == 1


def test_finishing_again_replaces_the_outputs(catalog):
    first = record(catalog, outputs=[made("d1"), made("d2", "more")])
    again = record(catalog, id=first.id, outputs=[made("d3")])
    assert catalog.find_stage("fp") == again
    assert [out.digest for out in again.outputs] == ["d3"]


def test_last_stage_prefers_success(catalog):
    assert catalog.last_stage("toy", None, KEY) is None
    failed = record(catalog, "fp0", state="failed")
    assert catalog.last_stage("toy", "", KEY) == failed
    good = record(catalog, "fp1")
    record(catalog, "fp2", state="failed")
    catalog.start_stage(None, "toy", None, KEY, "fp3")
    other = record(catalog, "fp4", key="download")
    catalog.record_stage(None, "toy", "big", KEY, "fp5", state="succeeded")
    assert catalog.last_stage("toy", None, KEY) == good
    assert catalog.last_stages("toy", None) == {KEY: good, "download": other}


def test_outputs_move(catalog):
    stage = record(catalog, outputs=[made("d1", "a"), made("d2", "b")])
    catalog.update_artifact(stage.id, "a", "/new/a", "t2")
    found = catalog.find_stage("fp")
    assert (found.output("a").uri, found.output("a").token) == ("/new/a", "t2")
    assert found.output("b") == stage.output("b")
    with pytest.raises(UnknownReference, match="no output 'c'"):
        catalog.update_artifacts([(stage.id, "b", "/new/b", "t"), (stage.id, "c", "/new/c", "t")])
    assert catalog.find_stage("fp").output("b") == stage.output("b")


def test_listing(catalog):
    run = catalog.begin_run("build", "toy", None, None)
    mine = catalog.record_stage(run, "toy", None, "download", "fp0", state="failed")
    shards = [record(catalog, f"fp{i}", key=f"shards/train/{i}") for i in (1, 2)]
    record(catalog, "fp9", key="shards_100%/x")
    assert catalog.stages(run_id=run) == [mine]
    assert catalog.stages(key="shards") == shards[::-1]
    assert catalog.stages(key="shards/train/1") == [shards[0]]
    assert len(catalog.stages(dataset="toy", config="")) == 4
    assert len(catalog.stages(limit=2)) == 2
    assert catalog.stages(dataset="other") == []


def test_trees_are_kept_once(catalog):
    record(catalog, tree={"name": "first"})
    record(catalog, tree={"name": "second"})
    record(catalog, "fp2")
    assert catalog.trees(["fp", "fp2"]) == {"fp": {"name": "first"}}
    assert catalog.tree("fp2") is None


def test_faults_are_named(catalog):
    with pytest.raises(UnknownReference, match="no stage execution"):
        record(catalog, id="0" * 32)
    with pytest.raises(UnknownReference, match="no stage execution"):
        catalog.stage("abcd1234")
    with pytest.raises(CatalogError):
        record(catalog, outputs=[made("d1", "same"), made("d2", "same")])
    assert catalog.stages() == []


def test_a_fault_leaves_nothing_behind(catalog, rows):
    before = rows()
    with pytest.raises(CatalogError):
        record(catalog, tree={"name": "t"}, outputs=[made("d1", "same"), made("d2", "same")])
    assert rows() == before
