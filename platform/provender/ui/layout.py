"""Where the boxes of a layered graph go: left to right, few crossings, no overlaps.

The classical four steps (Sugiyama, Tagawa, Toda 1981): break cycles, give each node a layer by its
longest path, order each layer by the barycentre of its neighbours, then place it. Edges that span
layers pass through invisible points, so that they bend around boxes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

BOX_WIDTH, BOX_HEIGHT = 196, 46
_GAP_X, _GAP_Y, _POINT_HEIGHT = 56, 14, 8
_MARGIN = 10
_SWEEPS = 8

Edge = tuple[str, str]
_Node = str | tuple[str, str, int]
"""A box by its id, or a point of an edge in a layer."""


@dataclass(frozen=True)
class Layout:
    """Places in pixels.

    Attributes:
        width: of the whole picture.
        height: of the whole picture.
        places: box id -> (left, top).
        lines: edge -> SVG path data.
        layers: box ids from left to right, each layer from top to bottom.
    """

    width: int
    height: int
    places: Mapping[str, tuple[int, int]]
    lines: Mapping[Edge, str]
    layers: Sequence[Sequence[str]]


def layout(ids: Sequence[str], edges: Iterable[Edge]) -> Layout:
    """Places boxes.

    Args:
        ids: the boxes.
        edges: (from, to) ids; cycles are allowed.

    Returns:
        The places. The same input gives the same picture.
    """
    wanted = [(a, b) for a, b in dict.fromkeys(edges) if a != b]
    forward = _acyclic(ids, wanted)
    layer = _layers(ids, forward)
    columns, chains = _with_points(ids, forward, layer)
    near = _neighbours(chains)
    _order(columns, near)
    tops = _tops(columns, near)
    return _placed(columns, chains, tops, set(wanted))


def _acyclic(ids: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """The edges with those turned around that close a cycle."""
    after: dict[str, list[str]] = defaultdict(list)
    for a, b in edges:
        after[a].append(b)
    state: dict[str, int] = {}
    turned: set[Edge] = set()
    for root in ids:
        if root in state:
            continue
        state[root] = 1
        stack = [(root, iter(after[root]))]
        while stack:
            here, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[here] = 2
                stack.pop()
            elif state.get(following) == 1:
                turned.add((here, following))
            elif following not in state:
                state[following] = 1
                stack.append((following, iter(after[following])))
    return list(dict.fromkeys((b, a) if (a, b) in turned else (a, b) for a, b in edges))


def _layers(ids: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The longest path to each box; sources then move right, next to what they lead to."""
    after, before = defaultdict(list), defaultdict(list)
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    left = {id: len(before[id]) for id in ids}
    layer = dict.fromkeys(ids, 0)
    ready = [id for id in ids if not left[id]]
    for here in ready:
        for each in after[here]:
            layer[each] = max(layer[each], layer[here] + 1)
            left[each] -= 1
            if not left[each]:
                ready.append(each)
    for here in reversed(ready):
        if after[here] and not before[here]:
            layer[here] = min(layer[each] for each in after[here]) - 1
    lowest = min(layer.values(), default=0)
    return {id: each - lowest for id, each in layer.items()}


def _with_points(
    ids: Sequence[str], edges: Sequence[Edge], layer: Mapping[str, int]
) -> tuple[list[list[_Node]], dict[Edge, list[_Node]]]:
    """The columns, and each edge as the chain of what it passes through."""
    columns: list[list[_Node]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for id in ids:
        columns[layer[id]].append(id)
    chains: dict[Edge, list[_Node]] = {}
    for a, b in edges:
        points: list[_Node] = [(a, b, at) for at in range(layer[a] + 1, layer[b])]
        for at, point in enumerate(points, layer[a] + 1):
            columns[at].append(point)
        chains[a, b] = [a, *points, b]
    return columns, chains


def _neighbours(chains: Mapping[Edge, Sequence[_Node]]) -> dict[_Node, list[_Node]]:
    near: dict[_Node, list[_Node]] = defaultdict(list)
    for chain in chains.values():
        for a, b in itertools.pairwise(chain):
            near[a].append(b)
            near[b].append(a)
    return near


def _order(columns: list[list[_Node]], near: Mapping[_Node, Sequence[_Node]]) -> None:
    """Sorts each column by the mean position of its neighbours, back and forth."""
    position = {node: i for column in columns for i, node in enumerate(column)}
    column_of = {node: c for c, column in enumerate(columns) for node in column}
    for sweep in range(_SWEEPS):
        rightwards = sweep % 2 == 0
        numbers = range(1, len(columns)) if rightwards else range(len(columns) - 2, -1, -1)
        for c in numbers:
            beside = c - 1 if rightwards else c + 1
            means = {}
            for node in columns[c]:
                found = [position[each] for each in near[node] if column_of[each] == beside]
                means[node] = sum(found) / len(found) if found else float(position[node])
            columns[c].sort(key=lambda node: (means[node], position[node]))
            position.update({node: i for i, node in enumerate(columns[c])})


def _height(node: _Node) -> int:
    return BOX_HEIGHT if isinstance(node, str) else _POINT_HEIGHT


def _tops(
    columns: Sequence[Sequence[_Node]], near: Mapping[_Node, Sequence[_Node]]
) -> dict[_Node, float]:
    """Heights: each node as close to the middle of its neighbours as its column's order allows."""
    middle: dict[_Node, float] = {}
    for column in columns:
        at = 0.0
        for node in column:
            middle[node] = at + _height(node) / 2
            at += _height(node) + _GAP_Y
    for _ in range(_SWEEPS):
        for column in (*columns, *reversed(columns)):
            wanted = []
            for node in column:
                found = [middle[each] for each in near[node]]
                wanted.append(sum(found) / len(found) if found else middle[node])
            down = _spread(column, wanted)
            up = [-each for each in _spread(column[::-1], [-each for each in wanted[::-1]])][::-1]
            middle.update({n: (a + b) / 2 for n, a, b in zip(column, down, up, strict=True)})
    lowest = min((middle[n] - _height(n) / 2 for n in middle), default=0.0)
    return {node: middle[node] - _height(node) / 2 - lowest for node in middle}


def _spread(column: Sequence[_Node], wanted: Sequence[float]) -> list[float]:
    """The wanted middles, each moved down as far as the one above it needs room."""
    found: list[float] = []
    floor = float("-inf")
    for node, want in zip(column, wanted, strict=True):
        half = _height(node) / 2
        here = max(want, floor + half)
        found.append(here)
        floor = here + half + _GAP_Y
    return found


def _placed(
    columns: Sequence[Sequence[_Node]],
    chains: Mapping[Edge, Sequence[_Node]],
    tops: Mapping[_Node, float],
    wanted: set[Edge],
) -> Layout:
    places: dict[_Node, tuple[int, int]] = {}
    for c, column in enumerate(columns):
        for node in column:
            places[node] = (_MARGIN + c * (BOX_WIDTH + _GAP_X), _MARGIN + round(tops[node]))
    lines = {}
    for (a, b), chain in chains.items():
        edge = (a, b) if (a, b) in wanted else (b, a)
        lines[edge] = _path(chain, places)
    boxes = {node: place for node, place in places.items() if isinstance(node, str)}
    bottom = max((top + _height(node) for node, (_, top) in places.items()), default=0)
    return Layout(
        width=2 * _MARGIN + len(columns) * BOX_WIDTH + (len(columns) - 1) * _GAP_X,
        height=bottom + _MARGIN,
        places=boxes,
        lines=lines,
        layers=[[node for node in column if isinstance(node, str)] for column in columns],
    )


def _path(chain: Sequence[_Node], places: Mapping[_Node, tuple[int, int]]) -> str:
    """A line from the right edge of one box to the left edge of another, through its points."""
    left, top = places[chain[0]]
    x, y = left + BOX_WIDTH, top + BOX_HEIGHT // 2
    parts = [f"M{x} {y}"]
    for node in chain[1:]:
        to_x, to_top = places[node]
        to_y = to_top + _height(node) // 2
        bend = (to_x - x) // 2
        parts.append(f"C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}")
        x, y = to_x, to_y
        if not isinstance(node, str):
            x += BOX_WIDTH
            parts.append(f"L{x} {y}")
    return "".join(parts)
