"""Ranges of rows of a chain, by arithmetic where that can be had."""

from __future__ import annotations

from dataclasses import replace

from provender.data.sources.base import ProjectedSource, Source
from provender.data.sources.cast import CastSource
from provender.data.stream.batching import Batch
from provender.data.stream.concat import Concat
from provender.data.stream.global_order import GlobalShuffle
from provender.data.stream.leaf import Leaf, Piece
from provender.data.stream.limits import Skip, Take
from provender.data.stream.node import Node
from provender.data.stream.prefetch import Prefetch
from provender.data.stream.rowwise import RowWise
from provender.errors import SettingsError


def even_range(node: Node, count: int, index: int) -> Node:
    """One of `count` contiguous shares of equal length, some of which begin one row early.

    Files of lines are counted, without being parsed, if it takes that to know the number of rows.

    Raises:
        SettingsError: nobody can know the number of rows without making them.
    """
    share = node.balanced(count, index, pad=True)
    if share is not None:
        return share
    total = node.rows()
    if total is None:
        node = counted(node)
        share, total = node.balanced(count, index, pad=True), node.rows()
    if share is not None:
        return share
    if total is None:
        raise SettingsError(
            'equal="balance" needs the number of rows to be known, which '
            f"{_unknowing(node)} does not tell before it was read.",
            where="split_dataset_by_node",
            hint='Use equal="drop" or equal="pad", which work without.',
        )
    each = -(-total // count)
    start = max(total * (index + 1) // count - each, 0)
    return ranged(node, start, min(start + each, total))


def ranged(node: Node, start: int, stop: int) -> Node:
    """Rows `start` to ``stop - 1`` of a chain whose number of rows is known."""
    if isinstance(node, Leaf):
        cut = node.limited(start, stop)
        if cut is not None:
            return cut
    if isinstance(node, RowWise):
        below = ranged(node.child, start, stop)
        if node.numbers_rows and not node.from_blocks:
            return replace(node, child=below, base=node.base + start * node.step)
        return node.over(below)
    if isinstance(node, Prefetch):
        return node.over(ranged(node.child, start, stop))
    if isinstance(node, Batch):
        rows = node.child.rows()
        assert rows is not None
        return node.over(ranged(node.child, start * node.size, min(stop * node.size, rows)))
    if isinstance(node, GlobalShuffle):
        own = node.ranged(start, stop)
        if own is not None:
            return own
    if isinstance(node, Concat):
        return _ranged_parts(node, start, stop)
    return Take(Skip(node, start) if start else node, stop - start)


def _ranged_parts(node: Concat, start: int, stop: int) -> Node:
    kept: list[Node] = []
    at = 0
    for each in node.parts:
        rows = each.rows() or 0
        low, high = max(start - at, 0), min(stop - at, rows)
        if low < high:
            kept.append(each if (low, high) == (0, rows) else ranged(each, low, high))
        at += rows
    return replace(node, parts=tuple(kept))


def counted(node: Node) -> Node:
    """The same, with the ends of shards found where the source has a quicker way than to read."""
    if not isinstance(node, Leaf):
        return node.with_children([counted(child) for child in node.children])
    if type(_read_by(node.source)).count_rows is Source.count_rows:
        return node
    return replace(node, pieces=tuple(_ended(node, piece) for piece in node.pieces))


def _ended(leaf: Leaf, piece: Piece) -> Piece:
    if leaf.length(piece) is not None:
        return piece
    if piece.shard not in leaf.ends:
        leaf.ends[piece.shard] = _read_by(leaf.source).count_rows(piece.shard)
    return piece._replace(stop=max(leaf.ends[piece.shard], piece.start))


def _read_by(source: Source) -> Source:
    """The source below those that only change columns: it has the same shards."""
    while isinstance(source, ProjectedSource | CastSource):
        source = source._source
    return source


def _unknowing(node: Node) -> str:
    """What keeps the number of rows from being known."""
    for child in node.children:
        if child.rows() is None:
            return _unknowing(child)
    return type(node.source).__name__ if isinstance(node, Leaf) else node.name
