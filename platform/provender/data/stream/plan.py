"""Rewriting a chain so that it does less: the rows are the same, in the same order.

`skip` and `take` become ranges of the source where every row below gives one row; shuffles go
below operators that work row by row, so that what waits in a buffer is as it was read; columns
that nobody wants are not read.
"""

from __future__ import annotations

from dataclasses import replace

from provender.data.stream.columns import Remove, Select
from provender.data.stream.filtering import Filter
from provender.data.stream.global_order import GlobalShuffle
from provender.data.stream.leaf import Leaf
from provender.data.stream.limits import Shard, Skip, Take
from provender.data.stream.mapping import MapBatches
from provender.data.stream.node import Node
from provender.data.stream.numbering import Numbered
from provender.data.stream.prefetch import Prefetch
from provender.data.stream.rowwise import RowWise
from provender.data.stream.shuffle import BufferShuffle
from provender.data.stream.split import NodeSplit, divide, spread


def planned(node: Node) -> Node:
    """The chain as it is run."""
    return _simpler(node.with_children([planned(child) for child in node.children]))


def _simpler(node: Node) -> Node:
    if isinstance(node, Skip | Take):
        return _limited(node)
    if isinstance(node, BufferShuffle | GlobalShuffle):
        return _shuffled(node)
    if isinstance(node, Shard):
        return _sharded(node)
    if isinstance(node, RowWise | Prefetch) and isinstance(node.child, NodeSplit):
        return node.child.over(_simpler(node.over(node.child.child)))
    if isinstance(node, Filter | MapBatches) and node.call.with_indices:
        return _numbered(node)
    if isinstance(node, Select | Remove):
        return _projected(node)
    return node


def _numbered(node: Filter | MapBatches) -> Node:
    """Behind a split rows keep the numbers of the undivided stream: they bring them along."""
    split = node.child
    if not isinstance(split, NodeSplit):
        return node
    return replace(node, child=split.over(_simpler(Numbered(split.child))), from_blocks=True)


def _limited(node: Skip | Take) -> Node:
    child = node.child
    if isinstance(child, RowWise):
        below = _limited(node.over(child.child))
        if isinstance(node, Skip) and child.numbers_rows:
            return replace(child, child=below, base=child.base + node.count)
        return child.over(below)
    if isinstance(child, Leaf):
        cut = (
            child.limited(node.count, None)
            if isinstance(node, Skip)
            else child.limited(0, node.count)
        )
        if cut is not None:
            return cut
    if isinstance(node, Skip) and isinstance(child, Skip):
        return replace(child, count=child.count + node.count)
    return node


def _shuffled(node: BufferShuffle | GlobalShuffle) -> Node:
    child = node.child
    if isinstance(child, NodeSplit):
        return child.over(_shuffled(node.over(child.child)))
    if isinstance(child, RowWise):
        if not child.numbers_rows:
            return child.over(_shuffled(node.over(child.child)))
        if isinstance(node, GlobalShuffle):
            # Rows come with their numbers before the shuffle.
            return replace(child, child=_shuffled(node.over(child.child)), from_blocks=True)
    return node


def _sharded(node: Shard) -> Node:
    child = node.child
    parts = child.num_parts()
    if parts < node.count:
        return divide(child, node.count, node.index)
    if node.contiguous:
        return child.pick(spread(range(parts), node.count, node.index))
    return child.pick(range(node.index, parts, node.count))


def _projected(node: Select | Remove) -> Node:
    child = node.child
    if isinstance(child, Leaf) and (features := child.features()) is not None:
        if isinstance(node, Select):
            names = list(node.columns)
        else:
            names = [name for name in features if name not in node.columns]
            if not set(node.columns) <= set(features) or not names:
                return node
        if set(names) <= set(features):
            return child.projected(names)
    if isinstance(child, BufferShuffle | GlobalShuffle | Skip | Take):
        return child.over(_projected(node.over(child.child)))
    return node
