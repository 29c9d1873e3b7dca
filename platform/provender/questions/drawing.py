"""Lineage as text that other programs draw: Graphviz DOT and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provender.catalog import Lineage, LineageNode
    from provender.questions.answers import LineageGraph

_SHAPES = {"version": "box", "stage": "ellipse", "artifact": "note", "missing": "octagon"}
_BRACKETS = {
    "version": ('["', '"]'),
    "stage": ('(["', '"])'),
    "artifact": ('[/"', '"/]'),
    "missing": ('{{"', '"}}'),
}

# Mermaid's own codes, for everything that could end a text or begin markup.
_MERMAID_CODES = {ord(sign): f"#{ord(sign)};" for sign in "#&<>\"'`;"}


def dot(graph: Lineage | LineageGraph) -> Iterator[str]:
    """The graph in Graphviz's language, an arrow from what was there first to what was made.

    Yields:
        Lines.
    """
    yield "digraph lineage {"
    yield "  rankdir=LR;"
    yield '  node [fontname="sans-serif"];'
    ids = {node.id: f"n{i}" for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        shape = _SHAPES.get(node.kind, "box")
        bold = " style=bold" if node is graph.nodes[0] else ""
        yield f"  {ids[node.id]} [label={_dot_text(label(node))} shape={shape}{bold}];"
    for parent, child in _arrows(graph, ids):
        yield f"  {parent} -> {child};"
    yield "}"


def mermaid(graph: Lineage | LineageGraph) -> Iterator[str]:
    """The graph in Mermaid's language, as GitHub and many notebooks draw it.

    Yields:
        Lines.
    """
    yield "flowchart LR"
    ids = {node.id: f"n{i}" for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        left, right = _BRACKETS.get(node.kind, _BRACKETS["version"])
        yield f"  {ids[node.id]}{left}{_mermaid_text(label(node))}{right}"
    for parent, child in _arrows(graph, ids):
        yield f"  {parent} --> {child}"


def label(node: LineageNode) -> str:
    """What a node is called in a drawing: its name, and its state where that is not the usual."""
    name = f"artifact {node.name[:12]}" if node.kind == "artifact" else node.name
    state = str(node.facts.get("status") or node.facts.get("state") or "")
    return name if state in ("", "published", "succeeded") else f"{name} ({state})"


def _arrows(graph: Lineage | LineageGraph, ids: dict[str, str]) -> Iterator[tuple[str, str]]:
    drawn: set[tuple[str, str]] = set()
    for edge in graph.edges:
        if edge.parent not in ids or edge.child not in ids:
            continue
        arrow = (ids[edge.parent], ids[edge.child])
        if arrow not in drawn:
            drawn.add(arrow)
            yield arrow


def _dot_text(text: str) -> str:
    flat = " ".join(text.split())
    escaped = flat.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _mermaid_text(text: str) -> str:
    flat = " ".join(text.split())
    return flat.translate(_MERMAID_CODES)
