"""Who gets which rows: nodes of a training job, and workers of a loader.

Whole shards where they come out even, otherwise ranges of rows by known counts, otherwise every
w-th row. In each case every row is given exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from provender.data.stream.batching import Batch
from provender.data.stream.flow import Flow, State
from provender.data.stream.global_order import GlobalShuffle
from provender.data.stream.node import Node, Run, Unary
from provender.data.stream.prefetch import Prefetch
from provender.data.stream.ranges import even_range
from provender.data.stream.rowwise import RowWise
from provender.data.stream.stride import EQUAL, Stride
from provender.errors import SettingsError

STRATEGIES = ("auto", "shards", "examples")


@dataclass(frozen=True, eq=False)
class NodeSplit(Unary):
    """The rows of one node out of several."""

    name: ClassVar[str] = "split_dataset_by_node"

    rank: int = 0
    world: int = 1
    strategy: str = "auto"
    equal: str | None = None

    def parameters(self) -> Any:
        return (self.rank, self.world, self.strategy, self.equal)

    def column_names(self) -> list[str] | None:
        return self.child.column_names()

    def rows(self) -> int | None:
        if self.equal == "balance":
            total = self.child.rows()
            return None if total is None else -(-total // self.world)
        return self.divided(self.child).rows()

    def num_parts(self) -> int:
        if self.equal == "balance" and self.child.rows() is None:
            # Counting would read the data, which only a pass may do.
            return 1
        return self.divided(self.child).num_parts()

    def by_rows(self, child: Node) -> bool:
        """Whether single rows are dealt out, so that any node can go on from any position."""
        if self.equal in ("drop", "pad") or self.strategy == "examples":
            return True
        if self.equal == "balance" or self.strategy == "shards":
            return False
        return child.num_parts() % self.world != 0

    def divided(self, child: Node) -> Node:
        """The rows of this node.

        Raises:
            SettingsError: the strategy does not go with what is known of the rows.
        """
        if self.world == 1:
            return child
        if self.equal == "balance":
            return even_range(child, self.world, self.rank)
        if self.by_rows(child):
            # Two strides stay two: a place of the undivided rows may be a place of a stride.
            return sunk(Stride(child, self.world, self.rank, 1, self.equal), merging=False)
        parts = child.num_parts()
        if parts < self.world:
            raise SettingsError(
                f"There are {parts} shards for {self.world} nodes.",
                where="split_dataset_by_node(strategy='shards')",
                hint="Use strategy='auto' or 'examples', or ds.reshard() first.",
            )
        return child.pick(range(self.rank, parts, self.world))

    def resolved(self, run: Run) -> Node:
        return self.divided(self.child.resolved(run))

    def open(self, run: Run, state: State) -> Flow:
        raise AssertionError("nodes are divided before the stream starts")


def check_split(rank: int, world: int, strategy: str, equal: str | None) -> None:
    """Raises where the arguments of `split_dataset_by_node` make no sense.

    Raises:
        SettingsError: naming the argument.
    """
    where = "split_dataset_by_node"
    if world < 1 or not 0 <= rank < world:
        raise SettingsError(
            f"There is no rank {rank} among {world} nodes.",
            where=where,
            hint="world_size is at least 1, rank from 0 to world_size - 1.",
        )
    if strategy not in STRATEGIES:
        hint = f"There are: {', '.join(STRATEGIES)}."
        raise SettingsError(f"There is no strategy {strategy!r}.", where=where, hint=hint)
    if equal not in EQUAL:
        hint = "There are: None, 'drop', 'pad', 'balance'."
        raise SettingsError(f"There is no equal={equal!r}.", where=where, hint=hint)
    if strategy == "shards" and equal is not None:
        raise SettingsError(
            f"strategy='shards' gives whole shards, which equal={equal!r} would cut.",
            where=where,
            hint="Leave out the strategy.",
        )


def divide(node: Node, count: int, index: int, even: bool = False) -> Node:
    """One of `count` shares of a stream, so that together they are every row once.

    Args:
        node: the stream, with its epoch decided.
        count: how many shares.
        index: which of them.
        even: make the number of rows of a share depend on that of all rows alone, never on where
            shards begin.
    """
    if count == 1:
        return node
    if even:
        share = node.balanced(count, index)
        return deal(node, count, index) if share is None else share
    parts = node.num_parts()
    if parts % count == 0:
        return node.pick(range(index, parts, count))
    share = node.balanced(count, index)
    if share is not None:
        return share
    finer = node if parts >= count else node.refined(count)
    if finer is not None:
        return finer.pick(range(index, finer.num_parts(), count))
    return deal(node, count, index)


def deal(node: Node, count: int, index: int) -> Node:
    """Every `count`-th row, also of a stream that is dealt out already."""
    return sunk(Stride(node, count, index))


def sunk(stride: Stride, merging: bool = True) -> Node:
    """A stride as deep as it can be, so that nobody makes rows that are another's.

    Args:
        stride: where it is now.
        merging: make one of it and a stride that it meets. Its places are then no longer made of
            places of what it deals out.
    """
    child = stride.child
    if (
        merging
        and isinstance(child, Stride)
        and child.equal is None
        and child.run == stride.run == 1
    ):
        offset = child.offset + child.step * stride.offset
        return replace(stride, child=child.child, step=child.step * stride.step, offset=offset)
    if isinstance(child, RowWise) and stride.run == 1:
        if stride.equal == "pad" and child.numbers_rows and not child.from_blocks:
            # Rows that come twice keep their number, which is not that of their place.
            return stride
        below = sunk(stride.over(child.child), merging)
        if child.numbers_rows and not child.from_blocks:
            return replace(
                child,
                child=below,
                offset=child.offset + stride.offset * child.step,
                step=child.step * stride.step,
            )
        return child.over(below)
    if isinstance(child, RowWise) and not child.numbers_rows:
        return child.over(sunk(stride.over(child.child), merging))
    if isinstance(child, Batch) and stride.run == 1:
        return child.over(sunk(replace(stride, child=child.child, run=child.size), merging))
    if isinstance(child, Prefetch):
        return child.over(sunk(stride.over(child.child), merging))
    if isinstance(child, GlobalShuffle):
        strided = child.strided(stride.step, stride.offset, stride.run, stride.equal)
        if strided is not None:
            return strided
    return stride


def spread(order: Sequence[int], count: int, index: int) -> list[int]:
    """A contiguous share of a sequence; where it is uneven the first shares are one longer."""
    share, longer = divmod(len(order), count)
    begin = index * share + min(index, longer)
    return list(order[begin : begin + share + (1 if index < longer else 0)])
