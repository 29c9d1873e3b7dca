"""Lineage as a picture that one can walk."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response

from provender.catalog import LineageEdge, LineageNode
from provender.ui.grouping import Box, Picture, picture, versions_only
from provender.ui.layout import Layout, layout
from provender.ui.parameters import Viewing
from provender.ui.reading import Direction
from provender.ui.text import plain
from provender.ui.view import View

router = APIRouter(include_in_schema=False)
DEPTHS = (1, 2, 3, 5, 8, 12, 20, 50)
_WIDE = 25
_WIDE_SMALL = 30

Depth = Annotated[int, Query(ge=1, le=50)]
Apart = Annotated[list[str], Query(max_length=20)]


@dataclass(frozen=True)
class Drawn:
    """A box as the template draws it.

    Attributes:
        href: where a click goes: the lineage from there, or the stack opened.
        page: the page of what it stands for.
        first: first line, cut to fit.
        second: second line.
        title: all of it, for the mouse.
        spoken: all of it, for screen readers.
        parents: names of the boxes that it was made from.
    """

    x: int
    y: int
    kind: str
    state: str
    name: str
    many: int
    start: bool
    href: str
    page: str
    first: str
    second: str
    title: str
    spoken: str
    parents: list[str]


@router.get("/lineage/{id:path}")
def lineage(
    at: Viewing,
    id: str,
    direction: Direction = "up",
    depth: Depth = 3,
    boxes: Literal["all", "versions"] = "all",
    size: Literal["full", "whole"] = "full",
    apart: Apart = [],  # noqa: B006 - fastapi copies it
) -> Response:
    """The lineage around a version, a stage execution or an artifact."""
    graph = at.library.lineage(id, direction, depth)
    at.check(*dataset_of(graph.start))
    nodes = [each for each in graph.nodes if all(map(at.sees, dataset_of(each)))]
    edges: Sequence[LineageEdge] = graph.edges
    if boxes == "versions":
        nodes, edges = versions_only(graph.start.id, nodes, edges)
    seen = picture(graph.start.id, nodes, edges, apart)
    asked = {"direction": direction, "depth": depth, "boxes": boxes, "size": size}
    asked = {name: value for name, value in asked.items() if value not in ("all", "full")}
    places = layout(list(seen.boxes), seen.arrows)
    return at.page(
        "lineage.html",
        start=graph.start,
        state=str(graph.start.facts.get("status") or graph.start.facts.get("state") or ""),
        direction=direction,
        depth=depth,
        depths=DEPTHS,
        apart=apart,
        drawing=places,
        lines=list(places.lines.values()),
        boxes=_drawn(at, seen, places, asked, apart),
        asked=asked,
        detail=boxes,
        size=size,
        left_out=seen.left_out,
        cut=graph.cut,
    )


def dataset_of(node: LineageNode) -> tuple[str, ...]:
    """The dataset that a node belongs to.

    None for an artifact from outside, and for a node that the catalog knows nothing else about.
    """
    if node.kind not in ("version", "stage"):
        return ()
    return (node.name.partition(":")[0].partition("/")[0],)


def _drawn(
    at: View, seen: Picture, places: Layout, query: dict[str, Any], apart: list[str]
) -> list[Drawn]:
    parents: dict[str, list[str]] = {id: [] for id in seen.boxes}
    for parent, child in seen.arrows:
        parents[child].append(seen.boxes[parent].name)
    found = []
    for layer in places.layers:
        for id in layer:
            box = seen.boxes[id]
            x, y = places.places[id]
            many = len(box.members)
            first, second = _lines(box)
            href = at.link.lineage(id, **query)
            if box.key:
                href = at.link.lineage(seen.start, **query, apart=[*apart, box.key])
            about = ", ".join(
                filter(None, [box.kind, box.state, f"{many} alike" if box.key else ""])
            )
            name = plain(box.name, 300)
            found.append(
                Drawn(
                    x=x,
                    y=y,
                    kind=box.kind,
                    state=box.state,
                    name=box.name,
                    many=many,
                    start=id == seen.start,
                    href=href,
                    page=href if box.key else at.link.node(box.kind, id),
                    first=_fitted(first, _WIDE),
                    second=_fitted(second, _WIDE_SMALL),
                    title=f"{name} ({about})",
                    spoken=f"{name}, {about}" + (", the start" if id == seen.start else ""),
                    parents=parents[id],
                )
            )
    return found


def _lines(box: Box) -> tuple[str, str]:
    """What the two lines of a box say."""
    if box.kind == "artifact":
        return plain(box.name[:16], 20), "from outside"
    dataset, _, rest = box.name.partition(":")
    if box.kind == "version":
        return plain(box.name, 200), f"version · {plain(box.state, 20)}"
    many = f"{len(box.members)} × " if box.key else ""
    return plain(rest, 200), plain(f"{many}{box.state} · {dataset}", 200)


def _fitted(text: str, wide: int) -> str:
    """As much of a text as a box has room for, its end kept: that is where names differ."""
    if _width(text) <= wide:
        return text
    head, tail = wide // 2 - 1, wide // 2
    while _width(text[:head]) > wide // 2:
        head -= 1
    while _width(text[-tail:]) > wide // 2:
        tail -= 1
    return f"{text[:head]}…{text[-tail:]}"


def _width(text: str) -> int:
    """Columns that a text takes; East Asian characters take two."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
