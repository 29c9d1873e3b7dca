"""Runs, hits, and what a run that did nothing costs."""

from __future__ import annotations

import pytest

from provender.errors import UnknownReference


def test_a_run_from_begin_to_end(catalog):
    id = catalog.begin_run(
        "build", "toy", "big", "1.0.0", {"max_examples": 5}, {"dag_id": "d", "try": 1}
    )
    begun = catalog.run(id)
    assert (begun.outcome, begun.finished, begun.seconds) == ("running", None, None)
    assert (begun.kind, begun.dataset, begun.config, begun.version) == (
        "build", "toy", "big", "1.0.0",
    )  # fmt: skip
    assert begun.params == {"max_examples": 5}
    assert begun.orchestrator == {"dag_id": "d", "try": 1}
    assert begun.host and begun.pid
    catalog.finish_run(id, "succeeded", {"hits": 3, "nan": float("nan"), "sub": [float("inf")]})
    ended = catalog.run(id[:6])
    assert ended.outcome == "succeeded"
    assert ended.summary == {"hits": 3, "nan": "nan", "sub": ["inf"]}
    assert ended.seconds >= 0


def test_runs_come_newest_first(catalog):
    ids = [catalog.begin_run("build", name, None, None) for name in ("a", "b", "a")]
    catalog.begin_run("build", "a", "big", None)
    assert [run.id for run in catalog.runs("a", config="")] == [ids[2], ids[0]]
    assert len(catalog.runs()) == 4
    assert len(catalog.runs(limit=1)) == 1


def test_unknown_and_ambiguous_runs(catalog):
    with pytest.raises(UnknownReference, match="no run"):
        catalog.run("f" * 32)
    with pytest.raises(UnknownReference, match="no run"):
        catalog.run("")
    with pytest.raises(UnknownReference, match="no run"):
        catalog.run("%%%%")
    with pytest.raises(UnknownReference, match="no run"):
        catalog.finish_run("f" * 32, "succeeded")


def test_hits(catalog):
    first, second = (
        catalog.record_stage(None, "toy", None, key, key, state="succeeded") for key in "ab"
    )
    run = catalog.begin_run("build", "toy", None, None)
    catalog.record_hits(run, [second.id, first.id, first.id])
    catalog.record_hits(run, [first.id])
    catalog.record_hits(run, [])
    assert catalog.hits(run) == [first, second]


def test_a_noop_run_adds_one_row_in_the_whole_catalog(catalog, publish, rows):
    version = publish()
    before = rows()
    for count in range(1, 4):
        run = catalog.record_noop_run(
            "build", "toy", None, "1.0.0", {"a": 1}, {"hits": 5}, version.id
        )
        assert rows() == before | {"run": before["run"] + count}
    found = catalog.run(run)
    assert (found.outcome, found.reused_version_id) == ("cached", version.id)
    assert found.summary == {"hits": 5}
    assert found.finished is not None


def test_reading_adds_no_rows(catalog, publish, rows):
    version = publish()
    before = rows()
    catalog.find_stages(["shard-fp-1.0.0"])
    catalog.lineage(version.id)
    catalog.versions()
    catalog.claims()
    catalog.datasets()
    assert rows() == before
