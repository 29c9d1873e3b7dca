"""A lineage graph made small enough to look at: alike stages together, shortcuts left out.

A version of 10,000 shards has 10,000 executions behind it that differ in a number. They become one
box, unless someone asks to see them apart.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from provender.catalog import LineageEdge, LineageNode

MOST = 240
"""Boxes in one picture; the farthest ones are left out beyond that."""
_ALIKE = 3
_LONGEST_STEM = 300
_NUMBERED = re.compile(r"(?P<stem>.+/)(?P<number>\d+|part-\d+-of-\d+)")


@dataclass(frozen=True)
class Box:
    """What one box of the picture stands for.

    Attributes:
        id: of the node, or of the first of the group.
        kind: ``version``, ``stage`` or ``artifact``.
        name: as people read it; a range for a group.
        state: status or state, empty where there is none.
        members: the nodes of a group, in order; one for a single node.
        key: names a group in links; empty for a single node.
    """

    id: str
    kind: str
    name: str
    state: str
    members: tuple[LineageNode, ...]
    key: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes and the arrows between them, from what was there first to what was made of it.

    Attributes:
        start: id of the box that the picture is about.
        boxes: by id.
        arrows: (parent, child) ids of boxes.
        left_out: number of boxes that found no room.
        distance: box id -> arrows between it and the start.
    """

    start: str
    boxes: Mapping[str, Box]
    arrows: Sequence[tuple[str, str]]
    left_out: int = 0
    distance: Mapping[str, int] = field(default_factory=dict)


def picture(
    start: str,
    nodes: Iterable[LineageNode],
    edges: Iterable[LineageEdge],
    apart: Iterable[str] = (),
    most: int = MOST,
) -> Picture:
    """The picture of a lineage graph.

    Args:
        start: id of the node it is about.
        nodes: all nodes, the start among them.
        edges: all edges; those to nodes that are not there are ignored.
        apart: keys of groups to show one by one.
        most: boxes at most.
    """
    known = {node.id: node for node in nodes}
    pairs = {(e.parent, e.child) for e in edges if e.parent in known and e.child in known}
    box_of = _boxes(start, known, pairs, frozenset(apart))
    boxes = {box.id: box for box in box_of.values()}
    arrows = {(box_of[a].id, box_of[b].id) for a, b in pairs if box_of[a].id != box_of[b].id}
    arrows = _without_shortcuts(boxes, arrows)
    distance = _distances(start, arrows)
    kept = sorted(boxes, key=lambda id: (distance.get(id, len(boxes)), boxes[id].name))[:most]
    inside = set(kept)
    return Picture(
        start=start,
        boxes={id: boxes[id] for id in kept},
        arrows=sorted((a, b) for a, b in arrows if a in inside and b in inside),
        left_out=len(boxes) - len(kept),
        distance=distance,
    )


def versions_only(
    start: str, nodes: Iterable[LineageNode], edges: Iterable[LineageEdge]
) -> tuple[list[LineageNode], list[LineageEdge]]:
    """The graph without the stages between versions.

    Args:
        start: id of the node it is about; it stays whatever it is.
        nodes: all nodes.
        edges: all edges.

    Returns:
        The versions, and what came from outside; an edge stands for every way from one to another
        that meets no third.
    """
    kept = {node.id: node for node in nodes if node.kind != "stage" or node.id == start}
    parents: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        parents[edge.child].append(edge.parent)
    found = []
    for id in kept:
        todo, seen = list(parents[id]), {id}
        for each in todo:
            if each in seen:
                continue
            seen.add(each)
            if each in kept:
                found.append(LineageEdge(id, each, None))
            else:
                todo += parents[each]
    return list(kept.values()), found


def _boxes(
    start: str,
    known: Mapping[str, LineageNode],
    pairs: Iterable[tuple[str, str]],
    apart: frozenset[str],
) -> dict[str, Box]:
    """Node id -> its box."""
    used_by: dict[str, set[str]] = defaultdict(set)
    for parent, child in pairs:
        if known[child].kind == "version":
            used_by[parent].add(child)
    groups: dict[tuple[str, ...], list[LineageNode]] = defaultdict(list)
    for node in known.values():
        found = _NUMBERED.fullmatch(node.name) if node.kind == "stage" else None
        stem = found["stem"] if found else ""
        if 0 < len(stem) <= _LONGEST_STEM and node.id != start and stem not in apart:
            key = (stem, _state(node), *sorted(used_by[node.id]))
        else:
            key = ("", node.id)
        groups[key].append(node)
    found_boxes: dict[str, Box] = {}
    for (stem, *_), members in groups.items():
        if len(members) < _ALIKE:
            found_boxes |= {node.id: _single(node) for node in members}
            continue
        members.sort(key=lambda node: node.name)
        box = _group(stem, members)
        found_boxes |= {node.id: box for node in members}
    return found_boxes


def _single(node: LineageNode) -> Box:
    return Box(node.id, node.kind, node.name, _state(node), (node,))


def _group(stem: str, members: Sequence[LineageNode]) -> Box:
    first, last = members[0], members[-1]
    name = f"{first.name}..{last.name.removeprefix(stem)}"
    return Box(first.id, first.kind, name, _state(first), tuple(members), stem)


def _state(node: LineageNode) -> str:
    return str(node.facts.get("status") or node.facts.get("state") or "")


def _without_shortcuts(
    boxes: Mapping[str, Box], arrows: set[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Drops a version's arrows from what reaches it through another of its parents anyway."""
    parents: dict[str, set[str]] = defaultdict(set)
    for parent, child in arrows:
        parents[child].add(parent)
    shortcuts = set()
    for child, found in parents.items():
        if boxes[child].kind != "version":
            continue
        behind = set().union(*(parents.get(each, set()) - {child} for each in found))
        # Two that are behind each other (a cycle) would both go.
        shortcuts |= {
            (p, child)
            for p in found & behind
            if not (
                parents.get(p, set()) & found
                and any(p in parents.get(q, ()) for q in parents.get(p, set()) & found)
            )
        }
    return arrows - shortcuts


def _distances(start: str, arrows: Iterable[tuple[str, str]]) -> dict[str, int]:
    beside: dict[str, list[str]] = defaultdict(list)
    for a, b in arrows:
        beside[a].append(b)
        beside[b].append(a)
    found = {start: 0}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for each in beside[here]:
            if each not in found:
                found[each] = found[here] + 1
                queue.append(each)
    return found
