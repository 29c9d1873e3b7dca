"""A catalog of the first revision, with data that the first program wrote, is upgraded to this one.

The rows are plain SQL, so that they stay what they were when the tables move on.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from tests.catalog.test_migrations import move

from provender.catalog import Catalog, SplitRecord, db
from provender.catalog.engine import make_engine, parse_url
from provender.errors import CatalogError
from provender.questions import Questions

V1, V2, TRIAL = "1" * 32, "2" * 32, "3" * 32
RUN, STAGE, DATASET = "a" * 32, "b" * 32, "d" * 32
BEFORE, WHEN = "2026-01-01 00:00:00.000000", "2026-01-02 03:04:05.000006"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
FEATURES = json.dumps({"featuresDict": {"features": {"text": {}, "topLeft": {}}}})
INFO = json.dumps({"dataset_info": {"description": "Letters about the sea."}})
NOTHING, NOBODY = "{}", ("host~1", 7, "1")


def _version(id, number, status, fingerprint, made, *retracted):
    place = f"datasets/letters/{number}"
    return (
        *(id, DATASET, number, fingerprint, status, place, f"/store/{place}"),
        *(FEATURES, INFO, RUN, made, *(retracted or (None,) * 4)),
    )


VERSIONS = [
    _version(V1, "1.0.0", "retracted", "fp-1", BEFORE, WHEN, "ann", "typos", V2),
    _version(V2, "1.1.0", "published", "fp-2", WHEN),
    _version(TRIAL, "1.2.0", "trial", "fp-3", BEFORE),
]

ROWS = {
    "dataset": [(DATASET, "letters", "", WHEN)],
    "run": [
        (
            *(1, RUN, "build", "letters", "", "1.1.0", '{"workers":2}', '{"dag":"nightly"}'),
            *(*NOBODY, "ann", "succeeded", '{"hits":1}', None, WHEN, WHEN),
        ),
        (
            *(2, "c" * 32, "build", "letters", "", "1.1.0", NOTHING, None),
            *(*NOBODY, "ann", "cached", NOTHING, V2, WHEN, WHEN),
        ),
    ],
    "stage_execution": [
        (
            *(1, STAGE, RUN, "letters", "", "shards/train/00000", "shards", "stage-fp"),
            *("succeeded", '[{"kind":"first"}]', NOTHING, 1, *NOBODY, None, WHEN, WHEN),
        )
    ],
    "artifact": [("e" * 64, 1234, WHEN)],
    "stage_output": [(STAGE, "shard", 0, "e" * 64, "building/x", "t", "shard", NOTHING)],
    "run_hit": [(RUN, STAGE, WHEN)],
    "fingerprint": [("fp-2", "letters", '{"kind":"leaf"}', WHEN)],
    "lineage": [(V2, STAGE, "", "version", "stage"), (STAGE, "e" * 64, "", "stage", "artifact")],
    "download": [("https://x.org/a", "f" * 64, 5, "a", "etag", NOTHING, WHEN)],
    "version": VERSIONS,
    "split_stat": [(id, "train", 0, 90, 900, 1, '{"mean":4.5}') for id in (V1, V2, TRIAL)],
    "shard": [(V2, "train", 0, 1, "l-train.tfrecord", 900, "aa", "bb", 90, "t", STAGE)],
    "alias": [(DATASET, "golden", V2, WHEN, "ann"), (DATASET, "latest", V2, WHEN, "ann")],
    "alias_history": [(1, DATASET, "golden", V1, WHEN, "ann", RUN), (2, DATASET, "golden", V2, WHEN, "ann", RUN)],
    "consumption": [(1, "9" * 32, V1, "train-7", '["train"]', "host", "ann", NOTHING, WHEN)],
    "lease": [("stage/old", *NOBODY, "building", WHEN, WHEN, WHEN)],
}  # fmt: skip
COUNTERS = ("run", "stage_execution", "alias_history", "consumption")


def fill(url):
    """Writes the rows into a database that is at the first revision."""
    engine = make_engine(parse_url(url))
    with engine.begin() as conn:
        postgresql = conn.dialect.name == "postgresql"
        if postgresql:
            conn.execute(sa.text("SET LOCAL TIME ZONE 'UTC'"))
        for table, rows in ROWS.items():
            for row in sorted(rows, key=lambda row: row[-1] is not None):
                marks = ", ".join(["%s" if postgresql else "?"] * len(row))
                conn.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", row)
        if postgresql:  # what its own INSERTs had done
            for table in COUNTERS:
                last = f"SELECT setval(pg_get_serial_sequence('{table}', 'seq'), max(seq)) FROM {table}"
                conn.exec_driver_sql(last)
    engine.dispose()


@pytest.fixture
def first(empty_url):
    """A catalog as the first program left it."""
    move(empty_url, "0001", "upgrade")
    fill(empty_url)
    assert db.current_revision(empty_url) == "0001"
    return empty_url


@pytest.fixture
def upgraded(first):
    assert db.upgrade(first) == ("0001", db.head_revision())
    with Catalog.open(first) as catalog:
        yield catalog


def test_the_schema_is_that_of_a_new_catalog(first):
    db.upgrade(first)
    assert db.check(first) == []


def test_no_row_is_lost(upgraded):
    counted = {table: upgraded.sql(f"SELECT count(*) FROM {table}").rows[0][0] for table in ROWS}
    assert counted == {table: len(rows) for table, rows in ROWS.items()}


def test_versions_are_what_they_were(upgraded):
    two = upgraded.version("letters", "", "1.1.0")
    assert (two.id, two.status, two.fingerprint, two.aliases) == (
        V2,
        "published",
        "fp-2",
        ("golden", "latest"),
    )
    assert two.created == MOMENT and two.removed is None
    assert two.info["dataset_info"]["description"].startswith("Letters")
    assert [(s.name, s.examples, s.bytes) for s in two.splits] == [("train", 90, 900)]
    assert [(s.name, s.size, s.stage_id) for s in upgraded.shards(V2)] == [
        ("l-train.tfrecord", 900, STAGE)
    ]
    one = upgraded.version_by_id(V1)
    assert (one.status, one.retracted_by, one.retract_reason, one.successor_id) == (
        "retracted",
        "ann",
        "typos",
        V2,
    )
    assert {each.status for each in upgraded.versions("letters")} >= {"published", "trial"}
    assert upgraded.version_by_alias("letters", "", "golden").id == V2


def test_work_is_what_it_was(upgraded):
    newest, oldest = upgraded.runs()
    assert (newest.outcome, newest.reused_version_id) == ("cached", V2)
    assert (oldest.id, oldest.orchestrator, oldest.started) == (RUN, {"dag": "nightly"}, MOMENT)
    (stage,) = upgraded.find_stages(["stage-fp"]).values()
    assert stage.id == STAGE and [each.size for each in stage.outputs] == [1234]
    assert upgraded.downloads(["https://x.org/a"])["https://x.org/a"].size == 5
    assert upgraded.tree("fp-2") == {"kind": "leaf"}
    assert upgraded.claims() == []  # ran out long ago


def test_it_can_be_asked_everything(upgraded):
    ask = Questions(upgraded)
    assert [each.version_id for each in ask.search("sea")] == [V2]
    assert ask.search("golden")[0].version_id == V2
    assert ask.search("train-7")[0].dataset == "letters"
    assert [each.name for each in ask.consumers("letters:1.0.0")] == ["train-7"]
    assert {each.id for each in ask.lineage("letters:1.1.0", "up").nodes} == {V2, STAGE, "e" * 64}
    (row,) = ask.sql(
        "SELECT version, aliases, tags, examples FROM v_versions WHERE status = 'published'"
    ).rows
    assert row == ("1.1.0", "golden,latest", None, 90)
    assert len(ask.sql("SELECT * FROM v_cache_hits").rows) == 2
    assert upgraded.figures().versions == {"published": 1, "retracted": 1, "trial": 1}


def test_it_can_be_worked_with(upgraded):
    upgraded.add_tags(V2, ["checked"])
    assert upgraded.search("checked")[0].version_id == V2
    run = upgraded.begin_run("build", "letters", None, "2.0.0")
    assert upgraded.runs(limit=1)[0].id == run
    made = upgraded.register_version(
        "letters", "", "2.0.0", "fp-new", path="p", uri="/p",
        splits=[SplitRecord("train", 1, 1, 1)], shards=[], features={}, info={}, run_id=run,
    )  # fmt: skip
    upgraded.set_alias("letters", "", "golden", made.id)
    moves = upgraded.sql(
        "SELECT version_id FROM v_alias_history WHERE alias = 'golden' ORDER BY move"
    ).rows
    assert [id for (id,) in moves] == [V1, V2, made.id]
    with upgraded.lease(made.id, "a test") as lease:
        assert lease.held
    again = upgraded.retract(made.id, reason="a test", who="ann")
    assert again.status == "retracted"


def test_opening_it(first, backend):
    """SQLite is brought up to date at once; PostgreSQL waits for whoever may decide it."""
    if backend == "postgresql":
        with pytest.raises(CatalogError, match="older"):
            Catalog.open(first)
        assert db.current_revision(first) == "0001"
        return
    with Catalog.open(first) as catalog:
        assert catalog.version_by_id(V2).version == "1.1.0"
