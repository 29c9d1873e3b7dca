"""A lineage graph drawn as a tree; what was drawn before is named, not drawn again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from provender.cli.stage_rows import Row, cells

if TYPE_CHECKING:
    from provender.catalog import Lineage, LineageNode


def tree_lines(graph: Lineage, direction: str, *, verbose: bool) -> Iterator[str]:
    """Draws the graph from its start node.

    Args:
        graph: nodes, the start first, and edges.
        direction: ``up`` or ``down``, as it was asked for.
        verbose: whether alike shards have lines of their own.

    Yields:
        Lines.
    """
    nodes = {node.id: node for node in graph.nodes}
    below: dict[str, dict[str, None]] = defaultdict(dict)
    for edge in graph.edges:
        near, far = (edge.child, edge.parent) if direction == "up" else (edge.parent, edge.child)
        if near in nodes and far in nodes:
            below[near][far] = None
    start = graph.nodes[0]
    if not verbose:
        _leave_out_shortcuts(below, start.id)
    yield _text(start)
    drawn = {start.id}
    # Depth first with a stack of its own, since a long chain would exhaust Python's.
    stack = _level(nodes, below, start.id, "", verbose)
    while stack:
        prefix, mark, text, id = stack.pop()
        again = id in drawn and bool(below.get(id))
        yield f"{prefix}{mark}{text}{'  (see above)' if again else ''}"
        if again:
            continue
        drawn.add(id)
        deeper = prefix + ("   " if mark.startswith("└") else "│  ")
        stack += _level(nodes, below, id, deeper, verbose)


def _leave_out_shortcuts(below: dict[str, dict[str, None]], start: str) -> None:
    """Drops the edges from the start to what is reached through its other neighbours anyway.

    A version has an edge to every stage behind it. In a graph without cycles a neighbour with
    another edge to it is reached through that one; what only a cycle leads to keeps its own.
    """
    others = {far for near, fars in below.items() if near != start for far in fars}
    direct = list(below.get(start, ()))
    kept = [far for far in direct if far not in others]
    reached = _reached(below, kept, {start})
    for far in direct:
        if far not in reached:
            kept.append(far)
            reached |= _reached(below, [far], reached)
    below[start] = dict.fromkeys(kept)


def _reached(below: dict[str, dict[str, None]], roots: list[str], known: set[str]) -> set[str]:
    found = set(known)
    todo = [root for root in roots if root not in found]
    while todo:
        id = todo.pop()
        if id not in found:
            found.add(id)
            todo += below.get(id, ())
    return found


def _level(
    nodes: dict[str, LineageNode],
    below: dict[str, dict[str, None]],
    id: str,
    prefix: str,
    verbose: bool,
) -> list[tuple[str, str, str, str]]:
    """The lines right below a node, last first: prefix, branch, text, node id."""
    found = [nodes[each] for each in below.get(id, ())]
    found.sort(key=lambda node: (node.kind, node.name))
    groups: dict[tuple[str, str], list[LineageNode]] = {}
    for node in found:
        stem, _, number = node.name.rpartition("/")
        alike = node.kind == "stage" and number.isdigit() and not verbose
        key = (stem, str(sorted(below.get(node.id, ())))) if alike else (node.id, "")
        groups.setdefault(key, []).append(node)
    lines = []
    for group in groups.values():
        text = _text(group[0])
        if len(group) > 1:
            rows = [Row(node.name, str(node.facts.get("state", ""))) for node in group]
            text = ", ".join(f"{key}  {state}" for key, state, _ in cells(rows, verbose=False))
        lines.append((text, group[0].id))
    last = len(lines) - 1
    return [
        (prefix, "└─ " if i == last else "├─ ", text, id) for i, (text, id) in enumerate(lines)
    ][::-1]


def _text(node: LineageNode) -> str:
    about = node.facts.get("status") or node.facts.get("state") or ""
    name = f"artifact {node.name}" if node.kind == "artifact" else node.name
    return f"{name}  {about}".rstrip()
