"""One pass over a stream: the chain made ready for an epoch, a node and a worker, and its place."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from provender.data.stream.draws import key_of
from provender.data.stream.flow import Flow, State, plus
from provender.data.stream.node import Node, Run, start
from provender.data.stream.resuming import Resuming
from provender.data.stream.seeds import Seed
from provender.data.stream.split import NodeSplit, deal, divide
from provender.data.stream.state import END, nodes_of
from provender.data.stream.stride import dealt, undealt
from provender.errors import ConflictError, ProvenderError

_UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""What operators raise for a place that they did not make."""


@dataclass(frozen=True)
class Compiled:
    """A chain ready to start.

    Attributes:
        node: what this process runs.
        whole: the chain that is dealt out row by row, where it is; its places are kept.
        deals: among how many.
        split: which share this is, where a place means nothing to the others.
        run: the pass.
    """

    node: Node
    run: Run
    whole: Node | None = None
    deals: int = 1
    split: str | None = None

    def open(self, at: State) -> Flow:
        """Starts at a kept place.

        A place of a chain that is dealt out may lie within a round of another number of nodes: the
        whole chain is asked for the place itself.

        Raises:
            ConflictError: the place is none of this chain.
        """
        try:
            flow = self._started(at)
        except ProvenderError:
            raise
        except _UNREADABLE as error:
            if at is None or self.run.resuming.failed:
                raise
            raise ConflictError(
                f"The place in the position is none of this stream ({type(error).__name__}: {error}).",
                where="load_state_dict",
                hint="Give it what state_dict() returned, unchanged.",
            ) from error
        self.run.resuming.settle()
        return flow

    def _started(self, at: State) -> Flow:
        if self.whole is not None and at is not None:
            flow = start(self.whole, self.run, at)
            at = dealt(self.node, flow.state())
            flow.close()
        return start(self.node, self.run, at)

    def place(self, state: State, rows: int) -> State:
        """The place to keep for so many rows after a place of the flow."""
        kept = plus(state, rows)
        return kept if self.whole is None else undealt(self.node, kept, self.deals)


def worker() -> tuple[int, int]:
    """Number of this process among the workers of a torch loader, and how many there are."""
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return (0, 1) if info is None else (int(info.id), int(info.num_workers))


def compiled(
    root: Node,
    epoch: int,
    seeds: Mapping[Seed, int],
    weights: Mapping[Seed, Mapping[str, Any]] | None = None,
) -> Compiled:
    """Makes a planned chain ready.

    Args:
        root: the planned chain.
        epoch: which pass.
        seeds: seeds that a position brought along.
        weights: what that position says of the weights of draws; see `Resuming`.
    """
    split = any(isinstance(node, NodeSplit) for node in nodes_of(root))
    shared = key_of("shared", *(node.name for node in nodes_of(root))) >> 80 if split else None
    run = Run(epoch, shared, seeds, Resuming(weights))
    index, workers = worker()
    inner_splits = [
        node for node in nodes_of(root) if isinstance(node, NodeSplit) and node is not root
    ]
    shares = [f"node {node.rank} of {node.world}" for node in inner_splits if node.world > 1]
    if workers > 1:
        shares.append(f"worker {index} of {workers}")
    label = ", ".join(shares) or None
    if not isinstance(root, NodeSplit) or root.world == 1:
        inner = root.child if isinstance(root, NodeSplit) else root
        made = Compiled(inner.resolved(run), run, split=label)
    else:
        whole = root.child.resolved(run)
        if root.by_rows(whole):
            made = Compiled(root.divided(whole), run, whole, root.world, label)
        else:
            share = f"node {root.rank} of {root.world}"
            label = f"{share}, {label}" if label else share
            made = Compiled(root.divided(whole), run, split=label)
    if workers == 1:
        return made
    # Nodes with as many rows shall also have as many in each of their workers.
    even = any(isinstance(node, NodeSplit) and node.equal == "balance" for node in nodes_of(root))
    if root.name == NodeSplit.name and made.whole is not None and made.whole.num_parts() >= workers:
        # Workers share out the shards, and of each row by row what this node gets of it.
        assert isinstance(root, NodeSplit)
        node: Node = root.divided(divide(made.whole, workers, index))
    elif made.whole is not None:
        node = deal(made.node, workers, index)
    else:
        node = divide(made.node, workers, index, even)
    if label and made.whole is not None:
        assert isinstance(root, NodeSplit)
        label = f"node {root.rank} of {root.world}, {label}"
    return replace(made, node=node, whole=None, deals=1, split=label)


class Pass:
    """A running pass and where it is; nothing is opened before the first `pull`.

    Attributes:
        given: rows of the current block that the user has.
        weights: what the position that it was told to begin at says of the weights of draws.
        done: it has ended or was left.
    """

    def __init__(
        self,
        compiled_: Compiled,
        epoch: int,
        at: State,
        weights: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._compiled = compiled_
        self.epoch = epoch
        self.split = compiled_.split
        self._before: State = None
        self._loaded = at
        self.weights = weights
        self.given = 0
        self._ended = self.done = at == END
        self.flow: Flow | None = None

    @property
    def unread(self) -> bool:
        """Whether its place still is the one it was told to begin at."""
        return self._loaded is not None

    def pull(self, limit: int) -> Any:
        """The next block, its place being kept; None at the end."""
        if self.done:
            return None
        if self.flow is None:
            self.flow = self._compiled.open(self._loaded)
            _open.add(self)
        before = self.flow.state()
        self._before, self._loaded, self.given = before, None, 0
        block = self.flow.pull(limit)
        if block is None:
            self._ended = self.done = True
        return block

    @property
    def resuming(self) -> Resuming:
        """What was told to the operators for the way to the place."""
        return self._compiled.run.resuming

    def more(self, limit: int) -> Any:
        """Rows that go on after the current block, whose place stays."""
        return None if self.flow is None else self.flow.pull(limit)

    def at(self) -> State:
        """The place of the row that the user gets next."""
        if self._ended:
            return END
        if self._loaded is not None:
            return self._loaded
        return self._compiled.place(self._before, self.given)

    def close(self) -> None:
        """Ends the pass; its place stays known."""
        self.done = True
        flow, self.flow = self.flow, None
        if flow is not None:
            flow.close()


_open: weakref.WeakSet[Pass] = weakref.WeakSet()


def _close_all() -> None:
    """Closes what still runs while modules are whole: after that a generator cannot end properly."""
    for running in list(_open):
        with suppress(Exception):
            running.close()


atexit.register(_close_all)


def check_share(split: str | None, own: str | None) -> None:
    """Raises where a position is that of another share of the rows.

    Raises:
        ConflictError: saying whose it is.
    """
    if split != own:
        raise ConflictError(
            f"The position is that of {split or 'an undivided stream'}; "
            f"this is {own or 'an undivided stream'}.",
            where="load_state_dict",
            hint="Load it on the same node and worker. Positions of a stream split with "
            "strategy='examples' fit every node and any number of them.",
            facts={"position": split, "here": own},
        )
