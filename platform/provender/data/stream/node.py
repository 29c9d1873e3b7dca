"""The plan of a stream: an immutable tree of operators over sources.

A node says what is known about its rows without reading them, how it can be divided, and what
counts for its fingerprint; `Node.open` starts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from provender.data.stream.flow import Flow, State, parted
from provender.data.stream.resuming import Resuming

if TYPE_CHECKING:
    from provender.data.features import Features

U = TypeVar("U", bound="Unary")


@dataclass(frozen=True, eq=False)
class Node:
    """One operator and what it works on."""

    name: ClassVar[str] = "node"

    @property
    def children(self) -> tuple[Node, ...]:
        """What it reads, in order."""
        return ()

    def with_children(self, children: Sequence[Node]) -> Node:
        """The same operator over something else."""
        del children
        return self

    def parameters(self) -> Any:
        """What can change its output, for the fingerprint; functions are given as they are."""
        return ()

    # -- what is known ---------------------------------------------------------------------

    def features(self) -> Features | None:
        """Columns and types, where they are known without running anything."""
        raise NotImplementedError

    def column_names(self) -> list[str] | None:
        """The columns, where they are known without running anything."""
        features = self.features()
        return None if features is None else list(features)

    def rows(self) -> int | None:
        """How many rows there are, where that is known."""
        return None

    # -- how it can be divided -------------------------------------------------------------

    def num_parts(self) -> int:
        """Into how many independent parts it falls, each read on its own."""
        return 1

    def pick(self, parts: Sequence[int]) -> Node:
        """Only the parts given, in the order given."""
        if list(parts) == [0]:
            return self
        raise NotImplementedError

    def permuted(self, key: int) -> Node:
        """With the order of its parts shuffled by a key, unless their order is fixed."""
        del key
        return self

    def mixed(self, parts: int, run: int) -> Node:
        """Reading several parts in turn, `run` rows of each, unless their order is fixed."""
        del parts, run
        return self

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        """A contiguous share of the rows, by known counts; None where they are not known.

        Args:
            count: how many shares.
            index: which of them.
            pad: make every share ``ceil(rows / count)`` rows, by beginning some one row early.
        """
        del count, index, pad
        return None

    def refined(self, count: int) -> Node | None:
        """The same rows in at least `count` parts, if that can be had."""
        del count
        return None

    def resharded(self, count: int | None) -> Node:
        """The same rows with the sources cut into finer shards where they can be."""
        return self.with_children([child.resharded(count) for child in self.children])

    @property
    def counted(self) -> bool:
        """Whether its parts know where their rows stand in the whole stream."""
        return False

    def numbered(self) -> Node:
        """The same, its blocks telling where their rows stand; only where `counted`."""
        raise NotImplementedError

    @property
    def wraps(self) -> bool:
        """Whether its states hold those of its child under ``up``, beside its own."""
        return True

    @property
    def numbers(self) -> bool:
        """Whether its states are positions by number, which mean the same however it is dealt out."""
        return False

    # -- running ---------------------------------------------------------------------------

    def resolved(self, run: Run) -> Node:
        """With everything that depends on the epoch decided."""
        return self.with_children([child.resolved(run) for child in self.children])

    def open(self, run: Run, state: State) -> Flow:
        """Starts it; `state` is None or a place that its flow made."""
        raise NotImplementedError


@dataclass(frozen=True)
class Run:
    """One pass.

    Attributes:
        epoch: which.
        shared: the seed for shuffles that were given none, where several processes must agree.
        seeds: seeds that a loaded state brought along.
        resuming: what holds until the pass is at the place where it begins.
        path: which of several times that a part of the chain is run in this pass.
    """

    epoch: int = 0
    shared: int | None = None
    seeds: Mapping[Any, int] = field(default_factory=dict)
    resuming: Resuming = field(default_factory=Resuming, compare=False)
    path: tuple[int, ...] = ()

    def within(self, number: int) -> Run:
        """The same pass, for the time with this number that a part of the chain is run."""
        return replace(self, path=(*self.path, number))


def start(node: Node, run: Run, state: State = None) -> Flow:
    """Starts a node at any place, also one that is some rows after one it made."""
    place, rows = parted(state)
    flow = node.open(run, place)
    if rows:
        run.resuming.advance(flow, rows)
    return flow


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """A node with one child."""

    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def with_children(self: U, children: Sequence[Node]) -> U:
        (child,) = children
        return self if child is self.child else replace(self, child=child)

    def over(self: U, child: Node) -> U:
        """The same operator over another child."""
        return replace(self, child=child)

    def features(self) -> Features | None:
        return self.child.features()

    def num_parts(self) -> int:
        return self.child.num_parts()

    def pick(self, parts: Sequence[int]) -> Node:
        return self.over(self.child.pick(parts))

    def permuted(self, key: int) -> Node:
        return self.over(self.child.permuted(key))

    def mixed(self, parts: int, run: int) -> Node:
        return self.over(self.child.mixed(parts, run))

    def refined(self, count: int) -> Node | None:
        child = self.child.refined(count)
        return None if child is None else self.over(child)

    def _shared(self: U, count: int, index: int, pad: bool) -> U | None:
        """`balanced` for operators of which one row need not be one row of the child."""
        share = None if pad else self.child.balanced(count, index)
        return None if share is None else self.over(share)
