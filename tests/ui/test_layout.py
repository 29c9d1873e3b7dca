"""The lineage picture: grouped, layered, without overlaps, whatever the graph."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.catalog import LineageEdge, LineageNode
from provender.ui.grouping import picture, versions_only
from provender.ui.layout import BOX_HEIGHT, BOX_WIDTH, layout
from provender.ui.pages.lineage import _fitted, _width

GRAPHS = st.integers(1, 14).flatmap(
    lambda n: st.tuples(
        st.just([f"n{i}" for i in range(n)]),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30),
    )
)


def stage(id: str, key: str, state: str = "succeeded") -> LineageNode:
    return LineageNode(id, "stage", f"d:{key}", {"state": state})


def version(id: str, name: str = "d:1.0.0") -> LineageNode:
    return LineageNode(id, "version", name, {"status": "published"})


def edges(*pairs: str) -> list[LineageEdge]:
    """``"a>b"``: b was made from a."""
    return [LineageEdge(pair.split(">")[1], pair.split(">")[0], None) for pair in pairs]


@given(GRAPHS)
def test_no_box_lies_on_another(graph: tuple[list[str], list[tuple[int, int]]]) -> None:
    ids, numbers = graph
    found = layout(ids, [(ids[a], ids[b]) for a, b in numbers])
    assert set(found.places) == set(ids)
    assert sorted(id for layer in found.layers for id in layer) == sorted(ids)
    for (ax, ay), (bx, by) in combinations(found.places.values(), 2):
        assert abs(ax - bx) >= BOX_WIDTH or abs(ay - by) >= BOX_HEIGHT
    for x, y in found.places.values():
        assert x >= 0 and x + BOX_WIDTH <= found.width
        assert y >= 0 and y + BOX_HEIGHT <= found.height
    wanted = {(ids[a], ids[b]) for a, b in numbers if a != b}
    # Of two boxes that lead to each other one line is drawn.
    assert set(map(frozenset, found.lines)) == set(map(frozenset, wanted))


@given(GRAPHS)
def test_arrows_of_a_graph_without_cycles_go_right(
    graph: tuple[list[str], list[tuple[int, int]]],
) -> None:
    ids, numbers = graph
    pairs = [(ids[a], ids[b]) for a, b in numbers if a < b]
    found = layout(ids, pairs)
    for a, b in pairs:
        assert found.places[a][0] < found.places[b][0]


def test_the_same_graph_gives_the_same_picture() -> None:
    ids, pairs = list("abcdef"), [("a", "c"), ("b", "c"), ("c", "d"), ("a", "e"), ("e", "f")]
    assert layout(ids, pairs) == layout(ids, pairs)


def test_a_ladder_is_drawn_without_crossings() -> None:
    ids = [f"{row}{i}" for i in range(4) for row in "ab"]
    pairs = [(f"{row}{i}", f"{row}{i + 1}") for i in range(3) for row in "ab"]
    found = layout(ids, pairs)
    above = [found.places[f"a{i}"][1] < found.places[f"b{i}"][1] for i in range(4)]
    assert len(set(above)) == 1


def test_alike_shards_are_one_box_that_opens() -> None:
    shards = [stage(f"s{i}", f"shards/train/{i:05d}") for i in range(200)]
    nodes = [version("v"), *shards, stage("e", "examples/train")]
    lines = edges(*(f"s{i}>v" for i in range(200)), *(f"e>s{i}" for i in range(200)), "e>v")
    found = picture("v", nodes, lines)
    assert len(found.boxes) == 3
    box = next(each for each in found.boxes.values() if each.key)
    assert (box.name, len(box.members)) == ("d:shards/train/00000..00199", 200)
    # From examples to the version there is only the way through the shards.
    assert sorted(found.arrows) == sorted([("e", box.id), (box.id, "v")])
    assert len(picture("v", nodes, lines, apart=[box.key]).boxes) == 202


def test_failed_shards_are_not_hidden_among_the_others() -> None:
    shards = [
        stage(f"s{i}", f"shards/train/{i:05d}", "failed" if i < 3 else "succeeded")
        for i in range(9)
    ]
    found = picture("v", [version("v"), *shards], edges(*(f"s{i}>v" for i in range(9))))
    assert sorted(each.state for each in found.boxes.values() if each.key) == [
        "failed",
        "succeeded",
    ]


def test_the_start_is_never_inside_a_group() -> None:
    shards = [stage(f"s{i}", f"shards/train/{i:05d}") for i in range(9)]
    found = picture("s4", [*shards, version("v")], edges(*(f"s{i}>v" for i in range(9))))
    assert found.boxes["s4"].members == (shards[4],)


def test_only_versions_are_linked_by_what_lay_between() -> None:
    nodes = [
        version("a"),
        version("b"),
        version("c"),
        stage("s", "x"),
        stage("t", "y"),
        LineageNode("d", "artifact", "d", {}),
    ]
    lines = edges("d>s", "a>s", "s>t", "t>b", "s>b", "b>t2", "b>c", "a>c", "t>t")
    kept, found = versions_only("c", nodes, lines)
    assert [node.id for node in kept] == ["a", "b", "c", "d"]
    assert sorted((e.parent, e.child) for e in found) == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
        ("d", "b"),
    ]
    kept, _ = versions_only("s", nodes, lines)
    assert "s" in {node.id for node in kept}


def test_the_farthest_boxes_are_left_out() -> None:
    nodes = [stage(f"n{i}", f"step{i}x") for i in range(100)]
    lines = edges(*(f"{a.id}>{b.id}" for a, b in pairwise(nodes)))
    found = picture("n99", nodes, lines, most=10)
    assert set(found.boxes) == {f"n{i}" for i in range(90, 100)} and found.left_out == 90


@pytest.mark.parametrize(
    "lines",
    [["v>a", "a>v"], ["a>b", "b>a", "a>v", "b>v"], ["v>v"], ["a>v", "b>a", "gone>v", "v>gone"]],
    ids=["two", "behind", "self", "missing"],
)
def test_cycles_and_missing_ends_are_drawn(lines: list[str]) -> None:
    nodes = [version("v"), stage("a", "a"), stage("b", "b")]
    found = picture("v", nodes, edges(*lines))
    assert set(found.boxes) == {"v", "a", "b"}
    layout(list(found.boxes), found.arrows)


@pytest.mark.parametrize("text", ["short", "x" * 500, "東" * 99, "a東" * 40, "", "ab" * 13])
def test_texts_fit_into_boxes(text: str) -> None:
    assert _width(_fitted(text, 26)) <= 26
    assert _fitted(text, 26) == text or "…" in _fitted(text, 26)
