"""Each question, asked of a catalog with a history, on both databases."""

from __future__ import annotations

import dataclasses

import pytest

import provender
from provender.catalog import Catalog
from provender.errors import SettingsError, UnknownReference
from provender.questions import Questions, Rows, VersionSummary


def test_datasets(ask, story):
    found = ask.datasets()
    assert [each.name for each in found] == ["reviews", "tokens", "wiki/de", "wiki/en"]
    reviews = found[0]
    assert (reviews.published, reviews.trial, reviews.retracted) == (2, 0, 0)
    assert (reviews.latest, reviews.latest_id) == ("1.1.0", story.two.id)
    assert (reviews.examples, reviews.bytes) == (130, 999)
    assert reviews.created < story.after_one < reviews.updated
    assert [each.config for each in ask.datasets("wiki")] == ["de", "en"]
    first = ask.datasets(limit=2)
    assert (len(first), first.more) == (2, True)
    assert ask.datasets(limit=2, offset=2).more is False


def test_versions(ask, story, catalog):
    found = ask.versions("reviews")
    assert [each.version for each in found] == ["1.1.0", "1.0.0"]
    assert found[0].splits[0].name == "train"
    assert found[0].aliases == ("latest",)
    assert found[0].run_id == story.two.run_id
    assert len(ask.versions()) == 5
    assert len(ask.versions(limit=2)) == 2
    assert ask.versions(limit=2).more
    assert [v.name for v in ask.versions("wiki/en")] == ["wiki/en:2.0.0"]
    assert len(ask.versions("wiki")) == 2
    assert [v.version for v in ask.versions("reviews", until=story.after_one)] == ["1.0.0"]
    assert [v.version for v in ask.versions("reviews", since=story.after_one)] == ["1.1.0"]
    catalog.retract(story.one.id, "labels shifted", "ann", story.two.id)
    assert [v.version for v in ask.versions("reviews", status=["retracted"])] == ["1.0.0"]
    with pytest.raises(UnknownReference) as caught:
        ask.versions("reviws")
    assert "Did you mean reviews?" in str(caught.value)


def test_version(ask, story, catalog):
    version = ask.version("reviews")
    assert version.name == "reviews:1.1.0"
    assert (version.description, version.licence) == ("The reviews set.", "CC0")
    assert version.homepages == ("https://example.org/r",)
    assert version.builder == "sets.py:Reviews"
    assert version.examples == 130
    assert [split.name for split in version.splits] == ["train", "test"]
    for ref in ("reviews:1.1.0", "reviews@latest", story.two.id):
        assert ask.version(ref) == version
    catalog.retract(story.one.id, "labels shifted", "ann", story.two.id)
    taken_back = ask.version("reviews:1.0.0")
    assert (taken_back.status, taken_back.successor) == ("retracted", "reviews:1.1.0")


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("reviws", "Did you mean reviews?"),
        ("reviews:9.9.9", "There are: 1.0.0, 1.1.0."),
        ("reviews@goldne", "latest"),
        ("wiki", "wiki/de, wiki/en"),
        ("wiki/eng:2.0.0", "Did you mean wiki/en?"),
        ("0" * 32, "provender versions"),
        ("Not a name!", "Use name"),
    ],
)
def test_a_reference_that_names_nothing_says_what_there_is(ask, story, ref, said):
    with pytest.raises(UnknownReference) as caught:
        ask.version(ref)
    assert said in str(caught.value)


def test_an_empty_catalog_says_how_to_fill_it(ask):
    assert ask.datasets() == ask.versions() == ask.runs() == ask.search("x") == ()
    with pytest.raises(UnknownReference, match="provender build"):
        ask.version("reviews")
    with pytest.raises(UnknownReference, match="No job is on record"):
        ask.consumed_by("train")


def test_files_and_inputs(ask, story):
    assert [(f.split, f.size) for f in ask.files("reviews:1.0.0")] == [("test", 99), ("train", 900)]
    (download,) = ask.inputs("reviews:1.0.0")
    assert (download.kind, download.name) == ("download", "https://data.example.org/reviews.zip")
    # Those of the set that it was made from are behind it, too.
    names = {each.name for each in ask.inputs("tokens")}
    assert names == {"https://data.example.org/reviews.zip", "https://data.example.org/tokens.zip"}


def test_lineage(ask, story):
    up = ask.lineage("tokens", "up")
    assert up.start.name == "tokens:0.1.0"
    assert "reviews:1.0.0" in {node.name for node in up.nodes}
    near = ask.lineage("tokens", "up", 1)
    assert {e.child for e in near.edges} == {story.tokens.id}
    down = ask.lineage("reviews:1.0.0", "down")
    assert "tokens:0.1.0" in {node.name for node in down.nodes}
    assert down.depth is None
    middle = next(node for node in up.nodes if node.name == "reviews:1.0.0")
    both = ask.lineage(middle.id, "both")
    ways = [ask.lineage(middle.id, way) for way in ("up", "down")]
    assert both.direction == "both"
    assert both.start.id == middle.id
    assert len(both.nodes) == len({node.id for node in both.nodes})
    assert {node.id for node in both.nodes} == {n.id for way in ways for n in way.nodes}
    assert set(both.edges) == {edge for way in ways for edge in way.edges}
    assert "tokens:0.1.0" in {node.name for node in both.nodes}
    frame = up.to_frame()
    assert set(frame["child"]) >= {"tokens:0.1.0", "reviews:1.0.0"}
    stage = next(node for node in up.nodes if node.kind == "stage")
    assert ask.lineage(stage.id).start.name == stage.name
    with pytest.raises(SettingsError, match="'up', 'down' or 'both'"):
        ask.lineage("tokens", "sideways")
    with pytest.raises(UnknownReference):
        ask.lineage("f" * 40)


def test_runs(ask, story):
    found = ask.runs("reviews")
    assert [each.version for each in found] == ["1.1.0", "1.0.0"]
    run = ask.run(found[0].id[:8])
    assert run.version is not None
    assert run.version.id == story.two.id
    assert [stage.key for stage in run.stages] == ["download", "shards/train/00000"]
    assert run.stages[1].why == ("forced",)
    assert len(run.to_frame()) == 2
    assert ask.runs(limit=1).more
    with pytest.raises(UnknownReference, match="Did you mean"):
        ask.runs("revews")
    with pytest.raises(UnknownReference, match="provender runs"):
        ask.run("f" * 32)


def test_a_run_that_reused_work_shows_the_hits_first(ask, make, catalog, story):
    before = catalog.stages(dataset="reviews", key="download")[0]
    make("reviews", "1.2.0", hits=[before.id])
    run = ask.run(ask.runs("reviews")[0].id)
    assert [(s.key, s.state) for s in run.stages][:2] == [
        ("download", "hit"),
        ("download", "succeeded"),
    ]
    assert run.stages[0].run_id != run.id
    noop = catalog.record_noop_run("build", "reviews", "", "1.2.0", {}, {}, story.one.id)
    assert ask.run(noop).version.id == story.one.id


def test_why(ask, story, catalog):
    latest = {each.key: each.why for each in ask.why("reviews")}
    assert latest["shards/train/00000"] == ("forced",)
    (first,) = ask.why("reviews:1.0.0", "shards")
    assert first.why == ("never run before",)
    assert ask.why("reviews:1.0.0", "shards/train/00000") == (first,)
    assert ask.why(first.id) == (first,)
    assert ask.why(first.name) == ask.why("reviews", "shards/train/00000")
    run = ask.runs("reviews")[-1]
    assert {each.run_id for each in ask.why("reviews", run=run.id)} == {run.id}
    with pytest.raises(UnknownReference, match=r"There are: download, shards/train/00000"):
        ask.why("reviews", "shrads")
    catalog.record_stage(
        None, "broken", "", "download", "f", state="failed", error={"message": "no net"}
    )
    catalog.begin_run("build", "broken", "", None)
    (failed,) = ask.why("broken")
    assert (failed.state, failed.error) == ("failed", "no net")


def test_consumers(ask, story):
    found = ask.consumers("reviews:1.0.0")
    jobs = {each.name: each for each in found if each.kind == "job"}
    assert jobs.keys() == {"train-7", "eval-2"}
    direct = jobs["train-7"]
    assert (direct.reads, direct.splits) == (2, ("train", "test"))
    assert direct.through == "reviews:1.0.0"
    assert direct.first < direct.last
    # It read what was made from the version.
    assert jobs["eval-2"].through == "tokens:0.1.0"
    (made,) = [each for each in found if each.kind == "version"]
    assert (made.name, made.through) == ("tokens:0.1.0", "reviews:1.0.0")
    assert [each.name for each in ask.consumers("reviews:1.1.0")] == ["train-8"]
    assert ask.consumers("wiki/en") == ()


def test_transforms_depend_on_what_they_read(ask, story, catalog):
    catalog.record_stage(
        None, "reviews", "", "transform/map", "tf", state="succeeded", inputs=[story.two.id]
    )
    found = ask.consumers("reviews:1.1.0")
    assert [(e.kind, e.name) for e in found] == [
        ("job", "train-8"),
        ("stage", "reviews:transform/map"),
    ]


def test_consumed_by(ask, story, catalog):
    found = ask.consumed_by("train-7")
    assert [each.splits for each in found] == [("train", "test"), ("train",)]
    assert found[1].facts == {"model": "m7"}
    assert found[0].fingerprint == story.one.fingerprint
    catalog.retract(story.one.id, "labels shifted", "ann")
    assert ask.consumed_by("train-7", limit=1)[0].retract_reason == "labels shifted"
    assert ask.consumed_by("train-7", limit=1).more
    assert ask.jobs() == ("eval-2", "train-7", "train-8")
    assert len(ask.readings("reviews:1.0.0")) == 2
    with pytest.raises(UnknownReference, match=r"Did you mean train-[78] or train-[78]\?"):
        ask.consumed_by("train-9")


def test_stats(ask, story, catalog):
    document = {
        "features": {
            "label": {
                "kind": "label",
                "examples": 90,
                "distinct": {"count": 2},
                "numbers": {"min": 0, "max": 1, "mean": "nan"},
            }
        }
    }
    catalog.set_statistics(story.one.id, {"train": document})
    (row,) = ask.stats("reviews:1.0.0")
    assert (row.split, row.feature, row.distinct, row.maximum) == ("train", "label", 2, 1.0)
    assert row.mean != row.mean
    assert ask.stats("reviews:1.1.0") == ()


def test_a_package_that_can_be_called(url, catalog, make, tmp_path, monkeypatch):
    make("reviews", "1.0.0")
    with provender.catalog(url) as ask:
        assert isinstance(ask, Questions)
        assert ask.datasets()[0].name == "reviews"
    monkeypatch.setenv("PROVENDER_CATALOG", url)
    with provender.catalog() as ask:
        assert len(ask.versions()) == 1
    assert provender.catalog.Catalog is Catalog


def test_answers_cannot_be_changed(ask, story):
    found = ask.versions()
    assert isinstance(found, Rows)
    assert found.kind is VersionSummary
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].status = "published"
    with pytest.raises(TypeError):
        found[0] = found[1]


@pytest.mark.parametrize(
    ("ask_for", "said"),
    [
        (lambda ask: ask.versions(status="publishd"), "no status 'publishd'"),
        (lambda ask: ask.versions(status=["trial", "gone"]), "no status 'gone'"),
        (lambda ask: ask.versions(limit=-1), "-1 is not a whole number"),
        (lambda ask: ask.versions(offset=-1), "-1 is not a whole number"),
        (lambda ask: ask.runs(limit=-3), "-3 is not a whole number"),
        (lambda ask: ask.search("x", limit=-1), "-1 is not a whole number"),
        (lambda ask: ask.sql("SELECT 1", limit=-1), "-1 is not a whole number"),
        (lambda ask: ask.lineage("reviews", depth=-1), "-1 is not a whole number"),
        (lambda ask: ask.lineage("reviews", depth="2"), "'2' is not a whole number"),
    ],
    ids=["status", "statuses", "limit", "offset", "runs", "search", "sql", "depth", "text"],
)
def test_arguments_that_make_no_sense(ask, story, ask_for, said):
    with pytest.raises(SettingsError, match=said):
        ask_for(ask)


def test_one_status_is_enough(ask, story, catalog):
    catalog.retract(story.one.id, "wrong", "ann", None)
    assert [each.name for each in ask.versions(status="retracted")] == ["reviews:1.0.0"]


def test_datasets_and_aliases_that_are_not_there(ask, story):
    with pytest.raises(UnknownReference) as caught:
        ask.datasets("reviws")
    assert "reviews" in str(caught.value.hint)
    with pytest.raises(UnknownReference) as caught:
        ask.alias_history("reviews", "goldn")
    assert caught.value.hint == "Did you mean @golden?"


def test_sql_as_a_frame(ask, story):
    frame = ask.sql("SELECT dataset, examples FROM v_versions ORDER BY 1").to_frame()
    assert list(frame.columns) == ["dataset", "examples"] and len(frame) == 5
    assert list(ask.sql("SELECT dataset FROM v_versions", limit=0).to_frame().columns) == [
        "dataset"
    ]
