"""What is counted for monitoring, compared with what was done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.catalog.conftest import artifact

from provender.catalog import Catalog, claimed
from provender.catalog.measuring import Figures
from provender.errors import CatalogError


def test_an_empty_catalog(catalog):
    assert catalog.figures() == Figures(
        stages={}, runs=(), stage_hits=0, artifact_bytes=0, download_bytes=0, versions={},
        removed=0, version_bytes={}, version_examples={}, claims={}, leases=0, reads=0, checks={},
    )  # fmt: skip
    assert catalog.figures().version_hits == 0
    catalog.ping()


def test_stages_hits_and_bytes(catalog):
    run = catalog.begin_run("build", "toy", None, "1.0.0")
    made = catalog.record_stage(
        run, "toy", None, "shards/train/00000", "fp-1", state="succeeded",
        outputs=[artifact("one", size=100), artifact("two", "b", size=20)],
    )  # fmt: skip
    catalog.record_stage(
        run, "toy", None, "shards/train/00001", "fp-2", state="succeeded",
        outputs=[artifact("one", size=100)],
    )  # fmt: skip
    catalog.record_stage(run, "toy", None, "download", "fp-3", state="failed")
    catalog.record_hits(run, [made.id])
    found = catalog.figures()
    assert found.stages == {("shards", "succeeded"): 2, ("download", "failed"): 1}
    assert found.stage_hits == 1
    assert found.artifact_bytes == 120, "the same content counts once"


def test_runs(catalog, publish):
    version = publish()
    began = datetime.now(UTC)
    first = catalog.begin_run("build", "toy", None, None)
    second = catalog.begin_run("build", "toy", None, None)
    catalog.finish_run(second, "failed")
    catalog.record_noop_run("build", "toy", None, "1.0.0", {}, {}, version.id)
    catalog.record_noop_run("build", "toy", None, "1.0.0", {}, {}, version.id)
    runs = {(each.kind, each.outcome): each for each in catalog.figures().runs}
    assert {key: each.count for key, each in runs.items()} == {
        ("build", "running"): 1, ("build", "failed"): 1, ("build", "cached"): 2,
    }  # fmt: skip
    assert catalog.figures().version_hits == 2
    running, failed = runs["build", "running"], runs["build", "failed"]
    assert running.ended is None and running.oldest == catalog.run(first).started
    assert failed.ended is not None
    assert timedelta(seconds=-1) < failed.ended - began < timedelta(minutes=5)


def test_versions_and_readers(catalog, publish):
    one, two = publish("1.0.0"), publish("1.1.0")
    publish("1.2.0", status="trial")
    catalog.retract(one.id, reason="typo", who="ann")
    catalog.record_consumption(two.id, "job-1")
    catalog.record_consumption(two.id, "job-2")
    found = catalog.figures()
    assert found.versions == {"published": 1, "retracted": 1, "trial": 1}
    assert found.version_bytes == dict.fromkeys(found.versions, 999)
    assert found.version_examples == dict.fromkeys(found.versions, 100)
    assert (found.reads, found.removed) == (2, 0)
    catalog.take_away(one.id, reason="space", who="ann")
    found = catalog.figures()
    assert found.versions == {"published": 1, "trial": 1} and found.removed == 1
    assert "retracted" not in found.version_bytes


def test_claims_and_leases_that_count_now(catalog, publish):
    version = publish()
    with claimed(catalog, "build/toy"), claimed(catalog, "stage/x"), claimed(catalog, "stage/y"):
        with catalog.lease(version.id, "a test"):
            found = catalog.figures()
            assert found.claims == {"build": 1, "stage": 2}
            assert found.leases == 1
    assert (catalog.figures().claims, catalog.figures().leases) == ({}, 0)


def test_a_claim_that_ran_out_does_not_count(catalog):
    from provender.catalog import this_process

    assert catalog.acquire("build/toy", this_process(), ttl_seconds=-1) is not None
    assert catalog.figures().claims == {}


def test_what_is_no_catalog_does_not_answer(tmp_path, url):
    from provender.catalog.engine import make_engine, parse_url

    engine = make_engine(parse_url(tmp_path / "empty.db"))
    with Catalog(engine) as other, pytest.raises(CatalogError):
        other.ping()
