"""Lineage, up and down, and the documented views."""

from __future__ import annotations

import pytest

from provender.catalog import VIEWS, ArtifactRecord
from provender.errors import CatalogError, UnknownReference


def stage(catalog, key, outputs=(), inputs=(), dataset="toy", fingerprint=None, **more):
    made = [ArtifactRecord(d, 1, f"/store/{d}", name=d) for d in outputs]
    return catalog.record_stage(
        None, dataset, None, key, fingerprint or key,
        state="succeeded", outputs=made, inputs=inputs, **more,
    )  # fmt: skip


def names(graph):
    return {node.name for node in graph.nodes}


@pytest.fixture
def chain(catalog, publish):
    """download -> examples -> (shards of `publish`) -> toy:1.0.0, and a version built on that."""
    stage(catalog, "download", ["archive"], ["https://upstream"])
    examples = stage(catalog, "examples/train/0", ["run-a", "run-b"], ["archive"])
    version = publish("1.0.0", shard_inputs=["run-a", "run-b"])
    derived = publish("1.0.0", "derived", dataset="derived", lineage_inputs=[version.id])
    return examples, version, derived


def test_up(catalog, chain):
    _, version, _ = chain
    graph = catalog.lineage(version.id)
    assert graph.nodes[0].name == "toy:1.0.0"
    assert names(graph) == {
        "toy:1.0.0", "toy:shards/train/00000", "toy:examples/train/0", "toy:download",
        "https://upstream",
    }  # fmt: skip
    kinds = {node.id: node.kind for node in graph.nodes}
    assert {(kinds[e.child], kinds[e.parent], e.via) for e in graph.edges} == {
        ("version", "stage", None),
        ("stage", "stage", "run-a"),
        ("stage", "stage", "run-b"),
        ("stage", "stage", "archive"),
        ("stage", "artifact", "https://upstream"),
    }


def test_down(catalog, chain):
    examples, version, derived = chain
    below = catalog.lineage(examples.id, "down")
    assert names(below) == {
        "toy:examples/train/0", "toy:shards/train/00000", "toy:1.0.0", "derived:1.0.0",
    }  # fmt: skip
    assert names(catalog.lineage(version.id, "down")) == {"toy:1.0.0", "derived:1.0.0"}
    assert catalog.lineage(derived.id, "down").edges == ()


def test_depth(catalog, chain):
    _, version, _ = chain
    assert [len(catalog.lineage(version.id, depth=d).nodes) for d in range(6)] == [1, 2, 3, 4, 5, 5]
    full = catalog.lineage(version.id)
    far = catalog.lineage(version.id, depth=99)
    assert far.nodes == full.nodes
    assert set(far.edges) == set(full.edges)
    assert len(far.edges) == len(full.edges)
    assert [len(catalog.lineage("archive", "down", d).nodes) for d in range(4)] == [1, 2, 3, 4]


def test_from_an_artifact(catalog, chain):
    assert names(catalog.lineage("archive")) == {"archive", "toy:download", "https://upstream"}
    assert names(catalog.lineage("archive", "down")) == {
        "archive", "toy:examples/train/0", "toy:shards/train/00000", "toy:1.0.0", "derived:1.0.0",
    }  # fmt: skip
    assert len(catalog.lineage("https://upstream", "down").nodes) == 6
    with pytest.raises(UnknownReference):
        catalog.lineage("nothing")


def test_an_artifacts_siblings_are_not_below_it(catalog):
    stage(catalog, "download", ["good", "bad"])
    stage(catalog, "a", inputs=["good"])
    stage(catalog, "b", inputs=["bad"])
    assert names(catalog.lineage("bad", "down")) == {"bad", "toy:b"}


def test_an_old_version_keeps_its_ancestors_when_the_same_bytes_are_made_again(catalog, publish):
    third = None
    for number in range(1, 10):
        download = stage(catalog, "download", ["archive"], fingerprint=f"download-{number}")
        made = publish(f"{number}.0.0", shard_inputs=["archive"])
        if number == 3:
            third, its_download = made, download
    ids = {node.id for node in catalog.lineage(third.id).nodes if node.name == "toy:download"}
    assert ids == {its_download.id}


def test_a_shared_artifact_comes_from_the_own_dataset_first(catalog):
    own = stage(catalog, "download", ["archive"])
    stage(catalog, "download", ["archive"], dataset="other", fingerprint="o")
    child = stage(catalog, "examples", inputs=["archive"])
    assert [edge.parent for edge in catalog.lineage(child.id).edges] == [own.id]


def test_many_paths_visit_a_node_once(catalog):
    """60 layers of 3 that all depend on each other: 3**60 paths."""
    previous: list[str] = []
    for layer in range(60):
        previous = [
            stage(catalog, f"l{layer}/{i}", inputs=previous, fingerprint=f"{layer}-{i}").id
            for i in range(3)
        ]
    graph = catalog.lineage(previous[0])
    assert len(graph.nodes) == 59 * 3 + 1
    assert len(catalog.lineage(previous[0], depth=10).nodes) == 31


def view(catalog, name):
    result = catalog.sql(f"SELECT * FROM {name}")
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def test_views_are_as_documented(catalog):
    for name, columns in VIEWS.items():
        assert catalog.sql(f"SELECT * FROM {name}").columns == tuple(columns), name


def test_v_versions_and_v_lineage(catalog, chain):
    by_name = {row["dataset"]: row for row in view(catalog, "v_versions")}
    toy = by_name["toy"]
    assert (toy["version"], toy["status"], toy["aliases"]) == ("1.0.0", "published", "latest")
    assert [toy[c] for c in ("splits", "examples", "bytes", "shards")] == [2, 100, 999, 2]
    edges = {
        (row["child_name"], row["parent_name"], row["via"]) for row in view(catalog, "v_lineage")
    }
    assert ("toy:shards/train/00000", "toy:examples/train/0", "run-a") in edges
    assert ("derived:1.0.0", "toy:1.0.0", None) in edges
    assert ("toy:download", "https://upstream", "https://upstream") in edges


def test_v_stage_runs(catalog):
    catalog.record_stage(
        None, "toy", "big", "download", "fp",
        state="failed", error={"type": "DownloadError", "message": "gone"},
    )  # fmt: skip
    stage(catalog, "examples/0", ["a", "b"])
    good, bad = sorted(view(catalog, "v_stage_runs"), key=lambda row: row["state"], reverse=True)
    assert (bad["error"], bad["config"], bad["outputs"]) == ("gone", "big", 0)
    assert (good["stage"], good["outputs"], good["bytes"], good["error"]) == (
        "examples",
        2,
        2,
        None,
    )
    assert 0 <= good["seconds"] < 5


def test_reading_stops_once_there_is_enough(catalog):
    """A whole step is read, or nothing of it; the last node that is there has no way up."""
    ids = [stage(catalog, f"chain/{i}", [f"d{i}"], [f"d{i - 1}"] if i else []).id for i in range(6)]
    cut = catalog.lineage(ids[-1], "up", 5, enough=2)
    assert [node.id for node in cut.nodes[:1]] == [ids[-1]]
    assert {node.id for node in cut.nodes} == set(ids[3:])
    assert not cut.whole
    for depth in (5, 9):
        whole = catalog.lineage(ids[-1], "up", depth, enough=6)
        assert {node.id for node in whole.nodes} == set(ids)
        assert whole.whole


def test_v_cache_hits(catalog, publish):
    version = publish(run_id="r1")
    [reused] = catalog.stages()
    run = catalog.begin_run("build", "toy", None, None)
    catalog.record_hits(run, [reused.id])
    noop = catalog.record_noop_run("build", "toy", None, "1.0.0", {}, {}, version.id)
    by_run = {row["run_id"]: row for row in view(catalog, "v_cache_hits")}
    assert (by_run[run]["stage_id"], by_run[run]["key"]) == (reused.id, reused.key)
    assert (by_run[noop]["version_id"], by_run[noop]["produced_by"]) == (version.id, "r1")


def test_v_consumption(catalog, publish):
    version = publish()
    catalog.record_consumption(version.id, "train-xl", splits=["train"], facts={"step": 3})
    [row] = view(catalog, "v_consumption")
    assert (row["job"], row["dataset"], row["version"]) == ("train-xl", "toy", "1.0.0")
    assert (row["splits"], row["facts"]) == ('["train"]', '{"step":3}')


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM run",
        "DROP TABLE run",
        "SELECT 1; DELETE FROM run",
        "COMMIT; DELETE FROM run",
        "SELECT * FROM nothing",
    ],
)
def test_sql_only_reads(catalog, statement):
    catalog.begin_run("build", "toy", None, None)
    with pytest.raises(CatalogError):
        catalog.sql(statement)
    assert len(catalog.runs()) == 1
    catalog.begin_run("build", "toy", None, None)


def test_sql_rows_are_limited(catalog):
    for _ in range(3):
        catalog.begin_run("build", "toy", None, None)
    assert len(catalog.sql("SELECT id FROM run", limit=2).rows) == 2
    assert catalog.sql("SELECT id FROM run", limit=2).truncated
    assert not catalog.sql("SELECT id FROM run", limit=3).truncated
    assert len(catalog.sql("SELECT '%', id FROM run", limit=None).rows) == 3
