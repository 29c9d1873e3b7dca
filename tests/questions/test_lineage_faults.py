"""Lineage that should not be: cycles, and edges that lead to nothing. And drawings of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.catalog import Catalog, Lineage, LineageEdge, LineageNode
from provender.catalog import tables as t
from provender.cli.lineage_tree import tree_lines
from provender.questions.answers import joined
from provender.questions.drawing import dot, mermaid


def link(catalog, child, parent, kind="stage"):
    """An edge that no code of ours writes."""
    row = {"child_id": child, "parent_id": parent, "via": ""}
    row |= {"child_kind": "stage", "parent_kind": kind}
    catalog._write(lambda conn: conn.execute(t.lineage.insert(), row))


@pytest.fixture
def ring(catalog):
    """Three stages, each made from the next."""
    ids = [
        catalog.record_stage(None, "toy", "", f"s{i}", f"f{i}", state="succeeded").id
        for i in range(3)
    ]
    for i, id in enumerate(ids):
        link(catalog, id, ids[(i + 1) % 3])
    return ids


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("depth", [None, 1, 2, 3, 50])
def test_a_cycle_ends(catalog, ring, direction, depth):
    graph = catalog.lineage(ring[0], direction, depth)
    assert graph.nodes[0].id == ring[0]
    assert len(graph.nodes) == min(3, 1 + (depth or 3))
    assert len(graph.edges) == min(3, depth or 3)
    lines = list(tree_lines(graph, direction, verbose=False))
    assert len([line for line in lines if "toy:s" in line]) >= len(graph.nodes)
    assert len(lines) <= 6


def test_a_stage_that_was_made_from_itself(catalog, ring):
    link(catalog, ring[0], ring[0])
    graph = catalog.lineage(ring[0])
    assert len(graph.nodes) == 3
    assert list(tree_lines(graph, "up", verbose=True))


def test_consumers_in_a_cycle(catalog, make):
    version = make("toy", "1.0.0")
    stage = catalog.stages(key="download")[0]
    link(catalog, stage.id, version.id, "version")
    found = catalog.consumers(version.id)
    assert [each.kind for each in found] in ([], ["version"])


def test_an_edge_to_nothing_is_shown_as_missing(catalog, ring):
    gone = "0" * 32
    link(catalog, ring[2], gone)
    graph = catalog.lineage(ring[0])
    (missing,) = [node for node in graph.nodes if node.kind == "missing"]
    assert (missing.id, missing.name) == (gone, f"stage {gone}")
    assert missing.facts["kind"] == "stage"
    assert any(f"stage {gone}  missing" in line for line in tree_lines(graph, "up", verbose=False))
    assert any(gone in line and "octagon" in line for line in dot(graph))
    assert any(gone in line for line in mermaid(graph))


HOSTILE = ['a"b', "a\\", "a\nb", "<script>", "a]) --> b", "#35;x", "‮esrever", "a'b`c;d&e"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_stay_inside_their_quotes(name):
    nodes = (LineageNode("1", "version", name, {}), LineageNode("2", "stage", "b", {}))
    graph = Lineage(nodes, (LineageEdge("1", "2", None),))
    lines = list(dot(graph))
    assert len(lines) == 3 + 2 + 1 + 1
    (text,) = re.findall(r'label="((?:[^"\\]|\\.)*)" shape=box', lines[3])
    assert text.replace('\\"', '"').replace("\\\\", "\\") == " ".join(name.split())
    lines = list(mermaid(graph))
    assert len(lines) == 4
    found = re.fullmatch(r'  n0\["([^"<>`]*)"\]', lines[1])
    assert found, lines[1]
    shown = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), found[1])
    assert shown == " ".join(name.split())


def test_drawings():
    nodes = (
        LineageNode("v", "version", "a:1.0.0", {"status": "retracted"}),
        LineageNode("s", "stage", "a:shards", {"state": "succeeded"}),
        LineageNode("f" * 40, "artifact", "f" * 40, {}),
    )
    edges = (
        LineageEdge("v", "s", "x"),
        LineageEdge("v", "s", "y"),
        LineageEdge("s", "f" * 40, None),
        LineageEdge("s", "not drawn", None),
    )
    text = "\n".join(dot(Lineage(nodes, edges)))
    assert 'label="a:1.0.0 (retracted)"' in text
    assert text.count("->") == 2
    assert "n1 -> n0" in text
    assert list(mermaid(Lineage(nodes, edges)))[-2:] == ["  n1 --> n0", "  n2 --> n1"]
    up, down = Lineage(nodes[:2], edges[:1]), Lineage((nodes[0], nodes[2]), edges[2:3])
    both = joined([up, down])
    assert [node.id for node in both.nodes] == ["v", "s", "f" * 40]
    assert len(both.edges) == 2


NODES = [f"{i:032x}" for i in range(8)]


@settings(max_examples=60, deadline=None)
@given(
    edges=st.sets(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=24),
    direction=st.sampled_from(["up", "down"]),
    depth=st.one_of(st.none(), st.integers(1, 6)),
)
def test_any_graph(graph_catalog, edges, direction, depth):
    """Whatever the edges: those within the depth, each once, and every node they name."""
    near, far = (0, 1) if direction == "up" else (1, 0)
    wanted, seen, border = set(), {NODES[0]}, {NODES[0]}
    for _ in range(len(NODES) if depth is None else depth):
        beside = {edge for edge in edges if edge[near] in border}
        wanted |= beside
        border = {edge[far] for edge in beside} - seen
        seen |= border
    rows = [
        {"child_id": c, "parent_id": p, "via": "", "child_kind": "stage", "parent_kind": "stage"}
        for c, p in edges
    ]

    def work(conn):
        conn.execute(t.lineage.delete())
        if rows:
            conn.execute(t.lineage.insert(), rows)

    graph_catalog._write(work)
    graph = graph_catalog.lineage(NODES[0], direction, depth)
    assert sorted((e.child, e.parent) for e in graph.edges) == sorted(wanted)
    assert {node.id for node in graph.nodes} == seen
    assert graph.nodes[0].id == NODES[0]
    lines = list(tree_lines(graph, direction, verbose=True))
    assert len(lines) <= 1 + len(wanted)
    assert all(any(node[-2:] in line for line in lines) for node in seen)


@pytest.fixture(scope="module")
def graph_catalog(tmp_path_factory):
    """A catalog in which every node is a stage, named after the end of its id."""
    with Catalog.open(tmp_path_factory.mktemp("graph") / "catalog.db") as catalog:
        made = catalog.record_stage(None, "g", "", "x", "f", state="succeeded")

        def work(conn):
            (row,) = conn.execute(t.stage_execution.select()).all()
            conn.execute(t.stage_execution.delete())
            copies = [
                {**row._mapping, "seq": i + 1, "id": id, "key": f"stage-{id[-2:]}"}
                for i, id in enumerate(NODES)
            ]
            conn.execute(t.stage_execution.insert(), copies)

        catalog._write(work)
        assert made.id not in NODES
        yield catalog
