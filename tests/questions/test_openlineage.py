"""Events are valid, and what OpenLineage's own client makes of the same facts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from openlineage.client import event_v2, facet_v2
from openlineage.client.serde import Serde
from tests.questions.conftest import now
from tests.questions.openlineage_schema import faults

from provender.catalog import Lineage
from provender.questions.openlineage import Exporter, address_of, place_of, producer

FACETS = {
    "schema": facet_v2.schema_dataset.SchemaDatasetFacet,
    "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
    "dataSource": facet_v2.datasource_dataset.DatasourceDatasetFacet,
    "documentation": facet_v2.documentation_dataset.DocumentationDatasetFacet,
    "datasetType": facet_v2.dataset_type_dataset.DatasetTypeDatasetFacet,
    "tags": facet_v2.tags_dataset.TagsDatasetFacet,
    "outputStatistics": facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    "parent": facet_v2.parent_run.ParentRunFacet,
    "errorMessage": facet_v2.error_message_run.ErrorMessageRunFacet,
    "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet,
    "jobType": facet_v2.job_type_job.JobTypeJobFacet,
}


def fields(documents):
    """Nested fields of a schema, as the client's own values."""
    kind = facet_v2.schema_dataset.SchemaDatasetFacetFields
    return [kind(**{**each, "fields": fields(each.get("fields", []))}) for each in documents]


def typed(name, document):
    """A facet as the client's own value, which takes no name that it does not know."""
    known = {k: v for k, v in document.items() if not k.startswith("_")}
    if name.startswith("provender_"):
        return None
    if name == "schema":
        known["fields"] = fields(known["fields"])
    if name == "tags":
        known["tags"] = [facet_v2.tags_dataset.TagsDatasetFacetFields(**t) for t in known["tags"]]
    if name == "parent":
        module = facet_v2.parent_run
        known = {"run": module.Run(**known["run"]), "job": module.Job(**known["job"])}
    return FACETS[name](producer=document["_producer"], **known)


def facets_of(documents):
    """Facets as the client's own values; Provender's own, of which it knows nothing, left out."""
    for name, document in documents.items():
        if name.startswith("provender_"):
            assert document["_producer"] == producer()
            assert document["_schemaURL"].startswith("https://openlineage.io/spec/2-0-2/")
    own = {n: typed(n, d) for n, d in documents.items()}
    return {name: value for name, value in own.items() if value is not None}


def check(event):
    """Validates an event, makes it anew of the client's values, and compares what both say."""
    assert faults(json.loads(json.dumps(event, allow_nan=False))) == []
    made = event_v2.RunEvent(
        eventType=event_v2.RunState(event["eventType"]),
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=event_v2.Run(event["run"]["runId"], facets=facets_of(event["run"]["facets"])),
        job=event_v2.Job(
            event["job"]["namespace"],
            event["job"]["name"],
            facets=facets_of(event["job"]["facets"]),
        ),
        inputs=[
            event_v2.InputDataset(each["namespace"], each["name"], facets=facets_of(each["facets"]))
            for each in event["inputs"]
        ],
        outputs=[
            event_v2.OutputDataset(
                each["namespace"],
                each["name"],
                facets=facets_of(each["facets"]),
                outputFacets=facets_of(each.get("outputFacets", {})),
            )
            for each in event["outputs"]
        ],
    )
    assert without_empties(Serde.to_dict(made)) == without_empties(event)
    return event


def without_empties(value):
    """A document without empty parts, which both leave out or not, and without our own facets."""
    if isinstance(value, list):
        return [without_empties(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {k: without_empties(v) for k, v in value.items() if not k.startswith("provender_")}
    return {name: each for name, each in kept.items() if each not in ({}, [])}


def bare(datasets):
    return [(each["namespace"], each["name"]) for each in datasets]


def test_history(catalog, story):
    events = [check(event) for event in Exporter(catalog).history()]
    runs = [event for event in events if event["job"]["name"].startswith("build.")]
    assert [event["eventType"] for event in runs] == ["START", "COMPLETE"] * 5
    made = next(e for e in runs if e["outputs"] and e["job"]["name"] == "build.tokens")
    assert UUID(made["run"]["runId"]).hex == story.tokens.run_id
    assert bare(made["outputs"]) == [("file", "/store/datasets/tokens")]
    assert made["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 100
    assert ("file", "/store/datasets/reviews") in bare(made["inputs"])
    assert ("https://data.example.org", "reviews.zip") in bare(made["inputs"])
    fields = {f["name"]: f for f in made["outputs"][0]["facets"]["schema"]["fields"]}
    assert fields["label"]["type"] == "ClassLabel 2 classes"
    assert fields["boxes"]["fields"] == [{"name": "topLeft", "type": "Tensor(2) float32"}]
    reads = [event for event in events if event["job"]["name"].startswith(("train", "eval"))]
    assert [event["eventType"] for event in reads] == ["START"] * 4
    assert reads[0]["run"]["facets"]["provender_read"]["facts"] == {"model": "m7"}


def test_a_span_of_time(catalog, story):
    exporter = Exporter(catalog)
    early = list(exporter.history(until=story.after_one))
    late = list(exporter.history(since=story.after_one))
    assert [event["job"]["name"] for event in early] == ["build.reviews"] * 2
    assert len(early) + len(late) == len(list(exporter.history()))
    assert list(exporter.history(since=now())) == []


def test_stages_are_runs_below_their_run(catalog, story):
    events = [check(event) for event in Exporter(catalog, "team", stages=True).history()]
    stages = [event for event in events if "parent" in event["run"]["facets"]]
    assert len(stages) == 2 * 2 * 5
    shard = next(
        e for e in stages
        if e["job"]["name"] == "tokens.shards/train/00000" and e["eventType"] == "COMPLETE"
    )  # fmt: skip
    assert shard["run"]["facets"]["parent"]["job"] == {"namespace": "team", "name": "build.tokens"}
    assert ("team", "artifact/sha-tokens") in bare(shard["inputs"])
    assert ("file", "/store/datasets/reviews") in bare(shard["inputs"])
    assert bare(shard["outputs"]) == [("team", "artifact/shard-of-tokens0.1.0")]


def test_what_failed_and_what_still_runs(catalog):
    failed = catalog.begin_run("build", "reviews", "", "1.0.0")
    error = {"type": "InputError", "message": "no net"}
    stage = catalog.record_stage(
        failed, "reviews", "", "download", "f", state="failed", error=error
    )
    catalog.finish_run(failed, "failed", {"error": error})
    running = catalog.begin_run("build", "reviews", "", "1.0.0")
    catalog.start_stage(running, "reviews", "", "download", "g")
    stopped = catalog.begin_run("build", "reviews", "", "1.0.0")
    catalog.finish_run(stopped, "interrupted")
    catalog.record_noop_run("build", "reviews", "", "1.0.0", {}, {}, None)
    events = [check(event) for event in Exporter(catalog, stages=True).history()]
    kinds = {}
    for event in events:
        kinds.setdefault(UUID(event["run"]["runId"]).hex, []).append(event["eventType"])
    assert kinds[failed] == kinds[stage.id] == ["START", "FAIL"]
    assert kinds[running] == ["START"]
    assert kinds[stopped] == ["START", "ABORT"]
    ends = [e for e in events if e["eventType"] == "FAIL"]
    assert {e["run"]["facets"]["errorMessage"]["message"] for e in ends} == {"no net"}


def test_a_graph(catalog, ask, story):
    graph = ask.lineage("tokens")
    whole = Lineage(tuple(graph.nodes), tuple(graph.edges))
    events = [check(event) for event in Exporter(catalog).of_graph(whole)]
    jobs = [event["job"]["name"] for event in events]
    assert {"build.tokens", "build.reviews", "reviews.download"} <= set(jobs)


def test_tags_and_aliases_travel(catalog, make):
    version = make("reviews", "1.0.0")
    catalog.add_tags(version.id, ["clean"])
    done = [check(event) for event in Exporter(catalog).history()][-1]
    facets = done["outputs"][0]["facets"]
    assert facets["tags"]["tags"] == [{"key": "clean", "value": "true", "source": "USER"}]
    assert facets["provender_version"]["aliases"] == ["latest"]
    assert facets["version"]["datasetVersion"] == "1.0.0"


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (("run", "runId"), "7"),
        (("eventType",), "DONE"),
        (("eventTime",), "2026-03-01 12:00"),
        (("producer",), "provender"),
        (("job", "facets", "jobType", "integration"), None),
        (("outputs", 0, "facets", "dataSource", "uri"), "/store/a b"),
        (("outputs", 0, "facets", "schema", "fields", 0, "name"), 7),
        (("outputs", 0, "outputFacets", "outputStatistics", "rowCount"), "ten"),
        (("run", "facets", "processing_engine", "_schemaURL"), "https://openlineage.io/none.json"),
    ],
    ids=lambda value: str(value[-1]) if isinstance(value, tuple) else "",
)
def test_the_schema_finds_what_is_wrong(catalog, make, where, wrong):
    make("reviews", "1.0.0")
    event = json.loads(json.dumps(list(Exporter(catalog).history())[-1]))
    assert faults(event) == []
    *way, last = where
    part = event
    for step in way:
        part = part[step]
    if wrong is None:
        del part[last]
    else:
        part[last] = wrong
    assert faults(event)


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("/store/a b/ü#1", "file:///store/a%20b/%C3%BC%231"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("gs://bucket/a b%", "gs://bucket/a%20b%25"),
    ],
    ids=["local", "bucket", "spaces"],
)
def test_addresses_are_uris(place, address):
    assert address_of(place) == address


@pytest.mark.parametrize(
    ("uri", "drop", "place"),
    [
        ("/store/a/1.0.0", "1.0.0", ("file", "/store/a")),
        ("gs://bucket/data/a/1.0.0/", "1.0.0", ("gs://bucket", "data/a")),
        ("https://u:secret@host:8080/a/b.zip?v=1", "", ("https://host:8080", "a/b.zip?v=1")),
        ("gs://bucket", "", ("gs://bucket", "/")),
    ],
    ids=["local", "bucket", "secret", "bare"],
)
def test_places(uri, drop, place):
    assert place_of(uri, drop) == place


def test_times_are_utc(catalog, make):
    make("reviews", "1.0.0")
    event = next(iter(Exporter(catalog).history()))
    assert event["eventTime"].endswith("Z")
    assert (
        abs((datetime.fromisoformat(event["eventTime"]) - datetime.now(UTC)).total_seconds()) < 60
    )
