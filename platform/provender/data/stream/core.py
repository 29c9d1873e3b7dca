"""`IterableDataset`: iterating, positions, what is known without reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from provender.data.stream.block import Block, join
from provender.data.stream.fingerprinting import notice
from provender.data.stream.formats import PLAIN, Format, Shaper
from provender.data.stream.leaf import Leaf
from provender.data.stream.node import Node
from provender.data.stream.pace import Pace
from provender.data.stream.passing import Compiled, Pass, check_share, compiled
from provender.data.stream.plan import planned
from provender.data.stream.seeds import Seed
from provender.data.stream.split import NodeSplit
from provender.data.stream.state import (
    END,
    Chain,
    chain_of,
    checked,
    document,
    nodes_of,
    seeds_of,
    weights_of,
)
from provender.errors import ConflictError

if TYPE_CHECKING:
    from provender.data.features import Features
    from provender.data.sources.base import Source

D = TypeVar("D", bound="Core")
_LOOKED_AT = 32
"""Rows that are made to find the columns of a function's output."""


class Core:
    """The part of a stream that is not an operator.

    Args:
        source: a `provender.data.sources.Source`, or a chain of operators.
        split: the split's name, for people.
        info: what is known of the dataset, for people.
    """

    def __init__(
        self, source: Source | Node, *, split: str | None = None, info: Any = None
    ) -> None:
        self._node: Node = source if isinstance(source, Node) else Leaf.of(source)
        self._split = split
        self._info = info
        self._format: Format = PLAIN
        self._epoch = 0
        self._pass: Pass | None = None
        self._pending: dict[str, Any] | None = None
        self._seeds: dict[Seed, int] = {}
        self._found: tuple[Any] | None = None

    def _derived(self: D, node: Node) -> D:
        """The same with another chain; passes and positions are not carried over."""
        new = type(self).__new__(type(self))
        new.__dict__.update(
            _node=node,
            _split=self._split,
            _info=self._info,
            _format=self._format,
            _epoch=self.epoch,
            _pass=None,
            _pending=None,
            _seeds=self._seeds,
            _found=None,
        )
        return new

    # -- what is known ---------------------------------------------------------------------

    @cached_property
    def _plan(self) -> Node:
        return planned(self._node)

    @cached_property
    def _chain(self) -> Chain:
        return chain_of(self._node)

    @property
    def split(self) -> str | None:
        """The split's name."""
        return self._split

    @property
    def info(self) -> Any:
        """What is known of the dataset: description, licence and so on."""
        return self._info

    description = property(lambda self: getattr(self._info, "description", None))
    citation = property(lambda self: getattr(self._info, "citation", None))
    homepage = property(lambda self: getattr(self._info, "homepage", None))
    license = property(lambda self: getattr(self._info, "license", None))
    version = property(lambda self: getattr(self._info, "version", None))

    @property
    def fingerprint(self) -> str:
        """40 hex digits for the chain: its sources, functions and parameters."""
        return self._chain.digest

    @property
    def epoch(self) -> int:
        """The number of the pass that comes next; see `set_epoch`."""
        return int(self._epoch)

    @property
    def num_shards(self) -> int:
        """Into how many parts the stream falls that can be read on their own."""
        return self._plan.num_parts()

    @property
    def n_shards(self) -> int:
        """As `num_shards`."""
        return self.num_shards

    @property
    def features(self) -> Features | None:
        """Columns and types.

        After a `map` without ``features=`` they are those of the first rows, which are made for
        it on first use (at most 32, or one batch). None if these do not fit into a table.
        """
        known = self._plan.features()
        if known is not None:
            return known.copy()
        if self._found is None:
            self._found = (self._looked_up(),)
        found = self._found[0]
        return None if found is None else found.copy()

    @property
    def column_names(self) -> list[str] | None:
        """Names of the columns; found as `features` where they are not known."""
        known = self._plan.column_names()
        if known is not None:
            return known
        features = self.features
        return None if features is None else list(features)

    @property
    def num_columns(self) -> int | None:
        """How many columns there are."""
        names = self.column_names
        return None if names is None else len(names)

    def _looked_up(self) -> Features | None:
        from provender.data.errors import FeatureTypeError
        from provender.data.features import Features

        flow = self._compiled(alone=True).open(None)
        try:
            block = flow.pull(_LOOKED_AT)
            if block is None:
                return None
            return Features.from_arrow_schema(block.as_table().schema)
        except FeatureTypeError:
            return None
        finally:
            flow.close()

    def _resolve_features(self: D) -> D:
        """The same stream, its features found if they were not known."""
        self.features  # noqa: B018 - finds them
        return self

    def __len__(self) -> int:
        """How many rows there are.

        Raises:
            TypeError: nobody knows without reading them.
        """
        rows = self._plan.rows()
        if rows is None:
            raise TypeError(
                "The number of rows of this stream is not known before it was read; "
                "sum(1 for _ in ds) counts them."
            )
        return rows

    def __bool__(self) -> bool:
        return True

    @property
    def skipped(self) -> dict[str, int]:
        """What ``on_error="skip"`` passed over in this process, by what it was."""
        counts: dict[str, int] = {}
        for node in nodes_of(self._node):
            if isinstance(node, Leaf):
                for what, count in node.source.skipped.items():
                    counts[what] = counts.get(what, 0) + count
        return counts

    def __repr__(self) -> str:
        names = self._plan.column_names()
        if names is None and self._found is not None and self._found[0] is not None:
            names = list(self._found[0])
        shown = "unknown until rows are read" if names is None else str(names)
        return f"IterableDataset({{\n    features: {shown},\n    num_shards: {self.num_shards}\n}})"

    # -- passes ----------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Says which pass comes next, for the order of shuffles and draws.

        With another epoch than before, `state_dict` is the beginning of that epoch from here on.

        Raises:
            ConflictError: a position of another epoch is loaded and waits to be gone on from.
        """
        pending = self._pending
        if pending is not None and epoch != pending["epoch"]:
            if pending["at"] != END:
                raise ConflictError(
                    f"A position of epoch {pending['epoch']} is loaded, and epoch {epoch} was asked for.",
                    where="set_epoch",
                    hint="Iterate to finish that epoch first, or drop the position with "
                    "load_state_dict(None).",
                )
            self._pending = None
        if epoch != self.epoch:
            self._pass = None
        self._put_epoch(epoch)

    def _put_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def _compiled(self, *, alone: bool = False) -> Compiled:
        root = self._plan
        if alone and isinstance(root, NodeSplit):
            root = root.child
        # Before any function is called: its calls may change what it reaches.
        notice(nodes_of(self._node))
        then = {} if self._pending is None else self._pending.get("weights", ())
        weights = dict(zip(weights_of(self._node), then, strict=False))
        return compiled(root, self.epoch, self._seeds, weights)

    def _begin(self) -> Pass:
        """Starts the next pass, at the position that was loaded if one was."""
        ready = self._compiled()
        at = None
        pending, self._pending = self._pending, None
        if pending is not None:
            try:
                check_share(pending["split"], ready.split)
            except ConflictError:
                self._pending = pending
                raise
            at = pending["at"]
        weights = () if pending is None else pending.get("weights", ())
        self._pass = Pass(ready, self.epoch, at, weights)
        return self._pass

    def __iter__(self) -> Iterator[Any]:
        """The rows, each a dict, or what `with_format` says."""
        return self._iter_rows(self._begin())

    def _iter_rows(self, running: Pass) -> Iterator[Any]:
        if self._pass is None:
            # Another epoch was asked for, or a position loaded, since the iterator was made.
            running = self._begin()
        shaper, pace = Shaper(self._format), Pace()
        try:
            while (block := running.pull(pace.start())) is not None:
                rows = shaper.rows(block)
                pace.stop(block.count)
                # The place is counted before a row is given: who has it goes on after it.
                for running.given, row in enumerate(rows, 1):
                    yield row
        finally:
            running.close()

    def iter(self, batch_size: int, drop_last_batch: bool = False) -> Iterator[Any]:
        """The rows in batches: dicts of columns, tables or frames, as `with_format` says.

        Args:
            batch_size: rows of a batch.
            drop_last_batch: leave out a last batch that is smaller.

        Raises:
            ValueError: the size is not positive.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}.")
        return self._iter_batches(self._begin(), batch_size, drop_last_batch)

    def _iter_batches(self, running: Pass, size: int, drop_last: bool) -> Iterator[Any]:
        if self._pass is None:
            running = self._begin()
        shaper, pace = Shaper(self._format), Pace()
        try:
            while (block := running.pull(-(-pace.start() // size) * size)) is not None:
                block = _topped_up(running, block, size)
                pace.stop(block.count)
                for begin in range(0, block.count, size):
                    batch = block.slice(begin, begin + size)
                    if batch.count < size and drop_last:
                        running.given = block.count
                        return
                    made = shaper.batch(batch)
                    running.given = begin + batch.count
                    yield made
        finally:
            running.close()

    # -- positions -------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The position of the pass begun last: after the last row that it gave.

        A pass begins with ``iter(ds)``. Before the first one, and once `set_epoch` has asked for
        another epoch, it is the beginning of the pass that comes next.

        JSON, mostly under a kilobyte. It names the data and the chain of operators by their
        fingerprints, and the epoch.
        """
        running = self._pass
        if running is not None and running.done and running.epoch != self.epoch:
            # In a worker of a loader: the epoch was set in another process.
            running = None
        seeds = [self._seeds.get(seed, seed.drawn or 0) for seed in seeds_of(self._node)]
        if self._pending is not None:
            return dict(self._pending)
        own = weights_of(self._node)
        weights: list[Any] = [{"now": each} for each in own.values()]
        if running is None:
            return document(self._chain, self.epoch, self._compiled_split(), None, seeds, weights)
        if running.unread:
            weights = list(running.weights)
        else:
            weights = [running.resuming.told(seed, each) for seed, each in own.items()]
        return document(self._chain, running.epoch, running.split, running.at(), seeds, weights)

    def _compiled_split(self) -> str | None:
        return self._compiled().split

    def load_state_dict(self, state_dict: Mapping[str, Any] | None) -> None:
        """Lets the next pass go on from a position; the pass after it is a full one again.

        Args:
            state_dict: what `state_dict` returned, here, in another process, or through JSON; None
                drops a position that was loaded.

        Raises:
            ConflictError: it is a position of other data, of another chain, or of another share of
                the rows; it says what differs.
        """
        if state_dict is None:
            self._pending = None
            return
        found = checked(state_dict, self._chain)
        for seed, value in zip(seeds_of(self._node), found.get("seeds", []), strict=False):
            self._seeds = {**self._seeds, seed: int(value)}
        self._put_epoch(int(found["epoch"]))
        self._pending = found
        self._pass = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process starts anew, or where the original was told to.
        return {**self.__dict__, "_pass": None}


def _topped_up(running: Pass, block: Block, size: int) -> Block:
    """A block of whole batches, unless the stream ends."""
    parts, count = [block], block.count
    while count % size:
        more = running.more(size - count % size)
        if more is None:
            break
        parts.append(more)
        count += more.count
    return join(parts)
